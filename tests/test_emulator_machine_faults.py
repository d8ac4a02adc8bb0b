"""Each fault that the machine reports, on the least PTX that has it; and what looks like one but is none."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

INDEX = """
mad.lo.s32 %r2, %r1, 32, %r0;
mul.wide.s32 %rd10, %r2, 4;
add.s64 %rd11, %rd0, %rd10;
add.s64 %rd12, %rd1, %rd10;
mov.b32 %r4, smem;
shl.b32 %r5, %r0, 2;
add.s32 %r6, %r4, %r5;
"""


def numbers(n: int = 32) -> np.ndarray:
    return np.arange(n, dtype=np.uint32)


def pair(n: int = 32, role: str = "out") -> list:  # type: ignore[type-arg]
    return tensors((numbers(n), "in"), (np.zeros(n, np.uint32), role))  # type: ignore[arg-type]


def of(body: str, shared: int = 256) -> str:
    return kernel(INDEX + body, shared=shared)


# ---------------------------------------------------------------------------------------------------- global memory


@pytest.mark.parametrize(("shift", "thread", "says"), [(4, 31, "4 bytes past the end of A"), (-4, 0, "4 bytes before")])
def test_load_out_of_bounds(shift: int, thread: int, says: str) -> None:
    found = fault(of(f"ld.global.b32 %r3, [%rd11+{shift}];"), pair())
    assert (found.kind, found.tensor, found.thread, found.block) == ("out-of-bounds", "A", (thread, 0, 0), (0, 0, 0))
    assert says in found.explanation
    assert found.element == ((32,) if shift > 0 else (-1,))
    assert "ld.global.b32 %r3" in found.text and found.line is not None
    assert says in str(found)


def test_the_block_is_named() -> None:
    found = fault(of("ld.global.b32 %r3, [%rd11];"), pair(70), grid=3)
    assert (found.block, found.thread) == ((2, 0, 0), (6, 0, 0))


def test_vector_that_is_half_out_of_bounds() -> None:
    body = "setp.ne.u32 %p1, %r0, 0;\n@%p1 ret;\nld.global.v4.b32 {%r20,%r21,%r22,%r23}, [%rd0+112];\n"
    found = fault(of(body), pair(30))
    assert found.kind == "out-of-bounds" and "8 bytes past the end" in found.explanation


def test_a_gap_between_rows_is_out_of_bounds() -> None:
    whole = np.zeros((4, 10), np.uint32)
    found = fault(of("ld.global.b32 %r3, [%rd11];"), tensors((whole[:, :8], "in"), (numbers(), "out")), block=10)
    assert found.kind == "out-of-bounds" and found.element == (0, 8)
    assert "gap between the rows of A" in found.explanation


def test_a_store_into_a_gap() -> None:
    whole = np.zeros((4, 10), np.uint32)
    bound = tensors((numbers(), "in"), (whole[:, :8], "inout"))
    assert fault(of("st.global.b32 [%rd12], %r0;"), bound, block=10).element == (0, 8)
    assert not whole[:, 8:].any()


def test_one_tensor_is_not_reached_through_another() -> None:
    """By the distance of the two in this process: the emulated addresses are not those."""
    both = np.zeros(64, np.uint32)
    bound = tensors((both[:32], "in"), (both[32:], "out"))
    assert fault(of("st.global.b32 [%rd11+128], %r0;"), bound).kind == "out-of-bounds"


def test_misaligned() -> None:
    found = fault(of("ld.global.v2.b32 {%r20, %r21}, [%rd11];"), pair())
    assert (found.kind, found.thread) == ("misaligned", (1, 0, 0))
    found = fault(of("st.shared.v2.b32 [%r6], {%r0, %r0};"), pair())
    assert (found.kind, found.thread, found.address) == ("misaligned", (1, 0, 0), 4)


def test_write_to_an_input() -> None:
    found = fault(of("st.global.b32 [%rd11], %r0;"), pair())
    assert (found.kind, found.tensor, found.element) == ("write-to-input", "A", (0,))


def test_output_that_is_not_written() -> None:
    found = fault(of("setp.lt.u32 %p1, %r0, 30;\n@%p1 st.global.b32 [%rd12], %r0;"), pair())
    assert (found.kind, found.tensor, found.element) == ("output-not-written", "B", (30,))
    assert "2 of 32" in found.explanation
    assert go(of("setp.lt.u32 %p1, %r0, 30;\n@%p1 st.global.b32 [%rd12], %r0;"), pair(role="inout")).ok


def test_output_that_is_read_before_it_is_written() -> None:
    body = "ld.global.b32 %r3, [%rd12];\nst.global.b32 [%rd12], %r3;"
    assert fault(of(body), pair()).kind == "never-written"
    assert go(of(body), pair(role="inout")).ok


def test_two_threads_write_one_element() -> None:
    body = "shr.u32 %r3, %r0, 1;\nmul.wide.u32 %rd13, %r3, 4;\nadd.s64 %rd14, %rd1, %rd13;\nst.global.b32 [%rd14], 7;"
    found = fault(of(body), pair(role="inout"))
    assert (found.kind, found.tensor, found.element) == ("unordered", "B", (0,))
    assert "thread 1 of block 0" in found.explanation


def test_two_blocks_write_one_element_even_in_different_batches() -> None:
    body = """
setp.eq.u32 %p1, %r1, 0;
@%p1 bra WRITE;
setp.ne.u32 %p1, %r1, 599;
@%p1 ret;
WRITE:
mul.wide.u32 %rd13, %r0, 4;
add.s64 %rd14, %rd1, %rd13;
st.global.b32 [%rd14], 7;
"""
    found = fault(of(body), pair(), grid=600)
    assert (found.kind, found.block, found.element) == ("unordered", (599, 0, 0), (0,))
    assert "thread 0 of block 0 wrote" in found.explanation


def test_an_element_that_another_thread_reads() -> None:
    body = """
xor.b32 %r3, %r0, 1;
mul.wide.u32 %rd13, %r3, 4;
add.s64 %rd14, %rd1, %rd13;
ld.global.b32 %r7, [%rd14];
{}
st.global.b32 [%rd12], %r7;
"""
    assert fault(of(body.format("")), pair(role="inout")).kind == "unordered"
    bound = pair(role="inout")
    assert go(of(body.format("bar.sync 0;")), bound).ok  # a barrier orders what a block does


def test_write_then_read_by_another_thread() -> None:
    body = """
st.global.b32 [%rd12], %r0;
{}
xor.b32 %r3, %r0, 1;
mul.wide.u32 %rd13, %r3, 4;
add.s64 %rd14, %rd1, %rd13;
ld.global.b32 %r7, [%rd14];
"""
    assert fault(of(body.format("")), pair()).kind == "unordered"
    assert go(of(body.format("bar.sync 0;")), pair()).ok


# ---------------------------------------------------------------------------------------------------- shared memory


def test_shared_memory_out_of_bounds() -> None:
    found = fault(of("st.shared.b32 [%r6], %r0;", shared=120), pair())
    assert (found.kind, found.thread, found.address) == ("out-of-bounds", (30, 0, 0), 120)
    assert "the block has 120 bytes" in found.explanation
    assert fault(of("st.shared.b32 [%r6+-4], %r0;"), pair()).thread == (0, 0, 0)


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_race_of_a_read_with_a_write(seed: int) -> None:
    body = """
st.shared.b32 [%r6], %r0;
{}
xor.b32 %r7, %r5, {};
add.s32 %r7, %r7, %r4;
ld.shared.b32 %r8, [%r7];
st.global.b32 [%rd12], %r8;
"""
    for step in (4, 64):  # of the same warp, and of another
        found = fault(of(body.format("", step)), pair(64), block=64, seed=seed)
        assert found.kind in ("race", "never-written")  # in some orders nothing is there yet
        assert go(of(body.format("bar.sync 0;", step)), pair(64), block=64, seed=seed).ok
    assert fault(of(body.format("", 64)), pair(64), block=64, seed=0).kind == "race"


@pytest.mark.parametrize("seed", [0, 1, 2, 3])
def test_race_of_a_write_with_an_earlier_read(seed: int) -> None:
    body = """
st.shared.b32 [%r6], %r0;
bar.sync 0;
xor.b32 %r7, %r5, 64;
add.s32 %r7, %r7, %r4;
ld.shared.b32 %r8, [%r7];
{}
st.shared.b32 [%r6], %r8;
"""
    found = fault(of(body.format("")), pair(64, "inout"), block=64, seed=seed)
    assert found.kind == "race" and found.text.startswith("ld.shared")
    assert go(of(body.format("bar.sync 0;")), pair(64, "inout"), block=64, seed=seed).ok


def test_race_of_two_writes() -> None:
    found = fault(of("st.shared.b32 [smem], %r0;"), pair(role="inout"))
    assert found.kind == "race" and found.address == 0
    assert go(of("setp.eq.u32 %p1, %r0, 3;\n@%p1 st.shared.b32 [smem], %r0;"), pair(role="inout")).ok


def test_race_in_one_block_of_many() -> None:
    body = "setp.eq.u32 %p1, %r1, 5;\n@!%p1 ret;\nst.shared.b32 [smem], %r0;"
    assert fault(of(body), pair(role="inout"), grid=9).block == (5, 0, 0)


def test_bytes_of_one_word_are_apart() -> None:
    body = "add.s32 %r7, %r4, %r0;\ncvt.u16.u32 %rs1, %r0;\nst.shared.b8 [%r7], %rs1;"
    assert go(of(body), pair(role="inout")).ok


# ------------------------------------------------------------------------------------------------ asynchronous copies

ASYNC = "cp.async.ca.shared.global [%r6], [%rd11], 4;\n"
READ = "ld.shared.b32 %r8, [%r6];\nst.global.b32 [%rd12], %r8;\n"
COMMIT = "cp.async.commit_group;\n"


@pytest.mark.parametrize(
    ("between", "kind"),
    [
        ("", "in-flight"),
        (COMMIT, "in-flight"),
        (COMMIT + "bar.sync 0;\n", "in-flight"),
        (COMMIT + "cp.async.wait_group 1;\n", "in-flight"),
        ("cp.async.wait_group 0;\n", "in-flight"),  # nothing was committed
        (COMMIT + "cp.async.wait_group 0;\n", None),
        ("cp.async.wait_all;\n", None),
        (COMMIT + COMMIT + "cp.async.wait_group 1;\n", None),
    ],
)
def test_a_copy_is_there_only_after_its_wait(between: str, kind: str | None) -> None:
    report = go(of(ASYNC + between + READ), pair())
    assert (report.faults[0].kind if report.faults else None) == kind, str(report)


def test_another_threads_copy_needs_its_wait_and_a_barrier() -> None:
    body = ASYNC + COMMIT + "cp.async.wait_group 0;\n{}xor.b32 %r7, %r5, 4;\nadd.s32 %r6, %r7, %r4;\n" + READ
    assert fault(of(body.format("")), pair()).kind == "race"
    assert go(of(body.format("bar.sync 0;\n")), pair()).ok


def test_a_barrier_does_not_wait_for_other_threads_copies() -> None:
    body = (
        "setp.eq.u32 %p1, %r0, 0;\n@%p1 cp.async.ca.shared.global [smem], [%rd0], 4;\n"
        + COMMIT
        + "@!%p1 cp.async.wait_group 0;\nbar.sync 0;\nld.shared.b32 %r8, [smem];\n"
    )
    assert fault(of(body), pair(role="inout")).kind == "in-flight"


def test_what_a_copy_will_overwrite_is_not_to_be_touched() -> None:
    write = "st.shared.b32 [%r6], %r0;\n"
    assert fault(of(write + ASYNC + READ), pair()).kind == "in-flight"
    assert fault(of(ASYNC + write), pair()).kind == "in-flight"
    assert fault(of(ASYNC + ASYNC), pair(role="inout")).kind == "in-flight"


def test_a_copy_over_what_another_thread_still_reads() -> None:
    body = (
        "st.shared.b32 [%r6], %r0;\nbar.sync 0;\nxor.b32 %r7, %r5, 4;\nadd.s32 %r7, %r7, %r4;\n"
        + "ld.shared.b32 %r8, [%r7];\n"
        + "{}"
        + ASYNC
        + "cp.async.wait_all;\nst.global.b32 [%rd12], %r8;\n"
    )
    assert fault(of(body.format("")), pair()).kind == "race"
    assert go(of(body.format("bar.sync 0;\n")), pair()).ok


def test_a_copy_out_of_bounds_unless_nothing_is_read() -> None:
    body = "setp.lt.u32 %p1, %r0, 20;\nselp.b32 %r9, {}, 0, %p1;\ncp.async.ca.shared.global [%r6], [%rd11], 4, %r9;\n"
    assert go(of(body.format(4)), pair(20, "inout")).ok
    assert fault(of(body.format(4).replace("20;", "21;", 1)), pair(20, "inout")).thread == (20, 0, 0)


# ----------------------------------------------------------------------------------------------------- never written


def test_poison_may_be_computed_with_but_not_decide() -> None:
    start = "ld.shared.b32 %r8, [%r6];\nadd.s32 %r9, %r8, 1;\n"
    store = "st.global.b32 [%rd12], {};\n"
    assert go(of(start + store.format("%r0")), pair()).ok
    for use, what in (
        (store.format("%r9"), "stored to global memory"),
        ("add.s32 %r10, %r4, %r9;\nld.shared.b32 %r11, [%r10];", "an address"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 bra ON;\nON:", "a predicate"),
        ("setp.eq.s32 %p1, %r9, 0;\n@%p1 mov.b32 %r10, 1;", "a predicate"),
        ("st.shared.b32 [%r6], %r9;\nld.shared.b32 %r12, [%r6];\n" + store.format("%r12"), "stored to global"),
    ):
        found = fault(of(start + use), pair(role="inout"))
        assert found.kind == "never-written" and what in found.explanation, str(found)


def test_a_register_that_was_never_written() -> None:
    assert fault(of("st.global.b32 [%rd12], %r30;"), pair()).kind == "never-written"


def test_poison_that_is_not_selected() -> None:
    body = "setp.ge.u32 %p1, %r0, 0;\nselp.b32 %r9, %r0, %r30, %p1;\nst.global.b32 [%rd12], %r9;"
    assert go(of(body), pair()).ok
    assert fault(of(body.replace("selp.b32 %r9, %r0, %r30", "selp.b32 %r9, %r30, %r0")), pair()).kind == "never-written"


def test_a_register_that_only_some_lanes_wrote() -> None:
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 mov.b32 %r9, 5;\n{}st.global.b32 [%rd12], %r9;"
    assert fault(of(body.format("")), pair()).thread == (16, 0, 0)
    assert go(of(body.format("@!%p1 mov.b32 %r9, 6;\n")), pair()).ok


# ---------------------------------------------------------------------------------------------------------- control


def test_barrier_that_not_all_threads_reach() -> None:
    found = fault(of("setp.eq.u32 %p1, %r0, 7;\n@%p1 ret;\nbar.sync 0;"), pair(role="inout"))
    assert (found.kind, found.thread) == ("barrier", (7, 0, 0))


def test_warps_at_different_barriers() -> None:
    body = "setp.lt.u32 %p1, %r0, 32;\n@%p1 bra ONE;\nbar.sync 2;\nbra ON;\nONE:\nbar.sync 1;\nON:"
    assert fault(of(body), pair(64, "inout"), block=64).kind == "deadlock"


def test_a_warp_split_over_two_barrier_instructions() -> None:
    body = "setp.lt.u32 %p1, %r0, {};\n@%p1 bra ONE;\nbar.sync 0;\nbra ON;\nONE:\nbar.sync 0;\nON:"
    assert fault(of(body.format(16)), pair(64, "inout"), block=64).kind == "barrier"
    assert go(of(body.format(32)), pair(64, "inout"), block=64).ok  # whole warps may


def test_runaway_loop() -> None:
    found = fault(of("LOOP:\nadd.s32 %r7, %r0, 1;\nbra LOOP;"), pair(role="inout"), limit=5000)
    assert found.kind == "runaway" and "5000" in found.explanation
    assert fault(of("LOOP:\nadd.s32 %r7, %r0, 1;\nbra LOOP;"), pair(role="inout")).kind == "runaway"


def test_shuffle_without_all_its_threads() -> None:
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 shfl.sync.idx.b32 %r7, %r0, 0, 31, {};"
    assert fault(of(body.format(-1)), pair(role="inout")).kind == "converged"
    assert go(of(body.format(0xFFFF)), pair(role="inout")).ok
    assert fault(of(body.format(0xFF)), pair(role="inout")).thread == (8, 0, 0)


def test_trap() -> None:
    found = fault(of("setp.eq.u32 %p1, %r0, 9;\n@%p1 trap;"), pair(role="inout"))
    assert (found.kind, found.thread) == ("trap", (9, 0, 0))


def test_source_lines_of_the_generated_module() -> None:
    text = kernel(INDEX + ".loc 1 12 3\nld.global.b32 %r3, [%rd11+4];", shared=256)
    found = fault(text + f'.file 1 "{__file__}"\n', pair())
    assert (found.source_file, found.source_line) == (__file__, 12)
    with open(__file__, encoding="utf-8") as file:
        assert found.source_text == file.read().splitlines()[11].strip()
    assert str(found).startswith(f"{__file__}:12: fault[out-of-bounds]")


def test_poison_of_one_half_taints_that_half_only() -> None:
    body = """
cvt.rn.f32.u32 %r9, %r0;
cvt.rn.f16x2.f32 %r10, %r30, %r9;
mov.b32 {%rs1, %rs2}, %r10;
cvt.u32.u16 %r11, %rs1;
and.b32 %r12, %r10, 65535;
shl.b32 %r13, %r10, 16;
prmt.b32 %r14, %r10, %r0, 0x5410;
shr.u32 %r15, %r10, 16;
"""
    assert go(of(body + "st.global.b32 [%rd12], %r11;"), pair()).ok
    assert go(of(body + "st.global.b32 [%rd12], %r12;"), pair()).ok
    assert go(of(body + "st.global.b32 [%rd12], %r13;"), pair()).ok
    assert go(of(body + "st.global.b32 [%rd12], %r14;"), pair()).ok
    assert fault(of(body + "st.global.b32 [%rd12], %r10;"), pair()).kind == "never-written"
    assert fault(of(body + "st.global.b32 [%rd12], %r15;"), pair()).kind == "never-written"


def test_an_element_that_several_threads_read() -> None:
    """Whoever of them writes it then, another one read it."""
    for writer in (0, 1, 2):
        body = f"""
ld.global.b32 %r7, [%rd1];
setp.eq.u32 %p1, %r0, {writer};
@%p1 st.global.b32 [%rd1], %r7;
"""
        found = fault(of(body), pair(role="inout"), block=3)
        assert found.kind == "unordered" and "several threads of block 0 read" in found.explanation


def test_a_copy_that_lands_after_a_barrier_needs_another_one() -> None:
    body = (
        ASYNC + COMMIT + "bar.sync 0;\ncp.async.wait_group 0;\n{}xor.b32 %r7, %r5, 4;\nadd.s32 %r6, %r7, %r4;\n" + READ
    )
    assert fault(of(body.format("")), pair()).kind == "race"
    assert go(of(body.format("bar.sync 0;\n")), pair()).ok


def test_the_limit_is_a_threads_own() -> None:
    """Other threads' detours, and other orders, do not count."""
    count = "mov.u32 %r10, 0;\nL{0}:\nadd.u32 %r10, %r10, 1;\nsetp.lt.u32 %p2, %r10, {1};\n@%p2 bra L{0};\n"
    detours = "".join(
        f"setp.ne.u32 %p1, %r0, {i};\n@%p1 bra N{i};\n" + count.format(i, 10) + f"N{i}:\n" for i in range(24)
    )
    for seed in range(3):
        assert go(of(detours), pair(role="inout"), limit=150, seed=seed).ok  # 24 detours of 30, a thread makes one
        assert go(of(count.format(0, 40)), pair(64, "inout"), block=64, limit=150, seed=seed).ok
        found = fault(of(count.format(0, 60)), pair(64, "inout"), block=64, limit=150, seed=seed)
        assert found.kind == "runaway" and "more than 150 instructions" in found.explanation
    late = "setp.ne.u32 %p1, %r0, 3;\n@%p1 bra ON;\n" + count.format(0, 100) + "ON:\n"
    assert fault(of(late), pair(role="inout"), limit=150).thread == (3, 0, 0)


def test_threads_that_have_exited_are_not_waited_for() -> None:
    """But there is nothing to be had from them, and none of them may be missing from a whole warp."""
    end = "setp.ge.u32 %p1, %r0, 16;\n@%p1 ret;\n"
    read = "shfl.sync.bfly.b32 %r7, %r0, {}, 31, -1;\nst.global.b32 [%rd12], %r7;"
    assert go(of(end + read.format(1)), pair(16, "out")).ok
    assert fault(of(end + read.format(16)), pair(16, "out")).kind == "never-written"
    out = np.zeros(16, np.uint32)
    vote = "setp.lt.u32 %p2, %r0, 20;\nvote.sync.ballot.b32 %r7, %p2, -1;\nst.global.b32 [%rd12], %r7;"
    assert go(of(end + vote), tensors((numbers(), "in"), (out, "out"))).ok and set(out.tolist()) == {0xFFFF}
    load = "ldmatrix.sync.aligned.m8n8.x1.shared.b16 {%r8}, [%r4];\n"
    found = fault(of(end + load), pair(16, "inout"))
    assert (found.kind, found.thread) == ("converged", (16, 0, 0))
    assert "all threads of a warp" in found.explanation


def test_a_barrier_that_need_not_be_reached_together() -> None:
    """barrier.sync without `.aligned`; bar.sync and `.aligned` are for whole warps."""
    body = "setp.lt.u32 %p1, %r0, 16;\n@%p1 bra ONE;\n{0} 0;\nbra ON;\nONE:\n{0} 0;\nON:"
    assert go(of(body.format("barrier.sync")), pair(role="inout")).ok
    for name in ("bar.sync", "barrier.sync.aligned", "barrier.cta.sync.aligned"):
        assert fault(of(body.format(name)), pair(role="inout")).kind == "barrier"


def test_generic_addresses_of_both_memories_in_one_access() -> None:
    """Even threads mean shared memory, odd ones the tensor."""
    body = """
cvt.u64.u32 %rd13, %r6;
cvta.shared.u64 %rd13, %rd13;
and.b32 %r7, %r0, 1;
setp.eq.u32 %p1, %r7, 0;
selp.b64 %rd14, %rd13, %rd12, %p1;
st.b32 [%rd14], %r0;
ld.b32 %r8, [%rd14];
st.global.b32 [%rd12], %r8;
"""
    out = np.zeros(32, np.uint32)
    assert go(of(body), tensors((numbers(), "in"), (out, "out"))).ok and (out == numbers()).all()
    found = fault(of(body, shared=64), pair())
    assert (found.kind, found.thread) == ("out-of-bounds", (16, 0, 0))
    found = fault(of(body), pair(31))
    assert (found.kind, found.tensor, found.thread) == ("out-of-bounds", "B", (31, 0, 0))
    found = fault(of(body.replace("st.b32 [%rd14], %r0;", "")), pair())
    assert found.kind == "never-written"


def test_an_access_past_a_shared_variable() -> None:
    """Does not reach the next one, wherever that lies."""
    two = ".shared .align 16 .b8 one[128];\n.shared .align 4 .b8 two[64];\n"
    two += "mov.u32 %r7, {};\nmad.lo.u32 %r7, %r0, 4, %r7;\n"
    for name, size, threads in (("one", 128, 32), ("two", 64, 16)):
        for access in ("st.shared.b32 [%r7{}], %r0;", "ld.shared.b32 %r8, [%r7{}];"):
            assert go(kernel(two.format(name) + access.format(""), 1), pair()[:1], block=threads).ok
            text = kernel(two.format(name) + access.format("+4"), 1)
            found = fault(text, pair()[:1], block=threads)
            assert (found.kind, found.thread) == ("out-of-bounds", (threads - 1, 0, 0))
            if name == "one":
                assert f"0 bytes past the end of one, which has {size} bytes" in found.explanation
    asynchronous = "cp.async.ca.shared.global [one+128], [%rd0], 4;"
    assert fault(kernel(two.format("one") + asynchronous, 1), pair()[:1], block=1).kind == "out-of-bounds"
    assert go(kernel(two.format("one"), 1), pair()[:1]).shared == 128 + 64


def test_a_load_that_takes_memory_for_constant() -> None:
    load, store = "ld.global.nc.b32 %r7, [%rd12];\n", "st.global.b32 [%rd12], %r0;\n"
    for body, verb in (
        (store + load, "reads B as if it never changed"),
        (load + store, "writes B where an ld.global.nc"),
    ):
        found = fault(of(body), pair(role="inout"))
        assert (found.kind, found.tensor, found.element) == ("non-coherent", "B", (0,))
        assert verb in found.explanation
        assert go(of(body.replace(".nc", "")), pair(role="inout")).ok
    others = "setp.lt.u32 %p1, %r0, 16;\n@%p1 ld.global.nc.b32 %r7, [%rd12];\n@!%p1 st.global.b32 [%rd12], %r0;\n"
    assert go(of(others), pair(role="inout")).ok
    assert go(of("ld.global.nc.b32 %r7, [%rd11];\n" + store), pair()).ok
