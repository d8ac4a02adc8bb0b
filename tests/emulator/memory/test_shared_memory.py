"""Faults of accesses to shared memory, by threads and by asynchronous copies."""

from __future__ import annotations

import pytest
from emulator_kit import fault, go, in_and_out, indexed, kernel


def test_shared_memory_out_of_bounds() -> None:
    found = fault(indexed("st.shared.b32 [%r6], %r0;", shared=120), in_and_out())
    assert (found.kind, found.thread, found.address) == ("out-of-bounds", (30, 0, 0), 120)
    assert "the block has 120 bytes" in found.explanation
    assert fault(indexed("st.shared.b32 [%r6+-4], %r0;"), in_and_out()).thread == (0, 0, 0)


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
    report = go(indexed(ASYNC + between + READ), in_and_out())
    assert (report.faults[0].kind if report.faults else None) == kind, str(report)


def test_another_threads_copy_needs_its_wait_and_a_barrier() -> None:
    body = ASYNC + COMMIT + "cp.async.wait_group 0;\n{}xor.b32 %r7, %r5, 4;\nadd.s32 %r6, %r7, %r4;\n" + READ
    assert fault(indexed(body.format("")), in_and_out()).kind == "race"
    assert go(indexed(body.format("bar.sync 0;\n")), in_and_out()).ok


def test_a_barrier_does_not_wait_for_other_threads_copies() -> None:
    body = (
        "setp.eq.u32 %p1, %r0, 0;\n@%p1 cp.async.ca.shared.global [smem], [%rd0], 4;\n"
        + COMMIT
        + "@!%p1 cp.async.wait_group 0;\nbar.sync 0;\nld.shared.b32 %r8, [smem];\n"
    )
    assert fault(indexed(body), in_and_out(role="inout")).kind == "in-flight"


def test_what_a_copy_will_overwrite_is_not_to_be_touched() -> None:
    write = "st.shared.b32 [%r6], %r0;\n"
    assert fault(indexed(write + ASYNC + READ), in_and_out()).kind == "in-flight"
    assert fault(indexed(ASYNC + write), in_and_out()).kind == "in-flight"
    assert fault(indexed(ASYNC + ASYNC), in_and_out(role="inout")).kind == "in-flight"


def test_a_copy_over_what_another_thread_still_reads() -> None:
    body = (
        "st.shared.b32 [%r6], %r0;\nbar.sync 0;\nxor.b32 %r7, %r5, 4;\nadd.s32 %r7, %r7, %r4;\n"
        + "ld.shared.b32 %r8, [%r7];\n"
        + "{}"
        + ASYNC
        + "cp.async.wait_all;\nst.global.b32 [%rd12], %r8;\n"
    )
    assert fault(indexed(body.format("")), in_and_out()).kind == "race"
    assert go(indexed(body.format("bar.sync 0;\n")), in_and_out()).ok


def test_a_copy_out_of_bounds_unless_nothing_is_read() -> None:
    body = "setp.lt.u32 %p1, %r0, 20;\nselp.b32 %r9, {}, 0, %p1;\ncp.async.ca.shared.global [%r6], [%rd11], 4, %r9;\n"
    assert go(indexed(body.format(4)), in_and_out(20, "inout")).ok
    assert fault(indexed(body.format(4).replace("20;", "21;", 1)), in_and_out(20, "inout")).thread == (20, 0, 0)


def test_a_copy_that_lands_after_a_barrier_needs_another_one() -> None:
    body = (
        ASYNC + COMMIT + "bar.sync 0;\ncp.async.wait_group 0;\n{}xor.b32 %r7, %r5, 4;\nadd.s32 %r6, %r7, %r4;\n" + READ
    )
    assert fault(indexed(body.format("")), in_and_out()).kind == "race"
    assert go(indexed(body.format("bar.sync 0;\n")), in_and_out()).ok


def test_an_access_past_a_shared_variable() -> None:
    """Does not reach the next one, wherever that lies."""
    two = ".shared .align 16 .b8 one[128];\n.shared .align 4 .b8 two[64];\n"
    two += "mov.u32 %r7, {};\nmad.lo.u32 %r7, %r0, 4, %r7;\n"
    for name, size, threads in (("one", 128, 32), ("two", 64, 16)):
        for access in ("st.shared.b32 [%r7{}], %r0;", "ld.shared.b32 %r8, [%r7{}];"):
            assert go(kernel(two.format(name) + access.format(""), 1), in_and_out()[:1], block=threads).ok
            text = kernel(two.format(name) + access.format("+4"), 1)
            found = fault(text, in_and_out()[:1], block=threads)
            assert (found.kind, found.thread) == ("out-of-bounds", (threads - 1, 0, 0))
            if name == "one":
                assert f"0 bytes past the end of one, which has {size} bytes" in found.explanation
    asynchronous = "cp.async.ca.shared.global [one+128], [%rd0], 4;"
    assert fault(kernel(two.format("one") + asynchronous, 1), in_and_out()[:1], block=1).kind == "out-of-bounds"
    assert go(kernel(two.format("one"), 1), in_and_out()[:1]).shared == 128 + 64
