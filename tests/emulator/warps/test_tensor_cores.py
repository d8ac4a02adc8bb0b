"""mma.sync, ldmatrix and stmatrix in small kernels, lane by lane as the PTX ISA has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from emulator_kit import fault, go, kernel, tensors
from semantics_kit import instruction

from cutegen.emulator import UnsupportedInstruction
from cutegen.emulator.warps.tensor_cores import compile_mma

FORMS = [
    # D and C, A, B, k
    *((d, "f16", "f16", k) for d in ("f16", "f32") for k in (8, 16)),
    *(("f32", "bf16", "bf16", k) for k in (8, 16)),
    *(("f32", "tf32", "tf32", k) for k in (4, 8)),
    *(("f32", "e4m3", kind, k) for kind, k in (("e4m3", 16), ("e4m3", 32), ("e5m2", 32))),
    *(("f16", "e5m2", "e5m2", k) for k in (16, 32)),
    *(("s32", a, b, k) for a in ("s8", "u8") for b in ("s8", "u8") for k in (16, 32)),
]

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "e4m3": 8, "e5m2": 8, "f32": 32, "s32": 32}
FLOATS_OF_8_BITS = {"e4m3": torch.float8_e4m3fn, "e5m2": torch.float8_e5m2}


def a_place(bits: int, k: int, lane: int, i: int) -> tuple[int, int]:
    """Row and column of element i of a lane's fragment: PTX ISA manual 9.1, sections 9.7.14.5.6 to 9.7.14.5.10."""
    group, thread = lane >> 2, lane % 4
    if bits == 32:
        return (group + 8 if i in (1, 3) else group), (thread + 4 if i >= 2 else thread)
    if bits == 16 and k == 8:
        return (group if i < 2 else group + 8), thread * 2 + (i & 1)
    if bits == 16:
        return (group if i < 2 or 4 <= i < 6 else group + 8), thread * 2 + (i & 1) + (8 if i >= 4 else 0)
    if k == 16:
        return (group if i < 4 else group + 8), thread * 4 + (i & 3)
    return (group if i < 4 or 8 <= i < 12 else group + 8), thread * 4 + (i & 3) + (16 if i >= 8 else 0)


def b_place(bits: int, k: int, lane: int, i: int) -> tuple[int, int]:
    group, thread = lane >> 2, lane % 4
    if bits == 32:
        return thread + 4 * i, group
    if bits == 16:
        return thread * 2 + (i & 1) + (8 if i >= 2 else 0), group
    return thread * 4 + (i & 3) + (16 if i >= 4 else 0), group


def c_place(bits: int, k: int, lane: int, i: int) -> tuple[int, int]:
    return (lane >> 2) + (8 if i >= 2 else 0), (lane % 4) * 2 + (i & 1)


def encoded(numbers: np.ndarray, kind: str) -> np.ndarray:
    """Whole numbers as the bits of their type, which hold them exactly."""
    if kind == "f16":
        return numbers.astype(np.float16).view(np.uint16).astype(np.uint64)
    if kind in ("bf16", "tf32", "f32"):
        bits = numbers.astype(np.float32).view(np.uint32)
        return (bits >> 16 if kind == "bf16" else bits).astype(np.uint64)
    if kind in FLOATS_OF_8_BITS:
        narrow = torch.from_numpy(numbers.astype(np.float32)).to(FLOATS_OF_8_BITS[kind])
        assert np.array_equal(narrow.float().numpy(), numbers)
        return narrow.view(torch.uint8).numpy().astype(np.uint64)
    return numbers.astype(np.int64).view(np.uint64) & np.uint64((1 << BITS[kind]) - 1)


def packed(matrices: np.ndarray, kind: str, k: int, place: Any) -> np.ndarray:
    """(runs, rows, columns) of whole numbers as registers (runs, 32 lanes, registers)."""
    per = 32 // BITS[kind]
    count = matrices.shape[1] * matrices.shape[2] // 32
    bits = encoded(matrices, kind)
    words = np.zeros((len(matrices), 32, count // per), np.uint64)
    for lane in range(32):
        for i in range(count):
            row, column = place(BITS[kind], k, lane, i)
            words[:, lane, i // per] |= bits[:, row, column] << np.uint64(BITS[kind] * (i % per))
    return words.astype(np.uint32)


def unpacked(words: np.ndarray, kind: str) -> np.ndarray:
    """Registers of D as (runs, 16, 8) numbers."""
    flat = np.ascontiguousarray(words)
    elements = flat.view({"f16": np.float16, "f32": np.float32, "s32": np.int32}[kind])
    result = np.zeros((len(words), 16, 8))
    for lane in range(32):
        for i in range(4):
            result[(slice(None), *c_place(32, 0, lane, i))] = elements[:, lane, i]
    return result


def registers(first: int, count: int) -> str:
    return "{" + ", ".join(f"%r{first + i}" for i in range(count)) + "}"


def mma(d: str, a_kind: str, b_kind: str, k: int, saturate: bool = False) -> str:
    """The instruction: A from %r4, B from %r8, C from %r12, D to %r16."""
    counts = [m * n * BITS[kind] // 1024 for m, n, kind in ((16, 8, d), (16, k, a_kind), (k, 8, b_kind), (16, 8, d))]
    operands = ", ".join(registers(first, count) for first, count in zip((16, 4, 8, 12), counts, strict=True))
    return f"mma.sync.aligned.m16n8k{k}.row.col{'.satfinite' * saturate}.{d}.{a_kind}.{b_kind}.{d} {operands}"


def product(
    form: tuple[str, str, str, int], a: np.ndarray, b: np.ndarray, c: np.ndarray, saturate: bool = False
) -> np.ndarray:
    """A @ B + C of each run by one warp that gets its registers from global memory as they are."""
    d, a_kind, b_kind, k = form
    target = "sm_89" if a_kind in FLOATS_OF_8_BITS else "sm_80"
    fragments = packed(a, a_kind, k, a_place), packed(b, b_kind, k, b_place), packed(c, d, k, c_place)
    out = np.zeros_like(fragments[2])
    body = "mad.lo.u32 %r2, %r1, 32, %r0;\n"
    for number, (fragment, first) in enumerate(zip((*fragments, out), (4, 8, 12, 16), strict=True)):
        count = fragment.shape[2]
        body += f"mul.wide.u32 %rd10, %r2, {4 * count};\nadd.s64 %rd11, %rd{number}, %rd10;\n"
        if number < 3:
            body += "".join(f"ld.global.b32 %r{first + i}, [%rd11+{4 * i}];\n" for i in range(count))
        else:
            body += f"{mma(*form, saturate)};\n"
            body += "".join(f"st.global.b32 [%rd11+{4 * i}], %r{first + i};\n" for i in range(count))
    ptx = kernel(body, 4).replace("sm_80", target)
    report = go(ptx, tensors(*((f, "in") for f in fragments), (out, "out")), grid=len(a))
    report.check()
    assert report.approximate == (() if d == "s32" else (mma(*form, saturate).split()[0],))
    return unpacked(out, d)


def runs(matrices: list[np.ndarray], shape: tuple[int, int]) -> np.ndarray:
    """Matrices one after the other, filled up with zeros."""
    return np.stack([np.pad(m, [(0, n - have) for n, have in zip(shape, m.shape, strict=True)]) for m in matrices])


@pytest.mark.parametrize("form", FORMS)
def test_each_lane_holds_what_the_manual_says(form: tuple[str, str, str, int]) -> None:
    """Unit vectors bring out the coordinates that the other operand's elements hold, a column or row at a time."""
    k = form[3]
    number = np.arange(32.0)
    if form[1] in FLOATS_OF_8_BITS:  # which do not hold all of these: four with each exponent
        number = 2 ** (number // 4) * (1 + number % 4 / 4)
    columns = runs([np.eye(k)[:, start : start + 8] for start in range(0, k, 8)], (k, 8))
    for mark in number[np.indices((16, k))]:
        found = product(form, runs([mark] * len(columns), (16, k)), columns, np.zeros((len(columns), 16, 8)))
        assert np.array_equal(found.swapaxes(0, 1).reshape(16, -1)[:, :k], mark)
    rows = runs([np.eye(k)[start : start + 16] for start in range(0, k, 16)], (16, k))
    for mark in number[np.indices((k, 8))]:
        found = product(form, rows, runs([mark] * len(rows), (k, 8)), np.zeros((len(rows), 16, 8)))
        assert np.array_equal(found.reshape(-1, 8)[:k], mark)
    marks = np.arange(128).reshape(1, 16, 8)
    assert np.array_equal(product(form, np.zeros((1, 16, k)), np.zeros((1, k, 8)), marks), marks)


def numbers(kind: str, rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    low, high = {"s8": (-128, 128), "u8": (0, 256)}.get(kind, (-5, 6))
    return rng.integers(low, high, shape)


@pytest.mark.parametrize("form", FORMS)
def test_products_of_whole_numbers(form: tuple[str, str, str, int]) -> None:
    _, a_kind, b_kind, k = form
    rng = np.random.default_rng(k)
    a, b = numbers(a_kind, rng, (4, 16, k)), numbers(b_kind, rng, (4, k, 8))
    c = rng.integers(-100, 100, (4, 16, 8))
    assert np.array_equal(product(form, a, b, c), a @ b + c)


@pytest.mark.parametrize("form", [f for f in FORMS if f[0] == "s32"])
def test_sums_beyond_32_bits_wrap_or_stop_at_the_limit(form: tuple[str, str, str, int]) -> None:
    _, a_kind, b_kind, k = form
    rng = np.random.default_rng(k)
    a, b = numbers(a_kind, rng, (2, 16, k)), numbers(b_kind, rng, (2, k, 8))
    c = np.stack([np.full((16, 8), 2**31 - 1), np.full((16, 8), -(2**31))])
    exact = a @ b + c
    wrapped = (exact + 2**31) % 2**32 - 2**31
    limited = np.clip(exact, -(2**31), 2**31 - 1)
    assert (wrapped != limited).any()
    assert np.array_equal(product(form, a, b, c), wrapped)
    assert np.array_equal(product(form, a, b, c, saturate=True), limited)


@pytest.mark.parametrize("form", FORMS)
def test_only_integers_are_given_to_the_last_bit(form: tuple[str, str, str, int]) -> None:
    assert compile_mma(instruction(mma(*form)), "sm_90a").approximate == (form[0] != "s32")


def test_sums_of_8_bits_are_cut_on_ada_alone() -> None:
    """Of 2^14 + 1 the accumulator keeps 2^14 there, after each 16 products; 2^13 + 1 it holds."""
    ones = np.frombuffer(b"\x38" * 4, np.uint32)[0]  # of e4m3
    a, b = np.full((1, 32, 4), ones), np.full((1, 32, 2), ones)
    for target, start, wanted in (
        ("sm_89", 2.0**14 + 1, 2.0**14 + 32),
        ("sm_89", 2.0**13 + 1, 2.0**13 + 33),
        ("sm_89", -(2.0**14) - 33, -(2.0**14)),  # -2^14 - 17 is cut to -2^14 - 16, toward zero
        ("sm_89", 2.0**18, 2.0**18),  # 16 is half of what it keeps, and is cut twice
        ("sm_90a", 2.0**18 + 1, 2.0**18 + 33),
        ("sm_120a", 2.0**14 + 1, 2.0**14 + 33),
    ):
        one = compile_mma(instruction(mma("f32", "e4m3", "e4m3", 32)), target)
        c = np.full((1, 32, 4), start, np.float32).view(np.uint32)
        assert (one(a, b, c).view(np.float32) == wanted).all(), (target, start)


# Thread i brings the i-th 16 bytes of the first tensor to shared memory, whose address is in %r2.
FILL = """
mov.b32 %r2, smem;
mad.lo.u32 %r3, %r0, 16, %r2;
mul.wide.u32 %rd10, %r0, 16;
add.s64 %rd11, %rd0, %rd10;
ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd11];
st.shared.v4.b32 [%r3], {%r5, %r6, %r7, %r8};
bar.sync 0;
"""


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrices_from_and_to_shared_memory(count: int, transposed: bool) -> None:
    """Rows that lie anywhere in shared memory. stmatrix brings them back to the same places, 512 bytes on.

    Lanes whose address does not count hold one that would be a fault.
    """
    rng = np.random.default_rng(count)
    rows, places = rng.integers(0, 2**16, (32, 8), dtype=np.uint16), rng.permutation(32)
    offsets = np.where(np.arange(32) < 8 * count, 16 * places, 1 << 30).astype(np.uint32)
    fragments, back = np.zeros((32, count), np.uint32), np.zeros((32, 8), np.uint16)
    moved = np.isin(np.arange(32), places[: 8 * count])
    form, names = f"sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16", registers(10, count)
    body = f"""{FILL}
mul.wide.u32 %rd12, %r0, 4;
add.s64 %rd13, %rd1, %rd12;
ld.global.b32 %r9, [%rd13];
add.s32 %r9, %r9, %r2;
ldmatrix.{form} {names}, [%r9];
stmatrix.{form} [%r9+512], {names};
bar.sync 0;
mul.wide.u32 %rd14, %r0, {4 * count};
add.s64 %rd15, %rd2, %rd14;
{"".join(f"st.global.b32 [%rd15+{4 * i}], %r{10 + i};" for i in range(count))}
add.s64 %rd16, %rd4, %rd12;
ld.global.b32 %r20, [%rd16];
setp.ne.u32 %p1, %r20, 0;
@%p1 ld.shared.v4.b32 {{%r5, %r6, %r7, %r8}}, [%r3+512];
add.s64 %rd17, %rd3, %rd10;
@%p1 st.global.v4.b32 [%rd17], {{%r5, %r6, %r7, %r8}};
"""
    read = tensors((rows, "in"), (offsets, "in"), (fragments, "out"), (back, "inout"), (moved.astype(np.uint32), "in"))
    go(kernel(body, 5, shared=1024), read).check()
    for lane in range(32):
        for matrix in range(count):
            for half in range(2):
                row, column = lane // 4, 2 * (lane % 4) + half
                row, column = (column, row) if transposed else (row, column)
                found = fragments[lane, matrix] >> np.uint32(16 * half) & np.uint32(0xFFFF)
                assert found == rows[places[8 * matrix + row], column]
    assert np.array_equal(back, np.where(moved[:, None], rows, 0))


# A is 16x32, then B 8x32 (n, k), bytes row by row. Lane i of ldmatrix x4 addresses row i % 16, its half i / 16.
BYTES = """
setp.lt.u32 %p1, %r0, 16;
@%p1 ld.global.v4.b32 {%r5, %r6, %r7, %r8}, [%rd11+512];
@%p1 st.shared.v4.b32 [%r3+512], {%r5, %r6, %r7, %r8};
bar.sync 0;
and.b32 %r9, %r0, 15;
shr.u32 %r10, %r0, 4;
mad.lo.u32 %r9, %r9, 32, %r2;
mad.lo.u32 %r9, %r10, 16, %r9;
ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r12, %r13, %r14, %r15}, [%r9];
and.b32 %r9, %r0, 7;
bfe.u32 %r10, %r0, 3, 1;
mad.lo.u32 %r9, %r9, 32, %r2;
mad.lo.u32 %r9, %r10, 16, %r9;
ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%r16, %r17}, [%r9+512];
mma.sync.aligned.m16n8k32.row.col.s32.s8.u8.s32 {%r20,%r21,%r22,%r23}, {%r12,%r13,%r14,%r15}, {%r16,%r17}, {0,0,0,0};
mul.wide.u32 %rd12, %r0, 8;
add.s64 %rd13, %rd1, %rd12;
st.global.v2.b32 [%rd13], {%r20, %r21};
st.global.v2.b32 [%rd13+256], {%r22, %r23};
"""


def test_bytes_through_ldmatrix() -> None:
    """ldmatrix moves pairs of bytes where its elements of 16 bits are."""
    rng = np.random.default_rng(2)
    a, b = rng.integers(-128, 128, (16, 32)).astype(np.int8), rng.integers(0, 256, (8, 32)).astype(np.uint8)
    c = np.zeros((16, 8), np.int32)
    go(kernel(FILL + BYTES, 2, shared=768), tensors((np.concatenate([a.view(np.uint8), b]), "in"), (c, "out"))).check()
    assert np.array_equal(c, a.astype(np.int64) @ b.astype(np.int64).T)


D, A, B = registers(2, 4), registers(6, 4), registers(10, 2)

NEIGHBOURS = f"""
wgmma.mma_async.sync.aligned.m64n8k16.f16.f16.f16 {{%r2, %r3}}, %rd1, %rd2, %p1, 1, 1, 0, 0;
wgmma.mma_async.sync.aligned.m64n8k32.f16.e4m3.e4m3 {{%r2, %r3}}, %rd1, %rd2, %p1, 1, 1;
wgmma.mma_async.sync.aligned.m64n8k32.s32.s8.s8 {{%r2, %r3, %r4, %r5}}, %rd1, %rd2, %p1;
wgmma.wait_group.sync.aligned 8;
wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {D}, {A}, %rd2, %p1, 1, 1, 0, 0;
cp.async.bulk.tensor.1d.shared::cluster.global.tile::gather4.mbarrier::complete_tx::bytes [%r2], [%rd1, {{%r3}}], [%r4];
cp.async.bulk.tensor.1d.shared::cta.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd1, {{0}}], [8], 3;
cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd1, {{%r2}}], [%r3];
cp.async.bulk.prefetch.tensor.1d.L2.global.im2col [%rd1, {{%r2}}];
cp.async.cg.shared.global.L2::cache_hint [%r2], [%rd1], 16, %rd2;
atom.global.add.u32 %r2, [%rd1], %r3;
red.global.add.f32 [%rd1], %r2;
ldmatrix.sync.aligned.m16n16.x1.trans.shared.b8 {{%r2, %r3}}, [%r4];
ldmatrix.sync.aligned.m8n8.x1.shared.b8 {{%r2}}, [%r4];
ldmatrix.sync.aligned.m8n16.x1.shared.b8x16.b6x16_p32 {{%r2}}, [%r3];
ldmatrix.sync.aligned.m8n8.x1.b16 {{%r2}}, [%rd3];
stmatrix.sync.aligned.m16n8.x1.trans.shared.b8 [%r3], {{%r2}};
movmatrix.sync.aligned.m8n8.trans.b16 %r2, %r3;
mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {{%rd1, %rd2}}, {{%rd3}}, {{%rd4}}, {{%rd5, %rd6}};
mma.sync.aligned.m16n8k4.row.col.f64.f64.f64.f64.rn {D}, {B}, {{%r8}}, {D};
mma.sync.aligned.m8n8k16.row.col.s32.s8.s8.s32 {{%r2, %r3}}, {{%r4}}, {{%r5}}, {{%r2, %r3}};
mma.sync.aligned.m16n8k32.row.col.s32.s4.s4.s32 {D}, {B}, {{%r8}}, {D};
mma.sync.aligned.m16n8k32.row.col.f32.e4m3.bf16.f32 {D}, {A}, {B}, {D};
mma.sync.aligned.m16n8k32.row.col.kind::f8f6f4.f32.e3m2.e4m3.f32 {D}, {A}, {B}, {D};
mma.sp.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {D}, {B}, {B}, {D}, %r15, 0;
wmma.load.a.sync.aligned.row.m16n16k16.shared.f16 {{%r2, %r3, %r4, %r5, %r6, %r7, %r8, %r9}}, [%r10];
bar.red.popc.u32 %r2, 0, %p1;
membar.gl;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster [%r2], [%rd1], 16, [%r3], %rs1;
cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.L2::cache_hint [%r2], [%rd1], 16, [%r3], %rd2;
cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd1], [%r2], 16;
mbarrier.arrive_drop.shared.b64 %rd1, [%r2];
fence.proxy.alias;
fence.sc.gpu;
createpolicy.fractional.L2::evict_last.b64 %rd1, 1.0;
discard.global.L2 [%rd1], 128;
setmaxnreg.inc.sync.aligned.u32 230;
st.release.gpu.global.b32 [%rd1], %r2;
ld.acquire.gpu.global.b32 %r2, [%rd1];
activemask.b32 %r2;
redux.sync.max.NaN.f32 %r2, %r3, 0xffffffff;
tcgen05.shift.cta_group::1.down [%r2];
tcgen05.mma.sp.cta_group::1.kind::f16 [%r2], %rd3, %rd4, [%r5], %r6, %p1;
tcgen05.mma.cta_group::1.kind::i8 [%r2], %rd3, %rd4, %r5, %p1;
tcgen05.mma.cta_group::1.kind::f16 [%r2], %rd3, %rd4, %r5, %p1, 3;
tcgen05.ld.red.sync.aligned.32x32b.x2.min.u32 {{%r2, %r3}}, %r4, [%r5];
tcgen05.ld.sync.aligned.16x32bx2.x1.pack::16b.b32 {{%r2}}, [%r5], 8;
multimem.ld_reduce.global.add.f32 %r2, [%rd1];
clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b64 [%r2], [%r3];
tcgen05.cp.cta_group::1.4x256b [%r2], %rd3;
tcgen05.cp.cta_group::1.128x256b.b8x16.b4x16_p64 [%r2], %rd3;
tcgen05.mma.ws.cta_group::1.kind::f16 [%r2], %rd3, %rd4, %r5, %p1;
tcgen05.mma.cta_group::1.kind::mxf4 [%r2], %rd3, %rd4, %r5, [%r6], [%r7], %p1;
"""


@pytest.mark.parametrize("text", NEIGHBOURS.strip().splitlines(), ids=lambda text: text.rstrip(";").split()[0])
def test_neighbours_stop_with_their_name_and_line_before_anything_runs(text: str) -> None:
    ptx = kernel(f"st.global.b32 [%rd0], %r0;\n{text}", 1)
    out = np.full(1, 7, np.uint32)
    with pytest.raises(UnsupportedInstruction) as caught:
        go(ptx, tensors((out, "out")), block=1)
    name, line = text.rstrip(";").split()[0], ptx.splitlines().index(text) + 1
    assert (caught.value.name, caught.value.line) == (name, line)
    assert f"line {line}" in str(caught.value) and name in str(caught.value) and text in str(caught.value)
    assert out[0] == 7


@pytest.mark.parametrize(
    ("one", "other"),
    [
        *(
            (f"{name} [%rd0]", f"{name} [%rd0+1048576]")
            for name in ("prefetch.global.L2", "prefetch.L1", "prefetch.global.L2::evict_last", "prefetchu.L1")
        ),
        ("griddepcontrol.wait", "griddepcontrol.launch_dependents"),
    ],
)
def test_what_does_nothing(one: str, other: str) -> None:
    out = np.zeros(32, np.uint32)
    body = f"setp.lt.u32 %p1, %r0, 9;\n{one};\n@%p1 {other};\n"
    body += "mul.wide.u32 %rd10, %r0, 4;\nadd.s64 %rd11, %rd0, %rd10;\nst.global.b32 [%rd11], %r0;\n"
    go(kernel(body, 1), tensors((out, "out"))).check()
    assert out.tolist() == list(range(32))


@pytest.mark.parametrize("hint", ["", ".L2::64B", ".L2::128B", ".L2::256B"])
def test_how_much_a_copy_prefetches_changes_nothing(hint: str) -> None:
    data, out = np.arange(128, dtype=np.uint32), np.zeros(128, np.uint32)
    body = (
        FILL[: FILL.index("ld.global")] + f"cp.async.cg.shared.global{hint} [%r3], [%rd11], 16;\ncp.async.wait_all;\n"
    )
    body += "ld.shared.v4.b32 {%r5, %r6, %r7, %r8}, [%r3];\nadd.s64 %rd12, %rd1, %rd10;\n"
    body += "st.global.v4.b32 [%rd12], {%r5, %r6, %r7, %r8};\n"
    go(kernel(body, 2, shared=512), tensors((data, "in"), (out, "out"))).check()
    assert np.array_equal(out, data)


def test_a_warp_of_fewer_threads_makes_no_product() -> None:
    out = np.zeros(48, np.uint32)
    form = mma("s32", "s8", "s8", 16)
    clear = "".join(f"mov.b32 %r{i}, 0;\n" for i in range(4, 20))
    store = "mul.wide.u32 %rd10, %r0, 4;\nadd.s64 %rd11, %rd0, %rd10;\nst.global.b32 [%rd11], %r0;\n"
    found = fault(kernel(f"{clear}{form};\n{store}", 1), tensors((out, "out")), block=48)
    assert (found.kind, found.thread) == ("converged", (32, 0, 0))
    skip = f"{clear}setp.ge.u32 %p1, %r0, 32;\n@%p1 bra OUT;\n{form};\nOUT:\n{store}"
    go(kernel(skip, 1), tensors((out, "out")), block=48).check()
