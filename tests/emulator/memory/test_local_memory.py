"""Local memory: each thread has its own, and what it has not written there decides nothing."""

from __future__ import annotations

import numpy as np
import pytest
from emulator_kit import fault, go, kernel, tensors

WHERE = """
.local .align 16 .b8 first[6]; .local .align 8 .b8 stack[16];
mad.lo.u32 %r2, %r1, 8, %r0;
mad.wide.u32 %rd5, %r2, 4, %rd0;
mov.b64 %rd6, stack;
add.u64 %rd7, %rd6, 4;
shl.b32 %r3, %r0, 2;
and.b32 %r3, %r3, 12;
cvt.u64.u32 %rd8, %r3;
add.u64 %rd9, %rd6, %rd8;
"""


def run(body: str) -> np.ndarray:
    data = np.zeros(16, np.uint32)
    report = go(kernel(WHERE + body, 1), tensors((data, "inout")), grid=2, block=8)
    assert report.ok, str(report)
    return data


def broken(body: str) -> object:
    return fault(kernel(WHERE + body, 1), tensors((np.zeros(16, np.uint32), "inout")), grid=2, block=8)


def test_each_thread_has_its_own() -> None:
    numbers = np.arange(16)
    body = "st.local.b32 [%rd6], %r2;\nld.local.b32 %r5, [stack];\nst.global.b32 [%rd5], %r5;"
    assert (run(body) == numbers).all()
    own = "st.local.b32 [%rd9], %r2;\nld.local.b32 %r5, [%rd9];\nst.global.b32 [%rd5], %r5;"
    assert (run(own) == numbers).all()
    some = "st.local.v2.b32 [%rd6], {1,2};\nst.local.v2.b32 [%rd6+8], {3,4};\nst.local.b32 [%rd9], %r2;\n"
    assert (
        run(some + "ld.local.b32 %r5, [%rd7];\n" + "st.global.b32 [%rd5], %r5;")
        == np.where(numbers % 4 == 1, numbers, 2)
    ).all()


def test_narrow_and_wide_accesses_meet() -> None:
    body = "st.local.v2.b32 [%rd6], {67305985, 7};\nmov.b32 %r6, 0;\nst.local.u8 [%rd6+2], %r6;\n"
    assert (run(body + "ld.local.b32 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;") == 0x04000201).all()
    wide = "ld.local.b64 %rd10, [%rd6];\nshr.u64 %rd10, %rd10, 24;\ncvt.u32.u64 %r5, %rd10;\n"
    assert (run(body + wide + "st.global.b32 [%rd5], %r5;") == 0x0704).all()
    signed = "mov.b32 %r6, 200;\nst.local.u8 [%rd6], %r6;\nld.local.s8 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;"
    assert (run(signed) == 0xFFFFFFC8).all()


def test_a_guard_keeps_the_others_as_they_were() -> None:
    body = "setp.lt.u32 %p1, %r0, 3;\nst.local.b32 [%rd6], %r2;\n@%p1 st.local.b32 [%rd6], %r1;\n"
    data = run(body + "ld.local.b32 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;").reshape(2, 8)
    assert (data[:, :3] == [[0], [1]]).all() and (data[:, 3:] == np.arange(16).reshape(2, 8)[:, 3:]).all()


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        ("ld.local.b32 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;", "never-written", "byte 8 of local memory"),
        ("mov.b32 %r6, 0;\nst.local.b16 [%rd6], %r6;\nld.local.b32 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;",
         "never-written", "byte 10 of local memory"),
        ("st.local.b32 [%rd6], %r39;\nld.local.b32 %r5, [%rd6];\nst.global.b32 [%rd5], %r5;", "never-written", "%r39"),
        ("st.local.b32 [%rd6+16], %r0;", "out-of-bounds", "st of 4 bytes of local memory at byte 24; the thread"),
        ("ld.local.b32 %r5, [%rd6+-12];", "out-of-bounds", "at byte -4"),
        ("st.local.b32 [%rd6+2], %r0;", "misaligned", "at byte 10, not a multiple of 4"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_told(body: str, kind: str, text: str) -> None:
    found = broken(body)
    assert found.kind == kind and text in str(found), str(found)  # type: ignore[attr-defined]


def test_what_was_never_written_may_be_read_and_thrown_away() -> None:
    body = "mov.b32 %r6, 5;\nst.local.b16 [%rd6], %r6;\nld.local.b32 %r5, [%rd6];\nand.b32 %r5, %r5, 65535;\n"
    assert (run(body + "st.global.b32 [%rd5], %r5;") == 5).all()
