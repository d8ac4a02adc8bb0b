"""Exact sums and products of float64, and the rounding of exact values to the narrower formats.

An exact value is held as a float64 rounded to odd: the value itself where float64 holds it, else the neighbour whose
last bit is 1. Rounding such a value again, in any mode, to a format with at least two bits less gives what rounding
the exact value would have given (Boldo and Melquiond, 2008).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from cutegen.emulator.form import Array

NAN16 = np.uint16(0x7FFF)
NAN32 = np.uint32(0x7FFFFFFF)
NAN64 = np.uint64(0xFFF8000000000000)
"""What the device gives where no operand is NaN but the result is, and for every NaN of 16 and 32 bits."""

_ONE = np.uint64(1)


def two_sum(a: Array, b: Array) -> tuple[Array, Array]:
    """float64 (s, e): s the rounded sum, s + e the exact one, if nothing overflows."""
    s = a + b
    t = s - a
    return s, (a - (s - t)) + (b - t)


def two_product(a: Array, b: Array, product: Array | None = None) -> tuple[Array, Array]:
    """float64 (p, e): p the rounded product, p + e the exact one, if |a|, |b| < 2**995 and the error is normal."""
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
    """Rounds to odd the exact value of which ``value`` is the nearest float64 and ``error`` the rest (or its sign)."""
    value = np.asarray(value, dtype=np.float64)
    bits = value.view(np.uint64)
    inexact = (error != 0) & np.isfinite(value) & np.isfinite(error)
    even = (bits & _ONE) == 0
    away = (error > 0) == (value > 0)
    moved = np.where(away, bits + _ONE, bits - _ONE)
    result: Array = np.where(inexact & even, moved, bits).view(np.float64)
    return result


def narrow_f32(value: Array, mode: str = "rn") -> Array:
    """float64, exact or rounded to odd, to float32."""
    result = np.asarray(value).astype(np.float32)
    return _directed(result, result.astype(np.float64), value, mode)


def narrow_f16(value: Array, mode: str = "rn") -> Array:
    """float64, exact or rounded to odd, to float16; NaN as on the device."""
    result = np.asarray(value).astype(np.float16)
    result = _directed(result, result.astype(np.float64), value, mode)
    fixed: Array = np.where(np.isnan(value), NAN16, result.view(np.uint16)).view(np.float16)
    return fixed


def _directed(result: Array, back: Array, exact: Array, mode: str) -> Array:
    """Moves a value rounded to nearest by one where the mode asks for its other neighbour."""
    if mode == "rn":
        return result
    infinity = result.dtype.type(np.inf)
    if mode == "rm":
        wrong, towards = back > exact, -infinity
    elif mode == "rp":
        wrong, towards = back < exact, infinity
    else:
        wrong, towards = np.abs(back) > np.abs(exact), result.dtype.type(0)
    moved: Array = np.where(wrong, np.nextafter(result, towards), result)
    return moved


def narrow_bf16(value: Array, mode: str = "rn") -> Array:
    """float64, exact or rounded to odd, to the bits of bfloat16; NaN as on the device."""
    odd = f32_odd(np.asarray(value, dtype=np.float64)).view(np.uint32)
    rounded = drop_bits(odd, 16, mode) >> np.uint32(16)
    result: Array = np.where(np.isnan(value), NAN16, rounded.astype(np.uint16))
    return result


def f32_odd(value: Array) -> Array:
    """float64 to float32, rounded to odd. Beyond the largest float32 the result is the largest, which is odd."""
    result = value.astype(np.float32)
    back = result.astype(np.float64)
    bits = result.view(np.uint32)
    one = np.uint32(1)
    cut = np.where(np.abs(back) > np.abs(value), bits - one, bits) | one
    chosen: Array = np.where((back != value) & ~np.isnan(value), cut, bits).view(np.float32)
    return chosen


def drop_bits(bits: Array, count: int, mode: str) -> Array:
    """float32 bits with the last ``count`` rounded away (they become 0). Infinities stay, NaN is the caller's."""
    low = np.uint32((1 << count) - 1)
    if mode == "rn":
        lsb = (bits >> np.uint32(count)) & np.uint32(1)
        add: Any = np.uint32((1 << (count - 1)) - 1) + lsb
    elif mode == "rna":
        add = np.uint32(1 << (count - 1))
    elif mode == "rz":
        add = np.uint32(0)
    else:
        negative = bits >> np.uint32(31)
        add = low * (negative if mode == "rm" else np.uint32(1) - negative)
    result: Array = (bits + add) & ~low
    return result


def widen_bf16(bits: Array) -> Array:
    """The bits of bfloat16 as float32, exactly; a NaN keeps its payload."""
    result: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return result


def flush(value: Array) -> Array:
    """``.ftz``: subnormal numbers become zeros of their sign. float16, float32 or float64."""
    size = value.dtype.itemsize
    unsigned = np.dtype(f"u{size}").type
    bits = value.view(unsigned)
    fraction = {2: 10, 4: 23, 8: 52}[size]
    sign = 1 << (8 * size - 1)
    exponent = unsigned((sign - 1) >> fraction << fraction)
    result: Array = np.where((bits & exponent) == 0, bits & unsigned(sign), bits).view(value.dtype)
    return result


def saturate(value: Array) -> Array:
    """``.sat``: into [0, 1]; NaN and negative zero become +0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    result: Array = np.where(value > zero, np.minimum(value, one), zero)
    return result


def canonical_f32(value: Array) -> Array:
    """float32 with every NaN as the device writes it."""
    # One pass tells whether there is any: maximum hands NaN on.
    largest = np.maximum.reduce(value, axis=None) if value.size else np.float32(0)
    if largest == largest:
        return value
    result: Array = np.where(np.isnan(value), NAN32, value.view(np.uint32)).view(np.float32)
    return result


def canonical_f64(value: Array, *operands: Array) -> Array:
    """float64 with the NaNs of the device: the payload of the first NaN operand made quiet, else ``NAN64``."""
    largest = np.maximum.reduce(value, axis=None) if value.size else np.float64(0)
    if largest == largest:
        return value
    bits = np.broadcast_to(NAN64, value.shape)
    for operand in reversed(operands):
        operand = np.asarray(operand)
        quiet = operand.view(np.uint64) | np.uint64(1 << 51)
        bits = np.where(np.isnan(operand), quiet, bits)
    result: Array = np.where(np.isnan(value), bits, value.view(np.uint64)).view(np.float64)
    return result
