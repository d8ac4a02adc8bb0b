"""Exact sums, products, quotients and roots of float64, held as float64 rounded to odd.

A value rounded to odd is the value itself where float64 holds it, else that one of its two neighbours whose last bit is
1. Rounding it again, in any mode, to a format with at least two bits less gives what rounding the exact value would
have given (Boldo and Melquiond, "Emulation of a FMA and correctly rounded sums", 2008).
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function

_ONE = np.uint64(1)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """The pair (s, e) of float64: s is the rounded sum of a and b, and s + e the exact one, if nothing overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array, product: Array | None = None) -> tuple[Array, Array]:
    """The pair (p, e) of float64: p is the rounded product of a and b, and p + e the exact one.

    That holds if |a| and |b| are below 2**995 and e is a normal number or zero. `product` is p, if it is known.
    """
    split = np.float64(134217729.0)  # 2**27 + 1
    p = a * b if product is None else product
    t = split * a
    ah = t - (t - a)
    al = a - ah
    t = split * b
    bh = t - (t - b)
    bl = b - bh
    return p, ((ah * bh - p) + ah * bl + al * bh) + al * bl


def to_odd(value: Array, error: Array) -> Array:
    """Rounds an exact value to odd: `value` is the float64 nearest to it, and `error` the rest or the rest's sign."""
    value = np.asarray(value, dtype=np.float64)
    bits = value.view(np.uint64)
    inexact = (error != 0) & np.isfinite(value) & np.isfinite(error)
    even = (bits & _ONE) == 0
    away = (error > 0) == (value > 0)
    moved = np.where(away, bits + _ONE, bits - _ONE)
    result: Array = np.where(inexact & even, moved, bits).view(np.float64)
    return result


def fma_exact(a: Array, b: Array, c: Array) -> Array:
    """a * b + c rounded to odd, of float64 whose product float64 holds exactly (float32 and narrower formats)."""
    return to_odd(*two_sum(a * b, c))


def signed_zero(result: Array, operands: Sequence[Array]) -> Array:
    """A sum with the sign of zero that rounding down asks for: negative, unless all `operands` are +0 or positive."""
    negative = np.signbit(operands[0])
    for operand in operands[1:]:
        negative = negative | np.signbit(operand)
    fixed: Array = np.where((result == 0) & negative, -0.0, result)
    return fixed


def _sum_exact(a: Array, b: Array, mode: str) -> Array:
    """a + b rounded to odd; a zero has the sign that `mode` asks for."""
    total = to_odd(*two_sum(a, b))
    return signed_zero(total, (a, b)) if mode == "rm" else total


def _fma_exact(a: Array, b: Array, c: Array, mode: str) -> Array:
    """a * b + c rounded to odd; a zero has the sign that `mode` asks for."""
    total = fma_exact(a, b, c)
    return signed_zero(total, (a * b, c)) if mode == "rm" else total


def _quotient_exact(a: Array, b: Array) -> Array:
    """a / b rounded to odd, of values with at most 24 significant bits."""
    q = a / b
    product, low = two_product(q, b)
    rest = (a - product) - low
    return to_odd(q, np.where(np.isfinite(rest), rest * np.sign(b), 0.0))


def _root_exact(a: Array) -> Array:
    """The square root of a rounded to odd, of values with at most 24 significant bits."""
    root = np.sqrt(a)
    square, low = two_product(root, root)
    rest = (a - square) - low
    return to_odd(root, np.where(np.isfinite(rest), rest, 0.0))


EXACT_FUNCTIONS: dict[str, Function] = {
    "add": _sum_exact,
    "sub": lambda a, b, mode: _sum_exact(a, -b, mode),
    "mul": lambda a, b, mode: a * b,
    "fma": _fma_exact,
    "div": lambda a, b, mode: _quotient_exact(a, b),
    "rcp": lambda a, mode: _quotient_exact(np.ones_like(a), a),
    "sqrt": lambda a, mode: _root_exact(a),
}
"""Opcodes -> functions from float64 operands of at most 24 significant bits to results that are rounded to odd.

The last argument is the rounding mode that follows, which decides the sign of an exact zero.
"""
