"""Constants: what a number in PTX text is where a type is meant, and what is refused. The lists are ptxas 13.0's."""

from __future__ import annotations

import struct

import numpy as np
import pytest
from emulator_kit import go, kernel, tensors
from semantics_kit import f32

from cutegen.emulator import UnsupportedInstruction

HERE = "mul.wide.u32 %rd5, %r0, 8;\nadd.s64 %rd6, %rd0, %rd5;\nsetp.lt.u32 %p1, %r0, 2;\n"
SHARED = "mov.u32 %r4, smem;\nmad.lo.u32 %r4, %r0, 8, %r4;\n"


def f64(value: float) -> int:
    return int.from_bytes(struct.pack("<d", value), "little")


def stored(body: str) -> list[int]:
    """The 64-bit words that four threads leave at [%rd6], from zeros."""
    out = np.zeros(4, np.uint64)
    report = go(kernel(HERE + SHARED + body, 1, shared=64), tensors((out, "inout")), block=4)
    assert report.ok, str(report)
    return [int(word) for word in out]


HALF, ONE_AND_HALF, TENTH = f32(0.5), f32(1.5), f32(0.1)
VALUES = {
    "st.global.f32 [%rd6], 1.5;": [ONE_AND_HALF] * 4,
    "st.global.f32 [%rd6], 0.1;": [TENTH] * 4,  # rounded to f32, not cut
    "st.global.f32 [%rd6], 0d3FB999999999999A;": [TENTH] * 4,
    "st.global.f64 [%rd6], -1.5;": [f64(-1.5)] * 4,
    "st.global.f64 [%rd6], 0f3FC00000;": [f64(1.5)] * 4,
    "st.global.b64 [%rd6], 0.5;": [f64(0.5)] * 4,
    "st.global.b32 [%rd6], 0f3FC00000;": [ONE_AND_HALF] * 4,
    "st.global.b32 [%rd6], -1;": [0xFFFFFFFF] * 4,
    "st.global.u8 [%rd6], 300;": [44] * 4,
    "st.global.v2.f32 [%rd6], {1.5, 0.5};": [ONE_AND_HALF | HALF << 32] * 4,
    "st.shared.f32 [%r4], 1.5;\nld.shared.b32 %r5, [%r4];\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "selp.f32 %r5, 1.5, 0.5, %p1;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 2 + [HALF] * 2,
    "selp.f64 %rd7, 1.5, 0f3F000000, %p1;\nst.global.b64 [%rd6], %rd7;": [f64(1.5)] * 2 + [f64(0.5)] * 2,
    "selp.b32 %r5, 7, 0f3F000000, %p1;\nst.global.b32 [%rd6], %r5;": [7] * 2 + [HALF] * 2,
    "slct.f32.s32 %r5, 1.5, 0.5, -1;\nst.global.b32 [%rd6], %r5;": [HALF] * 4,
    "slct.f32.f32 %r5, 1.5, 0.5, 2.5;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "mov.f32 %r5, 1.5;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "mov.b64 %rd7, {0f3FC00000, 0f3F000000};\nst.global.b64 [%rd6], %rd7;": [ONE_AND_HALF | HALF << 32] * 4,
    "mov.b64 {%r5, %r6}, 1.5;\nst.global.b32 [%rd6], %r6;": [f64(1.5) >> 32] * 4,
    "mov.b32 %r5, 0f3F800000;\nadd.f32 %r5, %r5, 0.5;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "mov.b32 %r5, 0f3F800000;\nfma.rn.f32 %r5, %r5, 0.5, 1.0;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "mov.b32 %r5, 0f3F800000;\nsetp.lt.f32 %p2, %r5, 1.5;\n@%p2 st.global.b32 [%rd6], 1;": [1] * 4,
    "mov.pred %p2, 2;\n@%p2 st.global.b32 [%rd6], 1;": [1] * 4,
    "shfl.sync.idx.b32 %r5, 0f3FC00000, 0, 31, 15;\nst.global.b32 [%rd6], %r5;": [ONE_AND_HALF] * 4,
    "vote.sync.ballot.b32 %r5, 1, 15;\nst.global.b32 [%rd6], %r5;": [15] * 4,
}


@pytest.mark.parametrize("body", VALUES)
def test_values(body: str) -> None:
    assert stored(body) == VALUES[body]


MISTAKEN = [
    "add.f32 %r5, %r0, 1;",
    "mov.f32 %r5, 1;",
    "mov.b32 %r5, 1.5;",
    "mov.b32 %r5, 0d3FF8000000000000;",
    "mov.u32 %r5, 0f3FC00000;",
    "mov.b64 %rd5, 0f3FC00000;",
    "mov.b16 %rs5, 1.5;",
    "mov.b64 %rd5, {1.5, 2.5};",
    "mov.pred %p1, 1.5;",
    "add.u32 %r5, %r0, 1.5;",
    "add.u32 %r5, %r0, 0f3FC00000;",
    "and.b32 %r5, %r0, 1.5;",
    "shl.b32 %r5, %r0, 0f3FC00000;",
    "selp.f32 %r5, 1, 2, %p1;",
    "selp.b32 %r5, 1.5, 2.5, %p1;",
    "slct.f32.f32 %r5, 1.5, 2.5, 3;",
    "setp.lt.f32 %p1, %r0, 1;",
    "setp.eq.b32 %p1, %r0, 1.5;",
    "lop3.b32 %r5, %r0, %r0, %r0, 1.5;",
    "cvt.rn.f32.s32 %r5, 1.5;",
    "cvt.f64.f32 %rd5, 1;",
    "add.f16 %rs5, %rs0, 0x3C00;",
    "fma.rn.f16x2 %r5, %r0, %r0, 0;",
    "add.f32x2 %rd5, %rd0, 1.5;",
    "add.u16x2 %r5, %r0, 5;",
    "st.global.f32 [%rd0], 1;",
    "st.global.b32 [%rd0], 1.5;",
    "st.global.u32 [%rd0], 0f3FC00000;",
    "st.global.v2.f32 [%rd0], {1, 2};",
    "shfl.sync.idx.b32 %r5, 1.5, 0, 31, -1;",
    "cp.async.wait_group 1.5;",
    "bar.sync 1.5;",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r20,%r21,%r22,%r23}, {%r5,%r5,%r5,%r5}, {%r5,%r5}, {0,0,0,0};",
    "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 {%r20,%r21,%r22,%r23}, {%r5,%r5,%r5,%r5}, {%r5,%r5}, {0.0,0,0,0};",
]


@pytest.mark.parametrize("body", MISTAKEN)
def test_a_number_of_another_sort_is_refused(body: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        go(kernel(body, 1), tensors((np.zeros(4, np.uint64), "inout")), block=32)


def test_accumulators_of_mma() -> None:
    """A decimal 1.5 is an f32 there, not the lower half of a double."""
    zero = "mov.b32 %r5, 0;\n"
    mma = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r20,%r21,%r22,%r23}, {%r5,%r5,%r5,%r5}, {%r5,%r5}, "
    out = np.zeros(32, np.uint32)
    body = "mad.wide.u32 %rd5, %r0, 4, %rd0;\n" + zero + mma + "{1.5,0.5,0f3F000000,1.0};\nst.global.b32 [%rd5], {};\n"
    for register, wanted in (("%r20", ONE_AND_HALF), ("%r21", HALF), ("%r22", HALF), ("%r23", f32(1.0))):
        assert go(kernel(body.replace("{};", f"{register};"), 1), tensors((out, "out")), block=32).ok
        assert set(out.tolist()) == {wanted}
