"""Floating-point instructions against exact fractions, rounded by definition."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from floats_kit import (
    MODES,
    QUICK,
    agree,
    fused,
    is_nan,
    lanes,
    negated,
    product,
    quotient,
    root,
    sign,
    total,
    zero,
)
from hypothesis import example, given
from hypothesis import strategies as st
from semantics_kit import (
    NAN,
    REGISTER,
    WIDTHS,
    compute,
    compute_all,
    f32,
    f64,
    fields,
    floats,
    infinity,
    rounded,
    special,
    value,
)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("kind", ["f32", "f64"])
@QUICK
@given(data=st.data())
def test_arithmetic_in_every_rounding(kind: str, mode: str, data: st.DataObject) -> None:
    r = REGISTER[WIDTHS[kind]]
    rows = data.draw(lanes(kind, 3))
    pairs = [row[:2] for row in rows]
    singles = [row[:1] for row in rows]
    one_bits = rounded(Fraction(1), kind)
    agree(f"fma.{mode}.{kind} {r}1, {r}2, {r}3, {r}4", kind, rows, lambda a, b, c: fused(a, b, c, kind, mode))
    agree(f"add.{mode}.{kind} {r}1, {r}2, {r}3", kind, pairs, lambda a, b: total(a, b, kind, mode))
    agree(f"mul.{mode}.{kind} {r}1, {r}2, {r}3", kind, pairs, lambda a, b: product(a, b, kind, mode))
    agree(f"div.{mode}.{kind} {r}1, {r}2, {r}3", kind, pairs, lambda a, b: quotient(a, b, kind, mode))
    agree(f"rcp.{mode}.{kind} {r}1, {r}2", kind, singles, lambda a: quotient(one_bits, a, kind, mode))
    agree(f"sqrt.{mode}.{kind} {r}1, {r}2", kind, singles, lambda a: root(a, kind, mode))

    def difference(a: int, b: int) -> int:
        # A NaN keeps its sign: negating the operand is the reference's own trick.
        return total(a, b, kind, mode) if is_nan(b, kind) else total(a, negated(b, kind), kind, mode)

    agree(f"sub.{mode}.{kind} {r}1, {r}2, {r}3", kind, pairs, difference)


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@QUICK
@given(data=st.data())
def test_sixteen_bit_arithmetic(kind: str, data: st.DataObject) -> None:
    rows = data.draw(lanes(kind, 3))
    pairs = [row[:2] for row in rows]
    agree(f"fma.rn.{kind} %rs1, %rs2, %rs3, %rs4", kind, rows, lambda a, b, c: fused(a, b, c, kind, "rn"))
    agree(f"add.rn.{kind} %rs1, %rs2, %rs3", kind, pairs, lambda a, b: total(a, b, kind, "rn"))
    agree(f"mul.{kind} %rs1, %rs2, %rs3", kind, pairs, lambda a, b: product(a, b, kind, "rn"))
    negative_last = [(a, negated(b, kind)) for a, b in pairs]
    got = compute(f"sub.rn.{kind} %rs1, %rs2, %rs3", *[list(c) for c in zip(*negative_last, strict=True)]).tolist()
    assert got == [total(a, b, kind, "rn") for a, b in pairs]

    def relu(bits: int) -> int:
        return 0 if sign(bits, kind) and not is_nan(bits, kind) else bits

    agree(f"fma.rn.relu.{kind} %rs1, %rs2, %rs3, %rs4", kind, rows, lambda a, b, c: relu(fused(a, b, c, kind, "rn")))


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@QUICK
@given(data=st.data())
def test_packed_and_mixed_arithmetic(kind: str, data: st.DataObject) -> None:
    rows = data.draw(lanes(kind, 6))
    packed = [(r[0] | r[1] << 16, r[2] | r[3] << 16, r[4] | r[5] << 16) for r in rows]
    got = compute(f"fma.rn.{kind}x2 %r1, %r2, %r3, %r4", *[list(c) for c in zip(*packed, strict=True)]).tolist()
    for row, bits in zip(rows, got, strict=True):
        assert bits & 0xFFFF == fused(row[0], row[2], row[4], kind, "rn")
        assert bits >> 16 == fused(row[1], row[3], row[5], kind, "rn")
    narrow = [(a, b) for a, b, *_ in rows]
    accumulators = data.draw(st.lists(floats("f32"), min_size=len(rows), max_size=len(rows)))
    mixed = [(a, b, c) for (a, b), c in zip(narrow, accumulators, strict=True)]

    def wide(bits: int) -> int:
        if special(bits, kind):
            return NAN["f32"] if is_nan(bits, kind) else infinity("f32", bool(sign(bits, kind)))
        number = value(bits, kind)
        return rounded(number, "f32") if number else zero(bool(sign(bits, kind)), "f32")

    agree(
        f"fma.rn.f32.{kind} %r1, %rs1, %rs2, %r2", "f32", mixed, lambda a, b, c: fused(wide(a), wide(b), c, "f32", "rn")
    )
    added = [(a, c) for a, _, c in mixed]
    agree(f"add.rn.f32.{kind} %r1, %rs1, %r2", "f32", added, lambda a, c: total(wide(a), c, "f32", "rn"))


@QUICK
@given(lanes("f32", 6))
def test_pairs_of_f32(rows: list[tuple[int, ...]]) -> None:
    packed = [tuple(r[i] | r[i + 1] << 32 for i in (0, 2, 4)) for r in rows]
    got = compute("fma.rn.f32x2 %rd1, %rd2, %rd3, %rd4", *[list(c) for c in zip(*packed, strict=True)]).tolist()
    sums = compute("add.rn.f32x2 %rd1, %rd2, %rd3", *[list(c) for c in zip(*packed, strict=True)][:2]).tolist()
    for row, bits, added in zip(rows, got, sums, strict=True):
        assert bits & 0xFFFFFFFF == fused(row[0], row[2], row[4], "f32", "rn")
        assert bits >> 32 == fused(row[1], row[3], row[5], "f32", "rn")
        assert added == total(row[0], row[2], "f32", "rn") | total(row[1], row[3], "f32", "rn") << 32


def flushed(bits: int, kind: str) -> int:
    _, exponent, _ = fields(bits, kind)
    return bits if exponent else zero(bool(sign(bits, kind)), kind)


@QUICK
@given(lanes("f32", 3))
def test_flush_to_zero(rows: list[tuple[int, ...]]) -> None:
    def f(bits: int) -> int:
        return flushed(bits, "f32")

    pairs = [row[:2] for row in rows]
    agree("fma.rn.ftz.f32 %r1, %r2, %r3, %r4", "f32", rows, lambda a, b, c: f(fused(f(a), f(b), f(c), "f32", "rn")))
    agree("mul.rz.ftz.f32 %r1, %r2, %r3", "f32", pairs, lambda a, b: f(product(f(a), f(b), "f32", "rz")))
    agree("add.ftz.f32 %r1, %r2, %r3", "f32", pairs, lambda a, b: f(total(f(a), f(b), "f32", "rn")))
    agree("div.rn.ftz.f32 %r1, %r2, %r3", "f32", pairs, lambda a, b: f(quotient(f(a), f(b), "f32", "rn")))
    agree("sqrt.rn.ftz.f32 %r1, %r2", "f32", [row[:1] for row in rows], lambda a: f(root(f(a), "f32", "rn")))
    got = compute("setp.lt.ftz.f32 %p1, %r1, %r2", *[list(c) for c in zip(*pairs, strict=True)]).tolist()
    for (a, b), found in zip(pairs, got, strict=True):
        x, y = (math.nan if is_nan(v, "f32") else float(np.uint32(f(v)).view(np.float32)) for v in (a, b))
        assert found == (x < y)


@QUICK
@given(lanes("f32", 3))
@example([(0x80000000, 0x3F800000, 0x80000000)])
def test_saturation(rows: list[tuple[int, ...]]) -> None:
    def sat(bits: int) -> int:
        if is_nan(bits, "f32") or sign(bits, "f32"):
            return 0
        return min(bits, 0x3F800000)

    agree("fma.rn.sat.f32 %r1, %r2, %r3, %r4", "f32", rows, lambda a, b, c: sat(fused(a, b, c, "f32", "rn")))
    agree("fma.rm.sat.f32 %r1, %r2, %r3, %r4", "f32", rows, lambda a, b, c: sat(fused(a, b, c, "f32", "rm")))
    agree("add.sat.f32 %r1, %r2, %r3", "f32", [r[:2] for r in rows], lambda a, b: sat(total(a, b, "f32", "rn")))
    agree("cvt.sat.f32.f32 %r1, %r2", "f32", [r[:1] for r in rows], sat)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@QUICK
@given(data=st.data())
def test_min_and_max(kind: str, data: st.DataObject) -> None:
    r = REGISTER[WIDTHS[kind]]
    rows = data.draw(lanes(kind, 2))
    missing = NAN.get(kind, 0x7FF8000000000000)
    low = (1 << (WIDTHS[kind] - 1)) - 1

    def order(bits: int) -> int:
        # Floats count up like sign and magnitude, -0 before +0.
        return -(bits & low) - 1 if sign(bits, kind) else bits

    def pick(a: int, b: int, largest: bool, nan: bool) -> int:
        numbers = [x for x in (a, b) if not is_nan(x, kind)]
        if not numbers or (nan and len(numbers) < 2):
            return missing
        return (max if largest else min)(numbers, key=order)

    for name in ("min", "max"):
        agree(f"{name}.{kind} {r}1, {r}2, {r}3", kind, rows, lambda a, b, n=name: pick(a, b, n == "max", False))
        if kind == "f64":
            continue
        agree(f"{name}.NaN.{kind} {r}1, {r}2, {r}3", kind, rows, lambda a, b, n=name: pick(a, b, n == "max", True))

        def xorsign(a: int, b: int, name: str = name) -> int:
            found = pick(a & low, b & low, name == "max", False)
            return found | ((a ^ b) & (low + 1)) if found != missing or not is_nan(found, kind) else found

        agree(f"{name}.xorsign.abs.{kind} {r}1, {r}2, {r}3", kind, rows, xorsign)


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@QUICK
@given(data=st.data())
def test_signs_and_classes(kind: str, data: st.DataObject) -> None:
    r = REGISTER[WIDTHS[kind]]
    rows = data.draw(lanes(kind, 2))
    top = 1 << (WIDTHS[kind] - 1)
    singles = [row[:1] for row in rows]
    agree(f"abs.{kind} {r}1, {r}2", kind, singles, lambda a: a if kind == "f64" and is_nan(a, kind) else a & ~top)
    agree(f"neg.{kind} {r}1, {r}2", kind, singles, lambda a: a ^ top)
    if kind in ("f16", "bf16"):
        return
    agree(f"copysign.{kind} {r}1, {r}2, {r}3", kind, rows, lambda a, b: (a & top) | (b & ~top))
    for test in ("finite", "infinite", "number", "notanumber", "normal", "subnormal"):
        got = compute(f"testp.{test}.{kind} %p1, {r}2", [s[0] for s in singles]).tolist()
        for (bits,), found in zip(singles, got, strict=True):
            _, exponent, fraction = fields(bits, kind)
            tiny = exponent == 0 and fraction != 0
            name = special(bits, kind).lstrip("-")
            want = {
                "finite": not name,
                "infinite": name == "inf",
                "number": name != "nan",
                "notanumber": name == "nan",
                "normal": not name and not tiny,
                "subnormal": tiny,
            }[test]
            assert found == want


ORDERED: dict[str, Callable[[Fraction, Fraction], bool]] = {
    "eq": lambda a, b: a == b,
    "ne": lambda a, b: a != b,
    "lt": lambda a, b: a < b,
    "le": lambda a, b: a <= b,
    "gt": lambda a, b: a > b,
    "ge": lambda a, b: a >= b,
}


@pytest.mark.parametrize("kind", ["f16", "bf16", "f32", "f64"])
@QUICK
@given(data=st.data())
def test_comparisons(kind: str, data: st.DataObject) -> None:
    r = REGISTER[WIDTHS[kind]]
    rows = data.draw(lanes(kind, 2))
    rows += [(a, a) for a, _ in rows] + [(0, 1 << (WIDTHS[kind] - 1))]
    columns = [list(c) for c in zip(*rows, strict=True)]
    infinite = {"inf": Fraction(2) ** 5000, "-inf": -(Fraction(2) ** 5000)}

    def number(bits: int) -> Fraction | None:
        name = special(bits, kind)
        return None if name == "nan" else infinite.get(name) if name else value(bits, kind)

    numbers = [(number(a), number(b)) for a, b in rows]
    for name, compare in ORDERED.items():
        for unordered in (False, True):
            want = [unordered if a is None or b is None else compare(a, b) for a, b in numbers]
            got, opposite = compute_all(f"setp.{name}{'u' * unordered}.{kind} %p1|%p2, {r}2, {r}3", *columns)
            assert got.tolist() == want
            assert opposite.tolist() == [not w for w in want]
    missing = [a is None or b is None for a, b in numbers]
    assert compute(f"setp.nan.{kind} %p1, {r}2, {r}3", *columns).tolist() == missing
    assert compute(f"setp.num.{kind} %p1, {r}2, {r}3", *columns).tolist() == [not m for m in missing]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
@QUICK
@given(data=st.data())
def test_packed_comparisons_are_those_of_the_halves(kind: str, data: st.DataObject) -> None:
    rows = data.draw(lanes(kind, 4))
    rows += [(a, b, a, b) for a, b, *_ in rows]
    low_a, high_a, low_b, high_b = ([*column] for column in zip(*rows, strict=True))
    a, b = ([low | high << 16 for low, high in zip(*x, strict=True)] for x in ((low_a, high_a), (low_b, high_b)))
    for name in (*ORDERED, "equ", "neu", "ltu", "leu", "gtu", "geu", "num", "nan"):
        low, high = compute_all(f"setp.{name}.{kind}x2 %p1|%p2, %r2, %r3", a, b)
        wanted = [compute(f"setp.{name}.{kind} %p1, %rs2, %rs3", *pair) for pair in ((low_a, low_b), (high_a, high_b))]
        assert low.tolist() == wanted[0].tolist() and high.tolist() == wanted[1].tolist()
    third = [number % 2 for number in range(len(rows))]
    low, high = compute_all(f"setp.lt.and.{kind}x2 %p1|%p2, %r2, %r3, !%p3", a, b, third)
    plain = compute_all(f"setp.lt.{kind}x2 %p1|%p2, %r2, %r3", a, b)
    for joined, found in zip((low, high), plain, strict=True):
        assert joined.tolist() == [bool(f) and not t for f, t in zip(found.tolist(), third, strict=True)]


def test_well_known_values() -> None:
    assert compute("fma.rn.f32 %r1, %r2, %r3, %r4", f32(3.0), f32(4.0), f32(5.0)).item() == f32(17.0)
    assert compute("add.rn.f64 %rd1, %rd2, %rd3", f64(0.1), f64(0.2)).item() == f64(0.30000000000000004)
    # A product beyond the largest number is still a number.
    huge, lost = f64(1e200), infinity("f64", True)
    assert compute("fma.rn.f64 %rd1, %rd2, %rd3, %rd4", [huge], [huge], [lost]).tolist() == [lost]
    # 0 * inf, inf - inf, sqrt(-1): the device's own NaN.
    assert compute("mul.f32 %r1, %r2, %r3", [0], [0x7F800000]).item() == 0x7FFFFFFF
    assert compute("sub.f64 %rd1, %rd2, %rd3", [infinity("f64")], [infinity("f64")]).item() == 0xFFF8000000000000
    assert compute("sqrt.rn.f32 %r1, %r2", [f32(-1.0)]).item() == 0x7FFFFFFF
