"""cvt against exact fractions, and against torch and numpy where they convert the same way."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from semantics_kit import (
    FORMATS,
    NAN,
    REGISTER,
    WIDTHS,
    compute,
    f32,
    f64,
    fields,
    floats,
    infinity,
    rounded,
    signed,
    special,
    value,
    words,
)

from cutegen.emulator.ptx.errors import UnsupportedInstruction

QUICK = settings(max_examples=15, deadline=None)
KINDS = ["s8", "u8", "s16", "u16", "s32", "u32", "s64", "u64"]
MODES = ["rn", "rz", "rm", "rp"]


def register(kind: str) -> str:
    width = WIDTHS.get(kind) or int(kind[1:])
    return REGISTER[max(width, 16)]


def limits(kind: str) -> tuple[int, int]:
    width = int(kind[1:])
    return (-(1 << (width - 1)), (1 << (width - 1)) - 1) if kind[0] == "s" else (0, (1 << width) - 1)


def stored(number: int, kind: str, width: int) -> int:
    """A result of a type as a register of ``width`` bits holds it: extended as its type is signed or not."""
    bits = number & ((1 << int(kind[1:])) - 1)
    if kind[0] == "s":
        bits = signed(bits, int(kind[1:]))
    return bits & ((1 << width) - 1)


@pytest.mark.parametrize("source", KINDS)
@pytest.mark.parametrize("result", KINDS)
@QUICK
@given(data=st.data())
def test_between_integers(source: str, result: str, data: st.DataObject) -> None:
    s, d = register(source), register(result)
    held = max(int(source[1:]), 16)
    wide = max(int(result[1:]), 16)
    bits = data.draw(st.lists(words(held), min_size=1, max_size=16))
    cut = [b & ((1 << int(source[1:])) - 1) for b in bits]
    numbers = [signed(b, int(source[1:])) if source[0] == "s" else b for b in cut]
    assert compute(f"cvt.{result}.{source} {d}1, {s}2", bits).tolist() == [stored(n, result, wide) for n in numbers]
    low, high = limits(result)
    saturating = f"cvt.sat.{result}.{source} {d}1, {s}2"
    if limits(source)[0] < low or limits(source)[1] > high:
        assert compute(saturating, bits).tolist() == [stored(max(low, min(high, n)), result, wide) for n in numbers]
    else:  # nothing can lie outside
        with pytest.raises(UnsupportedInstruction, match="modifier .sat"):
            compute(saturating, bits)


def test_results_and_sources_in_wider_registers() -> None:
    assert compute("cvt.s8.s32 %r1, %r2", [0x180, 0x17F]).tolist() == [0xFFFFFF80, 0x7F]
    assert compute("cvt.u8.u32 %r1, %r2", [0x1FF]).tolist() == [0xFF]
    assert compute("cvt.s32.s16 %r1, %r2", [0x1FFFF]).tolist() == [0xFFFFFFFF]
    assert compute("cvt.s64.s8 %rd1, %rs2", [0x80]).tolist() == [0xFFFFFFFFFFFFFF80]
    assert compute("cvt.rzi.s8.f32 %rs1, %r2", [f32(-3.5)]).tolist() == [0xFFFD]


# There is nothing between 8 bits and bf16.
PAIRS = [(i, f) for i in KINDS for f in ("f16", "bf16", "f32", "f64") if (i[1:], f) != ("8", "bf16")]


@pytest.mark.parametrize(("source", "result"), PAIRS)
@QUICK
@given(data=st.data())
def test_integers_to_floats(source: str, result: str, data: st.DataObject) -> None:
    width = int(source[1:])
    bits = data.draw(st.lists(words(width), min_size=1, max_size=16))
    numbers = [signed(b, width) if source[0] == "s" else b for b in bits]
    for mode in MODES:
        want = [rounded(Fraction(n), result, mode) if n else 0 for n in numbers]
        assert compute(f"cvt.{mode}.{result}.{source} {register(result)}1, {register(source)}2", bits).tolist() == want


WHOLE = {
    "rni": lambda x: round(x),  # to even, as Python rounds fractions
    "rzi": lambda x: int(x),
    "rmi": math.floor,
    "rpi": math.ceil,
}


@pytest.mark.parametrize(("result", "source"), PAIRS)
@QUICK
@given(data=st.data())
def test_floats_to_integers(source: str, result: str, data: st.DataObject) -> None:
    bits = data.draw(st.lists(floats(source), min_size=1, max_size=16))
    low, high = limits(result)
    edges = [Fraction(e) + d for e in (low, high) for d in (-1, Fraction(-1, 2), 0, Fraction(1, 2), 1)]
    bits += [rounded(e, source) for e in edges if e]
    wide = max(int(result[1:]), 16)

    def want(b: int, mode: str) -> int:
        name = special(b, source)
        if name == "nan":
            involved = source == "f64" or result[1:] == "64"
            return stored(1 << (int(result[1:]) - 1) if involved else 0, result, wide)
        number = {"inf": high + 1, "-inf": low - 1}.get(name) if name else WHOLE[mode](value(b, source))
        assert number is not None
        return stored(max(low, min(high, number)), result, wide)

    for mode in WHOLE:
        got = compute(f"cvt.{mode}.{result}.{source} {register(result)}1, {register(source)}2", bits).tolist()
        assert got == [want(b, mode) for b in bits], (mode, [hex(b) for b in bits])


def widened(b: int, source: str, result: str, mode: str) -> int:
    """A float in another format."""
    name = special(b, source)
    negative = bool(b >> (WIDTHS[source] - 1))
    if name == "nan":
        if result == "f64":
            return (b & (1 << FORMATS[source][0]) - 1) << (52 - FORMATS[source][0]) | 0x7FF8 << 48 | int(negative) << 63
        return b << 16 if (source, result) == ("bf16", "f32") else NAN[result]
    if name:
        return infinity(result, negative)
    number = value(b, source)
    return rounded(number, result, mode) if number else int(negative) << (WIDTHS[result] - 1)


PAIRS = [(a, b) for a in WIDTHS for b in WIDTHS if a != b]


@pytest.mark.parametrize(("source", "result"), PAIRS)
@QUICK
@given(data=st.data())
def test_between_floats(source: str, result: str, data: st.DataObject) -> None:
    bits = data.draw(st.lists(floats(source), min_size=1, max_size=16))
    size = FORMATS[result][0]
    if size < FORMATS[source][0]:
        # Next to the midpoints of the narrower format, at ordinary and at subnormal sizes.
        step = 1 << (FORMATS[source][0] - size)
        bits += [(b & ~(step - 1)) | (step // 2 + d) % step for b in bits for d in (-1, 0, 1)]
    narrowing = WIDTHS[result] <= WIDTHS[source]
    for mode in MODES if narrowing else [""]:
        text = f"cvt{'.' * bool(mode)}{mode}.{result}.{source} {register(result)}1, {register(source)}2"
        want = [widened(b, source, result, mode or "rn") for b in bits]
        assert compute(text, bits).tolist() == want, (text, [hex(b) for b in bits])


@QUICK
@given(st.lists(st.tuples(floats("f32"), floats("f32")), min_size=1, max_size=16))
def test_packing_pairs(rows: list[tuple[int, int]]) -> None:
    a, b = (list(c) for c in zip(*rows, strict=True))
    for kind in ("f16", "bf16"):
        for mode in ("rn", "rz"):
            want = [widened(x, "f32", kind, mode) << 16 | widened(y, "f32", kind, mode) for x, y in rows]
            assert compute(f"cvt.{mode}.{kind}x2.f32 %r1, %r2, %r3", a, b).tolist() == want

        def relu(bits: int, kind: str = kind) -> int:
            return 0 if bits >> 15 and special(bits, kind) != "nan" else bits

        want = [relu(widened(x, "f32", kind, "rn")) << 16 | relu(widened(y, "f32", kind, "rn")) for x, y in rows]
        assert compute(f"cvt.rn.relu.{kind}x2.f32 %r1, %r2, %r3", a, b).tolist() == want
        largest = infinity(kind) - 1

        def finite(bits: int, kind: str = kind, largest: int = largest) -> int:
            return bits & 0x8000 | largest if "inf" in special(bits, kind) else bits

        want = [finite(widened(x, "f32", kind, "rn")) for x in a]
        assert compute(f"cvt.rn.satfinite.{kind}.f32 %rs1, %r2", a).tolist() == want


@QUICK
@given(st.lists(floats("f32"), min_size=1, max_size=16))
def test_tf32(bits: list[int]) -> None:
    FORMATS["tf32"], WIDTHS["tf32"] = (10, -126), 19
    try:
        for mode in ("rn", "rz", "rna"):
            want = []
            for b in bits:
                if special(b, "f32") == "nan":
                    want.append(0x7FFFFFFF)
                elif special(b, "f32") or value(b, "f32") == 0:
                    want.append(b)
                else:
                    want.append(rounded(value(b, "f32"), "tf32", mode) << 13)
            assert compute(f"cvt.{mode}.tf32.f32 %r1, %r2", bits).tolist() == want
    finally:
        del FORMATS["tf32"], WIDTHS["tf32"]


@pytest.mark.parametrize("kind", ["f16", "f32", "f64"])
@QUICK
@given(data=st.data())
def test_rounding_to_whole_floats(kind: str, data: st.DataObject) -> None:
    bits = data.draw(st.lists(floats(kind), min_size=1, max_size=16))
    bits = [b for b in bits if special(b, kind) != "nan"] + [rounded(Fraction(n, 2), kind) for n in range(-9, 10) if n]
    r = register(kind)
    for mode, whole in WHOLE.items():
        want = []
        for b in bits:
            number = None if special(b, kind) else whole(value(b, kind))
            negative = b & 1 << (WIDTHS[kind] - 1)
            want.append(b if number is None else rounded(Fraction(number), kind) if number else negative)
        assert compute(f"cvt.{mode}.{kind}.{kind} {r}1, {r}2", bits).tolist() == want


@QUICK
@given(st.lists(floats("f32"), min_size=1, max_size=16))
def test_flushing(bits: list[int]) -> None:
    flushed = [b if fields(b, "f32")[1] else b & 0x80000000 for b in bits]
    assert (
        compute("cvt.rn.ftz.f16.f32 %rs1, %r2", bits).tolist() == compute("cvt.rn.f16.f32 %rs1, %r2", flushed).tolist()
    )
    assert (
        compute("cvt.rpi.ftz.s32.f32 %r1, %r2", bits).tolist() == compute("cvt.rpi.s32.f32 %r1, %r2", flushed).tolist()
    )
    tiny = f64(2.0**-130)
    assert compute("cvt.rn.ftz.f32.f64 %r1, %rd2", [tiny]).item() == 0
    assert compute("cvt.rn.f32.f64 %r1, %rd2", [tiny]).item() == 1 << 19


def test_against_torch() -> None:
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(3)
    bits = rng.integers(0, 2**32, 4000, dtype=np.uint32)
    bits = bits[~np.isnan(bits.view(np.float32))]
    numbers = torch.from_numpy(bits.view(np.float32).copy())
    for kind, dtype in (("bf16", torch.bfloat16), ("f16", torch.float16)):
        want = numbers.to(dtype).view(torch.int16).numpy().view(np.uint16)
        assert np.array_equal(compute(f"cvt.rn.{kind}.f32 %rs1, %r2", bits), want)


F8 = {"e4m3": (3, 7, 448), "e5m2": (2, 15, 57344)}  # bits of the fraction, bias, largest number


def f8_number(bits: int, kind: str) -> Fraction | None:
    """The number of a pattern of bits, or None where it is none: by the format alone."""
    fraction, bias, largest = F8[kind]
    exponent, rest = (bits & 0x7F) >> fraction, Fraction(bits & ((1 << fraction) - 1), 1 << fraction)
    value = (rest + (exponent > 0)) * Fraction(2) ** (max(exponent, 1) - bias)
    return None if value > largest else -value if bits & 0x80 else value


@pytest.mark.parametrize("kind", F8)
def test_floats_of_8_bits_become_f16_exactly(kind: str) -> None:
    pairs = [low | (255 - low) << 8 for low in range(256)]
    got = compute(f"cvt.rn.f16x2.{kind}x2 %r1, %rs2", pairs)
    for pair, bits in zip(pairs, got.tolist(), strict=True):
        for half, byte in ((bits & 0xFFFF, pair & 0xFF), (bits >> 16, pair >> 8)):
            value, number = np.uint16(half).view(np.float16), f8_number(byte, kind)
            if number is None:
                infinite = kind == "e5m2" and byte & 0x7F == 0x7C
                assert np.isinf(value) and (value < 0) == (byte > 127) if infinite else half == 0x7FFF
            else:
                assert Fraction(float(value)) == number and np.signbit(value) == (byte > 127)


@pytest.mark.parametrize("kind", F8)
@QUICK
@given(st.lists(st.tuples(floats("f32"), floats("f32")), min_size=1, max_size=16))
def test_packing_floats_of_8_bits(kind: str, rows: list[tuple[int, int]]) -> None:
    """The nearest number, of two the even one; what is too large is the largest, a NaN the canonical one."""
    numbers = {bits: value for bits in range(128) if (value := f8_number(bits, kind)) is not None}

    def wanted(bits: int) -> int:
        value = float(np.uint32(bits).view(np.float32))
        if math.isnan(value):
            return 0x7F
        size = Fraction(min(abs(value), F8[kind][2]))
        nearest = min(numbers, key=lambda n: (abs(numbers[n] - size), n & 1))
        return nearest | (128 if math.copysign(1, value) < 0 else 0)

    a, b = ([row[i] for row in rows] for i in (0, 1))
    want = [wanted(x) << 8 | wanted(y) for x, y in rows]
    assert compute(f"cvt.rn.satfinite.{kind}x2.f32 %rs1, %r2, %r3", a, b).tolist() == want
    halves = np.array(a, np.uint32).view(np.float32).astype(np.float16)
    wide = halves.astype(np.float32).view(np.uint32).tolist()
    packed = (halves.view(np.uint16).astype(np.uint32) * 0x10001).tolist()
    found = compute(f"cvt.rn.satfinite.{kind}x2.f16x2 %rs1, %r2", packed).tolist()
    assert found == [wanted(x) * 0x101 for x in wide]


def test_packed_floats_of_8_bits_are_rounded_to_the_nearest_and_kept_finite_or_refused() -> None:
    for text in ("cvt.rn.e4m3x2.f32 %rs1, %r2, %r3", "cvt.rz.satfinite.e4m3x2.f32 %rs1, %r2, %r3"):
        with pytest.raises(UnsupportedInstruction):
            compute(text, [0], [0])
