"""Faults of barriers, warps and loops, each on the least PTX that has it; and what looks like one but is none."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import ELEMENTS, fault, go, in_and_out, indexed, kernel, numbers, tensors


@pytest.mark.parametrize("seed", range(3))
def test_a_barrier_does_not_wait_for_threads_that_have_exited(seed: int) -> None:
    """Neither for some of a warp nor for whole warps: PTX ISA 9.1, sections of barrier and exit."""
    leave = "setp.{}.u32 %p1, %r0, {};\n@%p1 ret;\n"
    swap = "st.shared.b32 [%r6], %r0;\nbar.sync 0;\nxor.b32 %r7, %r6, 4;\nld.shared.b32 %r8, [%r7];\n"
    store = "st.global.b32 [%rd12], %r8;"
    for compare, count in (("ge", 6), ("ge", 32), ("ge", 64)):
        body = leave.format(compare, count) + swap + store
        bound = in_and_out(count, "out")
        assert go(indexed(body, 512), bound, block=96, seed=seed).ok


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("space", ["shared", "global"])
def test_a_barrier_orders_nothing_for_a_thread_that_has_exited(space: str, seed: int) -> None:
    """It is not at the barrier. What it did before an earlier one is ordered."""
    own, next_one = {"shared": ("[%r6]", "[%r6+4]"), "global": ("[%rd12]", "[%rd12+4]")}[space]
    body = f"""
setp.eq.u32 %p1, %r0, 32;
setp.eq.u32 %p2, %r0, 31;
@%p1 st.{space}.b32 {own}, 7;
{{}}
@%p1 ret;
bar.sync 0;
@%p2 ld.{space}.b32 %r8, {next_one};
"""
    assert go(indexed(body.format("bar.sync 0;"), 512), in_and_out(64, "inout"), block=64, seed=seed).ok
    found = fault(indexed(body.format(""), 512), in_and_out(64, "inout"), block=64, seed=seed)
    assert found.kind == {"shared": "race", "global": "unordered"}[space], str(found)


def test_a_count_that_exited_warps_never_reach() -> None:
    body = "setp.ge.u32 %p1, %r0, {};\n@%p1 ret;\nbar.sync 0, 64;"
    assert go(indexed(body.format(33)), in_and_out(64, "inout"), block=64).ok  # the second warp comes, with one thread
    found = fault(indexed(body.format(32)), in_and_out(64, "inout"), block=64)
    assert (found.kind, found.thread) == ("barrier", (32, 0, 0))
    assert "which counts 64, and 32 have exited" in found.explanation


def test_warps_at_different_barriers() -> None:
    body = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra ONE;\nbar.sync 2;\nbra ON;\nONE:\nbar.sync 1;\nON:"
    assert fault(indexed(body), in_and_out(64, "inout"), block=64).kind == "deadlock"


def test_a_warp_split_over_two_barrier_instructions() -> None:
    body = "setp.lt.u32 %p1, %r0, {};\n@%p1 bra ONE;\nbar.sync 0;\nbra ON;\nONE:\nbar.sync 0;\nON:"
    assert fault(indexed(body.format(16)), in_and_out(64, "inout"), block=64).kind == "barrier"
    assert go(indexed(body.format(32)), in_and_out(64, "inout"), block=64).ok  # whole warps may


def test_runaway_loop() -> None:
    found = fault(indexed("LOOP:\nadd.s32 %r7, %r0, 1;\nbra LOOP;"), in_and_out(role="inout"), limit=5000)
    assert found.kind == "runaway" and "5000" in found.explanation
    assert fault(indexed("LOOP:\nadd.s32 %r7, %r0, 1;\nbra LOOP;"), in_and_out(role="inout")).kind == "runaway"


def test_shuffle_without_all_its_threads() -> None:
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 shfl.sync.idx.b32 %r7, %r0, 0, 31, {};"
    assert fault(indexed(body.format(-1)), in_and_out(role="inout")).kind == "converged"
    assert go(indexed(body.format(0xFFFF)), in_and_out(role="inout")).ok
    assert fault(indexed(body.format(0xFF)), in_and_out(role="inout")).thread == (8, 0, 0)


def test_trap() -> None:
    found = fault(indexed("setp.eq.u32 %p1, %r0, 9;\n@%p1 trap;"), in_and_out(role="inout"))
    assert (found.kind, found.thread) == ("trap", (9, 0, 0))


def test_source_lines_of_the_generated_module() -> None:
    text = kernel(ELEMENTS + ".loc 1 12 3\nld.global.b32 %r3, [%rd11+4];", shared=256)
    found = fault(text + f'.file 1 "{__file__}"\n', in_and_out())
    assert (found.source_file, found.source_line) == (__file__, 12)
    with open(__file__, encoding="utf-8") as file:
        assert found.source_text == file.read().splitlines()[11].strip()
    assert str(found).startswith(f"{__file__}:12: fault[out-of-bounds]")


def test_the_limit_is_a_threads_own() -> None:
    """Other threads' detours, and other orders, do not count."""
    count = "mov.u32 %r10, 0;\nL{0}:\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, {1};\n@%p2 bra L{0};\n"
    detours = "".join(
        f"setp.ne.u32 %p1, %r0, {i};\n@%p1 bra N{i};\n" + count.format(i, 10) + f"N{i}:\n" for i in range(24)
    )
    for seed in range(3):
        assert go(
            indexed(detours), in_and_out(role="inout"), limit=150, seed=seed
        ).ok  # 24 detours of 30, a thread makes one
        assert go(indexed(count.format(0, 40)), in_and_out(64, "inout"), block=64, limit=150, seed=seed).ok
        found = fault(indexed(count.format(0, 60)), in_and_out(64, "inout"), block=64, limit=150, seed=seed)
        assert found.kind == "runaway" and "more than 150 instructions" in found.explanation
    late = "setp.ne.u32 %p1, %r0, 3;\n@%p1 bra ON;\n" + count.format(0, 100) + "ON:\n"
    assert fault(indexed(late), in_and_out(role="inout"), limit=150).thread == (3, 0, 0)


def test_threads_that_have_exited_are_not_waited_for() -> None:
    """But there is nothing to be had from them, and none of them may be missing from a whole warp."""
    end = "setp.ge.u32 %p1, %r0, 16;\n@%p1 ret;\n"
    read = "shfl.sync.bfly.b32 %r7, %r0, {}, 31, -1;\nst.global.b32 [%rd12], %r7;"
    assert go(indexed(end + read.format(1)), in_and_out(16, "out")).ok
    assert fault(indexed(end + read.format(16)), in_and_out(16, "out")).kind == "never-written"
    out = np.zeros(16, np.uint32)
    vote = "setp.lt.u32 %p2, %r0, 20;\nvote.sync.ballot.b32 %r7, %p2, -1;\nst.global.b32 [%rd12], %r7;"
    assert go(indexed(end + vote), tensors((numbers(), "in"), (out, "out"))).ok and set(out.tolist()) == {0xFFFF}
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r4];\n"
    found = fault(indexed(end + load), in_and_out(16, "inout"))
    assert (found.kind, found.thread) == ("converged", (16, 0, 0))
    assert "all threads of a warp" in found.explanation


def test_a_barrier_that_need_not_be_reached_together() -> None:
    """barrier.sync without `.aligned`; bar.sync and `.aligned` are for whole warps."""
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra ONE;\n{0} 0;\nbra ON;\nONE:\n{0} 0;\nON:"
    assert go(indexed(body.format("barrier.sync")), in_and_out(role="inout")).ok
    for name in ("bar.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned"):
        assert fault(indexed(body.format(name)), in_and_out(role="inout")).kind == "barrier"
