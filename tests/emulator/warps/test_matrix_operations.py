"""ldmatrix and mma.sync in a kernel: a product of small matrices, through shared memory."""

from __future__ import annotations

import numpy as np
from emulator_kit import fault, go, kernel, tensors

# One warp a block: A is 16x16 row-major, B 8x16 (n, k) row-major, both f16; C 16x8 f32.
BODY = """
mul.wide.u32 %rd10, %r0, 16;
mov.b32 %r2, smem;
shl.b32 %r3, %r0, 4;
add.s32 %r4, %r2, %r3;
add.s64 %rd11, %rd0, %rd10;
ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd11];
st.shared.v4.b32 [%r4], {%r20, %r21, %r22, %r23};
setp.lt.u32 %p1, %r0, 16;
add.s64 %rd11, %rd1, %rd10;
@%p1 ld.global.v4.b32 {%r20, %r21, %r22, %r23}, [%rd11];
@%p1 st.shared.v4.b32 [%r4+512], {%r20, %r21, %r22, %r23};
SYNC
and.b32 %r5, %r0, 15;
shl.b32 %r5, %r5, 5;
and.b32 %r6, %r0, 16;
add.s32 %r5, %r5, %r6;
add.s32 %r5, %r5, %r2;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r8, %r9, %r10, %r11}, [%r5];
and.b32 %r5, %r0, 7;
shl.b32 %r5, %r5, 5;
and.b32 %r6, %r0, 8;
shl.b32 %r6, %r6, 1;
add.s32 %r5, %r5, %r6;
add.s32 %r5, %r5, %r2;
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r12, %r13}, [%r5+512];
mov.b32 %r14, 0f00000000;
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%r15,%r16,%r17,%r18}, {%r8,%r9,%r10,%r11}, {%r12,%r13}, {%r14,%r14,%r14,%r14};
shr.u32 %r5, %r0, 2;
and.b32 %r6, %r0, 3;
shl.b32 %r5, %r5, 5;
shl.b32 %r6, %r6, 3;
add.s32 %r5, %r5, %r6;
cvt.u64.u32 %rd12, %r5;
add.s64 %rd13, %rd2, %rd12;
st.global.v2.b32 [%rd13], {%r15, %r16};
st.global.v2.b32 [%rd13+256], {%r17, %r18};
"""  # noqa: E501


def operands() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    chance = np.random.default_rng(0)
    a, b = (chance.integers(-8, 9, shape).astype(np.float16) for shape in ((16, 16), (8, 16)))
    return a, b, np.zeros((16, 8), np.float32)


def test_product_through_shared_memory() -> None:
    a, b, c = operands()
    text = kernel(BODY.replace("SYNC", "bar.sync 0;"), 3, shared=768)
    go(text, tensors((a, "in"), (b, "in"), (c, "out")), orders=2).check()
    assert np.array_equal(c, a.astype(np.float32) @ b.astype(np.float32).T)


def test_ldmatrix_races_like_any_load() -> None:
    a, b, c = operands()
    found = fault(kernel(BODY.replace("SYNC", ""), 3, shared=768), tensors((a, "in"), (b, "in"), (c, "out")))
    assert found.kind == "race" and found.text.startswith("ldmatrix")


def test_poison_spreads_to_its_row_only() -> None:
    """Row 3 of A is never written; a store of row 3 of C is a fault, without it all is well."""
    a, b, c = operands()
    skip = BODY.replace("SYNC", "bar.sync 0;").replace(
        "st.shared.v4.b32 [%r4],", "and.b32 %r30, %r0, 30;\nsetp.ne.u32 %p2, %r30, 6;\n@%p2 st.shared.v4.b32 [%r4],"
    )
    bound = tensors((a, "in"), (b, "in"), (c, "inout"))
    found = fault(kernel(skip, 3, shared=768), bound)
    assert (found.kind, found.thread) == ("never-written", (12, 0, 0))
    spared = skip.replace(
        "st.global.v2.b32 [%rd13], ",
        "shr.u32 %r31, %r0, 2;\nsetp.ne.u32 %p3, %r31, 3;\n@%p3 st.global.v2.b32 [%rd13], ",
    )
    go(kernel(spared, 3, shared=768), bound).check()
    expected = a.astype(np.float32) @ b.astype(np.float32).T
    expected[3] = 0
    assert np.array_equal(c, expected)


def test_ldmatrix_needs_the_whole_warp() -> None:
    a, b, c = operands()
    early = BODY.replace("SYNC", "bar.sync 0;\nsetp.eq.u32 %p4, %r0, 5;\n@%p4 bra END;") + "END:\n"
    found = fault(kernel(early, 3, shared=768), tensors((a, "in"), (b, "in"), (c, "out")))
    assert (found.kind, found.thread) == ("converged", (5, 0, 0))


HALVES = """
mov.b32 %r2, smem;
shl.b32 %r3, %r0, 4;
and.b32 %r4, %r3, 112;
add.s32 %r4, %r4, %r2;
cvt.u16.u32 %rs1, %r0;
mov.b32 %r5, {%rs1, %rs2};
stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%r4], {%r5};
bar.sync 0;
shl.b32 %r6, %r0, 1;
and.b32 %r6, %r6, 14;
add.s32 %r6, %r6, %r4;
mul.wide.u32 %rd10, %r0, 2;
add.s64 %rd11, %rd0, %rd10;
ld.shared.b16 %rs3, [%r6];
and.b32 %r7, %r0, 1;
setp.eq.u32 %p1, %r7, WHICH;
@%p1 st.global.b16 [%rd11], %rs3;
"""


def test_stmatrix_spreads_the_poison_of_each_half_by_itself() -> None:
    """Upper halves were never written: transposed they are every other row, of which the ones between know nothing."""
    result = np.zeros(32, np.uint16)
    bound = tensors((result, "inout"))
    go(kernel(HALVES.replace("WHICH", "0"), 1, shared=128), bound).check()
    lanes = np.arange(32)
    even = lanes % 2 == 0  # reads row `lane % 8`, column `lane % 8`, of what lane 4 c + r / 2 has
    assert np.array_equal(result[even], (4 * (lanes % 8) + lanes % 8 // 2)[even])
    found = fault(kernel(HALVES.replace("WHICH", "1"), 1, shared=128), bound)
    assert (found.kind, found.thread) == ("never-written", (1, 0, 0))


def test_stmatrix_stores_poison_of_a_register_that_nothing_has_touched() -> None:
    result = np.zeros(32, np.uint16)
    untouched = HALVES.replace("mov.b32 %r5, {%rs1, %rs2};\n", "").replace("WHICH", "0")
    found = fault(kernel(untouched, 1, shared=128), tensors((result, "inout")))
    assert (found.kind, found.thread) == ("never-written", (0, 0, 0))


SOME_WARPS = """
mov.b32 %r2, smem;
mad.lo.u32 %r3, %r0, 16, %r2;
mad.lo.u32 %r5, %r1, 1024, %r0;
add.s32 %r6, %r5, 10000;
add.s32 %r7, %r5, 20000;
add.s32 %r8, %r5, 30000;
setp.lt.u32 %p1, %r0, 32;
@%p1 bra PAST;
stmatrix.sync.aligned.m8n8.x4.shared.b16 [%r3], {%r5, %r6, %r7, %r8};
PAST:
bar.sync 0;
mad.lo.u32 %r9, %r1, 1024, 0;
mad.lo.u32 %r9, %r0, 16, %r9;
cvt.u64.u32 %rd10, %r9;
add.s64 %rd11, %rd0, %rd10;
ld.shared.u8 %rs1, [%r3];
st.global.u8 [%rd11], %rs1;
ld.shared.v4.b32 {%r10, %r11, %r12, %r13}, [%r3];
st.global.v4.b32 [%rd11], {%r10, %r11, %r12, %r13};
"""


def test_stmatrix_of_one_warp_of_each_block() -> None:
    """In units of bytes, which other instructions need. What the other warp's places hold nobody has written."""
    found = np.zeros((3, 64, 4), np.uint32)
    text = kernel(SOME_WARPS, 1, shared=1024, threads=64)
    stop = fault(text, tensors((found, "out")), grid=3, block=64)
    assert (stop.kind, stop.thread) == ("never-written", (0, 0, 0))
    spared = text.replace("ld.shared.u8", "@%p1 bra END;\nld.shared.u8").replace("ret;", "END:\nret;")
    go(spared, tensors((found, "inout")), grid=3, block=64).check()
    block, row, word = np.ogrid[:3, :32, :4]
    assert np.array_equal(found[:, 32:], block * 1024 + 32 + row % 8 * 4 + word + row // 8 * 10000)
