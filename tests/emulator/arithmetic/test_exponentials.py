"""Powers of 2 that are the same on every machine: how far they are from the exact ones."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from cutegen.emulator.arithmetic.exponentials import BEYOND, exp2

ONE = 2**120  # the unit of numbers with a fixed point
LOG_2 = sum(ONE // (k * 2**k) for k in range(1, 120))


def test_whole_exponents_are_exact() -> None:
    whole = np.arange(-900, 901)
    assert (exp2(whole.astype(np.float64)) == np.ldexp(1.0, whole)).all()


def test_results_are_within_three_units_in_the_last_place() -> None:
    x = np.random.default_rng(0).uniform(-150, 129, 2000)
    for exponent, found in zip(x.tolist(), exp2(x).tolist(), strict=True):
        exact = _exact(exponent)
        assert abs(Fraction(found) - exact) <= 3 * exact / 2**52


def _exact(exponent: float) -> Fraction:
    """2 to that power but for one part in 2**80, by its series with whole numbers."""
    whole = math.floor(exponent)
    power = math.floor((Fraction(exponent) - whole) * LOG_2)
    term = total = ONE
    for k in range(1, 30):
        term = term * power // (k * ONE)
        total += term
    return Fraction(total, ONE) * Fraction(2) ** whole


@pytest.mark.parametrize(
    ("exponent", "expected"),
    [(np.inf, np.inf), (2 * BEYOND, np.inf), (-np.inf, 0.0), (-2 * BEYOND, 0.0), (np.nan, np.nan), (-0.0, 1.0)],
)
def test_results_that_no_float32_holds(exponent: float, expected: float) -> None:
    with np.errstate(over="ignore", under="ignore"):
        found = exp2(np.array([exponent])).astype(np.float32)
    np.testing.assert_array_equal(found, np.float32(expected))
