"""Fragments, products and matrix loads of whole warps, against CuTe's layouts and sums of fractions."""

from __future__ import annotations

import numpy as np
import pytest
from semantics_kit import NAN, f32, instruction, rounded, signed, value
from tensor_layouts import Layout, atoms_nv, size

from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.warps.tensor_cores import (
    FragmentPlaces,
    Mma,
    compile_matrix_copy,
    compile_mma,
    places_a,
    places_b,
    places_c,
)

ATOMS = {
    ("f16", 8): "SM80_16x8x8_F32F16F16F32_TN",
    ("f16", 16): "SM80_16x8x16_F32F16F16F32_TN",
    ("bf16", 8): "SM80_16x8x8_F32BF16BF16F32_TN",
    ("bf16", 16): "SM80_16x8x16_F32BF16BF16F32_TN",
    ("tf32", 4): "SM80_16x8x4_F32TF32TF32F32_TN",
    ("tf32", 8): "SM80_16x8x8_F32TF32TF32F32_TN",
    ("s8", 16): "SM80_16x8x16_S32S8S8S32_TN",
    ("s8", 32): "SM80_16x8x32_S32S8S8S32_TN",
}


def coordinates(layout: Layout, rows: int) -> list[list[tuple[int, int]]]:
    """For each lane and value of a thread-value layout, its place in a matrix counted down its columns."""
    values = size(layout) // 32
    indices = [[int(layout(lane, v)) for v in range(values)] for lane in range(32)]
    return [[(i % rows, i // rows) for i in lane] for lane in indices]


@pytest.mark.parametrize(("kind", "k"), ATOMS)
def test_fragments_lie_where_cute_says(kind: str, k: int) -> None:
    atom = getattr(atoms_nv, ATOMS[kind, k])

    def table(places: FragmentPlaces, swap: bool = False) -> list[list[tuple[int, int]]]:
        pairs = (places.column, places.row) if swap else (places.row, places.column)
        return [list(zip(*(p[lane].tolist() for p in pairs), strict=True)) for lane in range(32)]

    a = table(places_a(kind, k))
    assert len(a[0]) == 16 * k // 32
    assert a == coordinates(atom.a_layout, 16)
    # CuTe counts B as (n, k).
    assert table(places_b(kind, k), swap=True) == coordinates(atom.b_layout, 8)
    assert table(places_c()) == coordinates(atom.c_layout, 16)


FORMS = [
    ("f32", "f16", 8),
    ("f32", "f16", 16),
    ("f16", "f16", 8),
    ("f16", "f16", 16),
    ("f32", "bf16", 8),
    ("f32", "bf16", 16),
    ("f32", "tf32", 4),
    ("f32", "tf32", 8),
    ("s32", "s8", 16),
    ("s32", "s8", 32),
    ("s32", "u8", 16),
    ("s32", "u8", 32),
]


def group(letter: str, start: int, count: int) -> str:
    names = ", ".join(f"%{letter}{start + i}" for i in range(count))
    return "{" + names + "}"


def mma(d: str, kind: str, k: int, b_kind: str | None = None, extra: str = "") -> Mma:
    per = {"f16": 2, "bf16": 2, "tf32": 1}.get(kind, 4)
    counts = (16 * k // 32 // per, 8 * k // 32 // per, 2 if d == "f16" else 4)
    text = f"mma.sync.aligned.m16n8k{k}.row.col{extra}.{d}.{kind}.{b_kind or kind}.{d} "
    text += ", ".join(group("r", r, n) for r, n in ((0, counts[2]), (4, counts[0]), (8, counts[1]), (12, counts[2])))
    return compile_mma(instruction(text), "sm_80")


def pack(matrix: np.ndarray, places: FragmentPlaces, kind: str) -> np.ndarray:
    """A matrix of numbers as fragments, element by element."""
    fragment = np.zeros((32, places.row.shape[1]), dtype=np.int64)
    for lane in range(32):
        for i in range(places.row.shape[1]):
            fragment[lane, i] = encode(matrix[places.row[lane, i], places.column[lane, i]], kind)
    width = {"f16": 16, "bf16": 16, "s8": 8, "u8": 8}.get(kind, 32)
    per = 32 // width
    words = np.zeros((32, fragment.shape[1] // per), dtype=np.uint32)
    for i in range(fragment.shape[1]):
        words[:, i // per] |= (fragment[:, i].astype(np.uint32) & np.uint32((1 << width) - 1)) << np.uint32(
            width * (i % per)
        )
    return words[None]


def encode(number: float, kind: str) -> int:
    if kind in ("s8", "u8", "s32"):
        return int(number)
    if kind == "f16":
        return int(np.float16(number).view(np.uint16))
    bits = f32(float(number))
    return bits >> 16 if kind == "bf16" else bits


def unpack(words: np.ndarray, kind: str) -> np.ndarray:
    places = places_c()
    result = np.zeros((16, 8))
    for lane in range(32):
        for i in range(4):
            if kind == "f16":
                number = float(value(int(words[0, lane, i // 2]) >> 16 * (i % 2) & 0xFFFF, "f16"))
            elif kind == "f32":
                number = float(value(int(words[0, lane, i]), "f32"))
            else:
                number = signed(int(words[0, lane, i]), 32)
            result[places.row[lane, i], places.column[lane, i]] = number
    return result


@pytest.mark.parametrize(("d", "kind", "k"), FORMS)
def test_products_of_small_integers_are_exact(d: str, kind: str, k: int) -> None:
    rng = np.random.default_rng(k)
    low = 0 if kind == "u8" else -8
    a, b, c = (rng.integers(low, 9, shape) for shape in ((16, k), (k, 8), (16, 8)))
    op = mma(d, kind, k)
    got = op(pack(a, places_a(kind, k), kind), pack(b, places_b(kind, k), kind), pack(c, places_c(), d))
    assert np.array_equal(unpack(got, d), a @ b + c)
    assert got.shape == (1, 32, len(op.destinations))


def test_bytes_of_both_signs_and_wrapping_sums() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.integers(0, 256, (16, 32)), rng.integers(-128, 128, (32, 8))
    top = np.full((16, 8), 2**31 - 1)
    fragments = pack(a, places_a("u8", 32), "u8"), pack(b, places_b("s8", 32), "s8"), pack(top, places_c(), "s32")
    exact = a @ b + top
    wrapped = (exact + 2**31) % 2**32 - 2**31
    assert np.any(exact > 2**31 - 1)
    assert np.array_equal(unpack(mma("s32", "u8", 32, "s8")(*fragments), "s32"), wrapped)
    clamped = np.clip(exact, -(2**31), 2**31 - 1)
    assert np.array_equal(unpack(mma("s32", "u8", 32, "s8", ".satfinite")(*fragments), "s32"), clamped)


def test_one_rounding_and_unread_bits() -> None:
    """2**-30 is lost beside 1 in float32 after every single product, but sixteen of them are not lost together."""
    a, b, c = np.full((16, 16), 2.0**-14), np.full((16, 8), 2.0**-14), np.ones((16, 8))
    got = mma("f32", "f16", 16)(
        pack(a, places_a("f16", 16), "f16"), pack(b, places_b("f16", 16), "f16"), pack(c, places_c(), "f32")
    )
    assert set(got.reshape(-1).tolist()) == {rounded(1 + 16 * value(f32(2.0**-28), "f32"), "f32")}
    noise = np.random.default_rng(0).integers(0, 2**13, (1, 32, 4), dtype=np.uint32)
    a_words, b_words = (
        pack(np.eye(16, 8), places_a("tf32", 8), "tf32"),
        pack(np.ones((8, 8)), places_b("tf32", 8), "tf32"),
    )
    zero = np.zeros((1, 32, 4), dtype=np.uint32)
    op = mma("f32", "tf32", 8)
    assert np.array_equal(op(a_words, b_words, zero), op(a_words | noise, b_words, zero))


def test_infinities_and_nan() -> None:
    a, b = np.zeros((16, 16)), np.ones((16, 8))
    a[0, 0], a[1, 0], a[1, 1] = np.inf, np.inf, -np.inf
    words = mma("f32", "f16", 16)(
        pack(a, places_a("f16", 16), "f16"), pack(b, places_b("f16", 16), "f16"), np.zeros((1, 32, 4), np.uint32)
    )
    assert words[0, 0].tolist() == [0x7F800000, 0x7F800000, 0, 0]
    assert words[0, 4].tolist() == [NAN["f32"], NAN["f32"], 0, 0]


def test_warps_are_independent() -> None:
    rng = np.random.default_rng(9)
    op = mma("f32", "f16", 16)
    a, b, c = (rng.integers(0, 2**14, (5, 32, n), dtype=np.uint32) for n in (4, 2, 4))
    together = op(a, b, c)
    for w in range(5):
        assert np.array_equal(op(a[w : w + 1], b[w : w + 1], c[w : w + 1])[0], together[w])


A4, B2, C4 = group("r", 4, 4), group("r", 8, 2), group("r", 0, 4)


@pytest.mark.parametrize(
    "text",
    [
        f"m16n8k16.row.row.f32.f16.f16.f32 {C4}, {A4}, {B2}, {C4}",
        f"m16n8k32.row.col.f32.f16.f16.f32 {C4}, {A4}, {B2}, {C4}",
        f"m16n8k16.row.col.f32.f16.bf16.f32 {C4}, {A4}, {B2}, {C4}",
        f"m16n8k16.row.col.f32.f16.f16.f32 {C4}, {B2}, {B2}, {C4}",
        f"m16n8k16.row.col.f16.bf16.bf16.f16 {B2}, {A4}, {B2}, {B2}",
        f"m8n8k4.row.col.f64.f64.f64.f64 {C4}, {A4}, {B2}, {C4}",
    ],
)
def test_other_products_stop(text: str) -> None:
    with pytest.raises(UnsupportedInstruction, match="mma.sync"):
        compile_mma(instruction(f"mma.sync.aligned.{text}"), "sm_80")


@pytest.mark.parametrize("count", [1, 2, 4])
@pytest.mark.parametrize("transposed", [False, True])
def test_matrix_loads(count: int, transposed: bool) -> None:
    text = f"ldmatrix.sync.aligned.m8n8.x{count}{'.trans' * transposed}.shared.b16 {group('r', 0, count)}, [%r9]"
    copy = compile_matrix_copy(instruction(text))
    assert (copy.count, copy.transposed, len(copy.registers)) == (count, transposed, count)
    rows = np.arange(3 * 8 * count * 8, dtype=np.uint16).reshape(3, 8 * count, 8)
    fragment = copy.fragment(rows)
    assert fragment.shape == (3, 32, count) and fragment.dtype == np.uint32
    for w in range(3):
        for lane in range(32):
            for m in range(count):
                for half in range(2):
                    row, column = lane // 4, lane % 4 * 2 + half
                    if transposed:
                        row, column = column, row
                    assert fragment[w, lane, m] >> (16 * half) & 0xFFFF == rows[w, 8 * m + row, column]
    assert np.array_equal(copy.rows(fragment), rows)


@pytest.mark.parametrize(
    "name", ["ldmatrix.sync.aligned.m8n16.x1.shared.b8", "ldmatrix.sync.aligned.m8n8.x3.shared.b16"]
)
def test_other_matrix_loads_stop(name: str) -> None:
    with pytest.raises(UnsupportedInstruction):
        compile_matrix_copy(instruction(f"{name} {{%r1}}, [%r9]"))
