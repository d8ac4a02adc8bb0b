"""Single float64 results, rounded correctly by computing in whole numbers.

This is slow, and meant for the few lanes whose results fast code cannot vouch for. Values are Python floats, neither
infinite nor NaN. A rounding mode is one of `rn`, `rz`, `rm`, `rp`.
"""

from __future__ import annotations

import math
import struct

_FRACTION = 52
_LEAST = -1074  # exponent of the smallest subnormal number
_LARGEST = struct.unpack("<d", struct.pack("<Q", 0x7FEFFFFFFFFFFFFF))[0]


def _integer(value: float) -> tuple[int, int]:
    """The pair of whole numbers (m, e) with value = m * 2**e."""
    numerator, denominator = value.as_integer_ratio()
    return numerator, 1 - denominator.bit_length()


def _round(negative: bool, magnitude: int, exponent: int, sticky: bool, mode: str) -> float:
    """Rounds a number that is not zero to float64.

    Its size is (magnitude + rest) * 2**exponent, where the rest is 0, or lies between 0 and 1 if `sticky`.
    """
    # Keep 53 bits, or fewer where the number is subnormal.
    shift = max(magnitude.bit_length() - (_FRACTION + 1), _LEAST - exponent)
    if shift > 0:
        kept, rest = magnitude >> shift, magnitude & ((1 << shift) - 1)
        half = 1 << (shift - 1)
    else:
        # Room for every bit: what is left is the sticky part, less than half of the last place.
        kept, rest, half = magnitude << -shift, 0, 1
    inexact = bool(rest) or sticky
    if mode == "rn":
        above = rest > half or (rest == half and (sticky or bool(kept & 1)))
    else:
        above = inexact and mode == ("rm" if negative else "rp")
    kept += above
    try:
        result = math.ldexp(kept, exponent + shift)
    except OverflowError:
        result = math.inf if mode == "rn" or mode == ("rm" if negative else "rp") else _LARGEST
    return -result if negative else result


def _zero(negative: bool) -> float:
    """Zero with a sign."""
    return -0.0 if negative else 0.0


def fma(a: float, b: float, c: float, mode: str = "rn") -> float:
    """a * b + c rounded once. A zero has the sign that IEEE 754 gives it in this mode."""
    am, ae = _integer(a)
    bm, be = _integer(b)
    cm, ce = _integer(c)
    pm, pe = am * bm, ae + be
    least = min(pe, ce) if pm and cm else (pe if pm else ce)
    total = (pm << (pe - least) if pm else 0) + (cm << (ce - least) if cm else 0)
    if total == 0:
        signs = (math.copysign(1, a) * math.copysign(1, b) < 0, math.copysign(1, c) < 0)
        return _zero(all(signs) if mode != "rm" else any(signs))
    return _round(total < 0, abs(total), least, False, mode)


def divide(a: float, b: float, mode: str = "rn") -> float:
    """a / b rounded once; b is not zero."""
    negative = math.copysign(1, a) * math.copysign(1, b) < 0
    if a == 0:
        return _zero(negative)
    am, ae = _integer(abs(a))
    bm, be = _integer(abs(b))
    # At least 55 bits of quotient, so that what is cut off never decides but through `sticky`.
    shift = max(0, _FRACTION + 4 - am.bit_length() + bm.bit_length())
    quotient, rest = divmod(am << shift, bm)
    return _round(negative, quotient, ae - be - shift, rest != 0, mode)


def square_root(a: float, mode: str = "rn") -> float:
    """The square root of a > 0 rounded once."""
    m, e = _integer(a)
    shift = max(0, 2 * (_FRACTION + 4) - m.bit_length())
    shift += (e - shift) & 1
    root = math.isqrt(m << shift)
    return _round(False, root, (e - shift) // 2, root * root != m << shift, mode)
