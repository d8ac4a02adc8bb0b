"""The floating-point formats: their NaNs, rounding to them in every mode, and widening from them.

What is rounded is a float64, either exact or rounded to odd (`exact_values`). A mode is one of `rn`, `rz`, `rm`, `rp`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

NAN16 = np.uint16(0x7FFF)
NAN32 = np.uint32(0x7FFFFFFF)
NAN64 = np.uint64(0xFFF8000000000000)
"""The bits of the NaN that the device writes where no operand is NaN but the result is.

For 16 and 32 bits it is every NaN that the device writes. The PTX ISA 9.1, sections 9.7.3 and 9.7.4, says so only of
some instructions and leaves the NaN of others open.
"""


def narrow_f32(value: Array, mode: str = "rn") -> Array:
    """Rounds float64, exact or rounded to odd, to float32. A NaN keeps what it can of its payload."""
    result = np.asarray(value).astype(np.float32)
    return _directed(result, result.astype(np.float64), value, mode)


def narrow_f16(value: Array, mode: str = "rn") -> Array:
    """Rounds float64, exact or rounded to odd, to float16. Every NaN becomes `NAN16`."""
    result = np.asarray(value).astype(np.float16)
    result = _directed(result, result.astype(np.float64), value, mode)
    fixed: Array = np.where(np.isnan(value), NAN16, result.view(np.uint16)).view(np.float16)
    return fixed


def _directed(result: Array, back: Array, exact: Array, mode: str) -> Array:
    """Moves values that were rounded to nearest to the neighbour that `mode` asks for.

    `result` are the rounded values, `back` the same as float64, and `exact` what was rounded.
    """
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
    """Rounds float64, exact or rounded to odd, or float32 to the bits of bfloat16. Every NaN becomes `NAN16`."""
    value = np.asarray(value)
    odd = (value if value.dtype == np.float32 else f32_odd(value.astype(np.float64, copy=False))).view(np.uint32)
    rounded = drop_bits(odd, 16, mode) >> np.uint32(16)
    result: Array = np.where(np.isnan(value), NAN16, rounded.astype(np.uint16))
    return result


def f32_odd(value: Array) -> Array:
    """Rounds float64 to odd in float32. Beyond the largest float32 the result is that one, which is odd."""
    result = value.astype(np.float32)
    back = result.astype(np.float64)
    bits = result.view(np.uint32)
    one = np.uint32(1)
    cut = np.where(np.abs(back) > np.abs(value), bits - one, bits) | one
    chosen: Array = np.where((back != value) & ~np.isnan(value), cut, bits).view(np.float32)
    return chosen


def drop_bits(bits: Array, count: int, mode: str) -> Array:
    """Rounds the last `count` bits of float32 away, which become 0. `mode` may be `rna`, to nearest, ties away, too.

    `bits` and the result are uint32. Infinities stay as they are. The result of a NaN means nothing.
    """
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
    """The float32 values that the bits of bfloat16 stand for. A NaN keeps its payload."""
    result: Array = (bits.astype(np.uint32) << np.uint32(16)).view(np.float32)
    return result


def flush(value: Array) -> Array:
    """Applies `.ftz` to float16, float32 or float64: subnormal numbers become zeros of their sign."""
    size = value.dtype.itemsize
    unsigned = np.dtype(f"u{size}").type
    bits = value.view(unsigned)
    fraction = {2: 10, 4: 23, 8: 52}[size]
    sign = 1 << (8 * size - 1)
    exponent = unsigned((sign - 1) >> fraction << fraction)
    if bits.size and np.minimum.reduce(bits & exponent, axis=None):
        return value  # none is zero or subnormal
    result: Array = np.where((bits & exponent) == 0, bits & unsigned(sign), bits).view(value.dtype)
    return result


def saturate(value: Array) -> Array:
    """Applies `.sat` to floats: limits them to [0, 1]; NaN and negative zero become +0."""
    zero, one = value.dtype.type(0), value.dtype.type(1)
    result: Array = np.where(value > zero, np.minimum(value, one), zero)
    return result


def canonical_f32(value: Array) -> Array:
    """float32 values with `NAN32` in place of every NaN."""
    # One pass tells whether there is any: maximum hands NaN on.
    largest = np.maximum.reduce(value, axis=None) if value.size else np.float32(0)
    if largest == largest:
        return value
    result: Array = np.where(np.isnan(value), NAN32, value.view(np.uint32)).view(np.float32)
    return result


def canonical_f64(value: Array, *operands: Array) -> Array:
    """float64 results of an operation with the NaNs that the device writes.

    That is the first NaN among the operands, made quiet, or `NAN64` if no operand is NaN.
    """
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


@dataclass(frozen=True, slots=True)
class Codec:
    """How to widen a format's values to float64, exactly, and to narrow float64 to the format in a rounding mode.

    What is narrowed is exact or rounded to odd.
    """

    widen: Callable[[Array], Array]
    narrow: Callable[[Array, str], Array]


def _wide(value: Array) -> Array:
    """float16 or float32 values as float64."""
    return np.asarray(value).astype(np.float64)


CODECS = {
    "f16": Codec(_wide, narrow_f16),
    "bf16": Codec(lambda bits: widen_bf16(np.asarray(bits)).astype(np.float64), narrow_bf16),
    "f32": Codec(_wide, lambda value, mode: canonical_f32(narrow_f32(value, mode))),
}
"""The formats by the names of their types in PTX. bfloat16 is seen as its raw bits."""
