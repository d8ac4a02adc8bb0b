"""Floating-point operations on bits by their definition: exact fractions, rounded once."""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from hypothesis import settings
from hypothesis import strategies as st
from semantics_kit import (
    NAN,
    WIDTHS,
    compute,
    floats,
    infinity,
    rounded,
    special,
    value,
)

QUICK = settings(max_examples=20, deadline=None)

MODES = ["rn", "rz", "rm", "rp"]


def is_nan(bits: int, kind: str) -> bool:
    return special(bits, kind) == "nan"


def sign(bits: int, kind: str) -> int:
    return bits >> (WIDTHS[kind] - 1)


def zero(negative: bool, kind: str) -> int:
    return int(negative) << (WIDTHS[kind] - 1)


def nan_of(operands: list[int], kind: str) -> int:
    """The device's pattern for NaN: a fixed one, but for f64 the first NaN operand made quiet."""
    if kind != "f64":
        return NAN[kind]
    return next((b | 1 << 51 for b in operands if is_nan(b, kind)), 0xFFF8000000000000)


def fused(a: int, b: int, c: int, kind: str, mode: str) -> int:
    """a * b + c by IEEE 754."""
    names = [special(x, kind) for x in (a, b, c)]
    negative = sign(a, kind) != sign(b, kind)
    infinite = "inf" in names[0] or "inf" in names[1]
    if "nan" in names or (infinite and (value(a, kind) == 0 or value(b, kind) == 0)):
        return nan_of([a, b, c], kind)
    if infinite:
        opposed = "inf" in names[2] and sign(c, kind) != negative
        return nan_of([], kind) if opposed else infinity(kind, negative)
    if "inf" in names[2]:
        return c
    exact = value(a, kind) * value(b, kind) + value(c, kind)
    if exact:
        return rounded(exact, kind, mode)
    same = negative == bool(sign(c, kind))
    return zero(negative if same else mode == "rm", kind)


def product(a: int, b: int, kind: str, mode: str) -> int:
    negative = sign(a, kind) != sign(b, kind)
    return fused(a, b, zero(negative, kind), kind, mode)


def total(a: int, b: int, kind: str, mode: str) -> int:
    return fused(rounded(Fraction(1), kind), a, b, kind, mode)


def negated(bits: int, kind: str) -> int:
    return bits ^ 1 << (WIDTHS[kind] - 1)


def quotient(a: int, b: int, kind: str, mode: str) -> int:
    x, y = special(a, kind), special(b, kind)
    negative = sign(a, kind) != sign(b, kind)
    if "nan" in (x, y) or (x and y) or (not x and not y and value(a, kind) == value(b, kind) == 0):
        return nan_of([a, b], kind)
    if x or (not y and value(b, kind) == 0):
        return infinity(kind, negative)
    if y or value(a, kind) == 0:
        return zero(negative, kind)
    return rounded(value(a, kind) / value(b, kind), kind, mode)


def root(a: int, kind: str, mode: str) -> int:
    if is_nan(a, kind) or (sign(a, kind) and (special(a, kind) or value(a, kind) != 0)):
        return nan_of([a], kind)
    if special(a, kind) or value(a, kind) == 0:
        return a
    # Far more bits than the format has, and one more that says whether anything is left.
    number = value(a, kind)
    scale = 4 ** (200 + max(0, number.denominator.bit_length()))
    scaled = number.numerator * scale // number.denominator
    whole = math.isqrt(scaled)
    inexact = whole * whole != scaled or number.numerator * scale % number.denominator != 0
    return rounded(Fraction(2 * whole + inexact, 2 * math.isqrt(scale)), kind, mode)


def lanes(kind: str, count: int) -> st.SearchStrategy[list[tuple[int, ...]]]:
    return st.lists(st.tuples(*[floats(kind)] * count), min_size=1, max_size=16)


def agree(text: str, kind: str, rows: list[tuple[int, ...]], rule: Callable[..., int]) -> None:
    got = compute(text, *[list(c) for c in zip(*rows, strict=True)]).tolist()
    for row, bits in zip(rows, got, strict=True):
        want = rule(*row)
        assert bits == want, (text, [hex(b) for b in row], hex(bits), hex(want))
