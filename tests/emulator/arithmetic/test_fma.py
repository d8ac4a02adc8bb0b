"""Fused multiply-add where it is hard, and the exact arithmetic that it rests on."""

from __future__ import annotations

import struct
from fractions import Fraction

import numpy as np
import pytest
from floats_kit import MODES, QUICK, agree, fused, lanes, quotient, root
from hypothesis import given
from hypothesis import strategies as st
from semantics_kit import FORMATS, REGISTER, WIDTHS, f64, fields, rounded, special, value

from cutegen.emulator.arithmetic import whole_numbers
from cutegen.emulator.arithmetic.exact_values import to_odd, two_sum


def fma_cases(kind: str, count: int, seed: int) -> list[tuple[int, int, int]]:
    """Sums that lie next to the midpoint of two numbers, by less than the wider format resolves."""
    size, least = FORMATS[kind]
    rng = np.random.default_rng(seed)
    cases = []
    unit = Fraction(1, 2**size)
    for _ in range(count):
        # Anywhere, and as often at the bottom of the format, where numbers lose bits.
        exponent = int(rng.integers(-40, 40)) if rng.integers(2) else least + int(rng.integers(-size, 4))
        base = Fraction(2) ** exponent
        steps = int(rng.choice([rng.integers(0, 2**size), 0, 2**size - 1]))
        c = base * (1 + steps * unit)
        c = value(rounded(c, kind), kind)
        if exponent < least and steps == 2**size - 1:
            c = Fraction(2) ** least * (1 - unit)
        half_exponent = max(exponent, least) - size - 1
        a = (1 + int(rng.integers(-3, 3)) * unit) * Fraction(2) ** (half_exponent // 2)
        b = (1 + int(rng.integers(-3, 3)) * unit) * Fraction(2) ** (half_exponent - half_exponent // 2)
        signs = rng.choice([-1, 1], 2)
        cases.append(tuple(rounded(x, kind) for x in (a * int(signs[0]), b, c * int(signs[1]))))
    return cases


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("mode", MODES)
def test_fma_next_to_midpoints(kind: str, mode: str) -> None:
    rows = fma_cases(kind, 1500, 7)
    r = REGISTER[WIDTHS[kind]]
    # Together, apart by size, and a few alone: what one lane needs must not depend on its neighbours.
    ordinary = [row for row in rows if fields(row[2], kind)[1] > 60]
    small = [row for row in rows if fields(row[2], kind)[1] <= 60]
    assert min(len(ordinary), len(small)) > 300
    for part in (rows, ordinary, small, *([row] for row in rows[:150])):
        agree(f"fma.{mode}.{kind} {r}1, {r}2, {r}3, {r}4", kind, part, lambda a, b, c: fused(a, b, c, kind, mode))


def test_those_midpoints_are_hard() -> None:
    """Adding in float64 and rounding again, or rounding the product first, gets many of them wrong."""
    rows = fma_cases("f32", 1500, 7)
    a, b, c = (np.array(x, dtype=np.uint32).view(np.float32) for x in zip(*rows, strict=True))
    want = np.array([fused(*row, "f32", "rn") for row in rows], dtype=np.uint32)
    twice = (a.astype(np.float64) * b.astype(np.float64) + c.astype(np.float64)).astype(np.float32)
    assert np.count_nonzero(twice.view(np.uint32) != want) > 50
    rows = fma_cases("f64", 1500, 7)
    x, y, z = (np.array(v, dtype=np.uint64).view(np.float64) for v in zip(*rows, strict=True))
    want64 = np.array([fused(*row, "f64", "rn") for row in rows], dtype=np.uint64)
    assert np.count_nonzero((x * y + z).view(np.uint64) != want64) > 50


@QUICK
@given(st.integers(0, 2**32 - 1), st.sampled_from(["f32", "f64"]))
def test_fma_of_ordinary_numbers(seed: int, kind: str) -> None:
    """All lanes ordinary: nothing sends them down the careful path. With zeros and cancellation in the second half."""
    rng = np.random.default_rng(seed)
    floating, bits = (np.float32, np.uint32) if kind == "f32" else (np.float64, np.uint64)
    a, b, c = (rng.standard_normal(40).astype(floating) for _ in range(3))
    a[::5] = np.round(a[::5] * 8)
    c[3::7] = -(a[3::7] * b[3::7])
    r = REGISTER[WIDTHS[kind]]
    for _ in range(2):
        rows = list(zip(*[x.view(bits).tolist() for x in (a, b, c)], strict=True))
        agree(f"fma.rn.{kind} {r}1, {r}2, {r}3, {r}4", kind, rows, lambda x, y, z: fused(x, y, z, kind, "rn"))
        a[::4] = 0
        c[1::3] = floating(-0.0)


@QUICK
@given(lanes("f64", 3), st.sampled_from(MODES))
def test_single_results_in_whole_numbers(rows: list[tuple[int, ...]], mode: str) -> None:
    for row in rows:
        if any(special(b, "f64") for b in row):
            continue
        a, b, c = (struct.unpack("<d", struct.pack("<Q", bits))[0] for bits in row)
        assert f64(whole_numbers.fma(a, b, c, mode)) == fused(*row, "f64", mode)
        if b:
            assert f64(whole_numbers.divide(a, b, mode)) == quotient(row[0], row[1], "f64", mode)
        if a > 0:
            assert f64(whole_numbers.square_root(a, mode)) == root(row[0], "f64", mode)


def test_quotients_next_to_midpoints() -> None:
    """Ratios of whole numbers near 2**53 come close to ties; what is left of a division decides."""
    for n in range(1, 60):
        a, b = float(2**53 - 2 * n), float(2**53 - 1)
        assert whole_numbers.divide(a, b) == a / b
        assert f64(whole_numbers.divide(b, a, "rn")) == quotient(f64(b), f64(a), "f64", "rn")
    whole, half = (1 << 53) + 1, Fraction(1, 2)
    for sticky, want in ((False, 2.0**53), (True, 2.0**53 + 2)):
        assert whole_numbers._round(False, whole, 0, sticky, "rn") == want
    assert Fraction(whole_numbers._round(False, whole, -1, True, "rz")) == Fraction(2**53) * half


@QUICK
@given(lanes("f64", 2))
def test_rounding_to_odd(rows: list[tuple[int, ...]]) -> None:
    for row in rows:
        if any(special(b, "f64") for b in row):
            continue
        a, b = (np.array([bits], dtype=np.uint64).view(np.float64) for bits in row)
        with np.errstate(all="ignore"):
            total, error = two_sum(a, b)
            if not np.isfinite(total).all():
                continue
            odd = int(to_odd(total, error).view(np.uint64)[0])
        true = value(row[0], "f64") + value(row[1], "f64")
        # Towards zero, and the last bit set if anything was cut off.
        cut = rounded(true, "f64", "rz") if true else 0
        if true and value(cut, "f64") != true:
            cut |= 1
        assert odd == cut or true == 0
