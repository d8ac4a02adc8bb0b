"""2 to the power of a number, the same on every machine and in the C core.

Libraries of mathematical functions differ in the last bit. Here 2**x is 2**n * 2**f, where n is the whole number
nearest to x, and 2**f = exp(f ln 2) is a Taylor polynomial: sums and products of float64 only, in one order.
"""

from __future__ import annotations

import math

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

COEFFICIENTS = tuple(math.log(2) ** k / math.factorial(k) for k in range(13))
"""Of the powers of f. |f| is 1/2 at most, so that what is left out is less than 2**-51 of the result."""

BEYOND = 1000.0
"""Larger exponents give what this one does: a number beyond those of every type that results are rounded to."""

_WHOLE = 1.5 * 2.0**52  # float64 numbers near this one are whole


def exp2(exponent: Array) -> Array:
    """2 to the power of each of some numbers of float64, for results that are rounded to float32 or less."""
    x = np.clip(np.asarray(exponent, np.float64), -BEYOND, BEYOND)
    whole = (x + _WHOLE) - _WHOLE
    f = x - whole
    power = np.full_like(x, COEFFICIENTS[-1])
    for coefficient in COEFFICIENTS[-2::-1]:
        power = power * f + coefficient
    scale = (np.nan_to_num(whole).astype(np.int64) + 1023 << 52).view(np.float64)
    return np.asarray(power * scale)
