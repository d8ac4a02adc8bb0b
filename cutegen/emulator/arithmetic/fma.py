"""The fused multiply-add of float32 and float64, with its single rounding."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic import whole_numbers
from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.exact_values import to_odd, two_product, two_sum
from cutegen.emulator.arithmetic.formats import NAN32, canonical_f64, narrow_f32

_U32_1 = np.uint32(1)
_U64_35 = np.uint64(35)
_LOWEST = np.iinfo(np.int64).min
# Just above twice the bits of the smallest normal float32: rounding may have made it from a midpoint below.
_TINY = np.uint32(0x01000001)
_INF2 = np.uint32(0xFF000000)  # twice the bits of infinity
_HUGE = np.float64(2.0**990)
_SMALL = np.float64(2.0**-900)


def fma_f32(a: Array, b: Array, c: Array) -> Array:
    """fma.rn.f32: float32 in and out, of any shapes that broadcast. Every NaN becomes `NAN32`.

    Why this rounds once. The product p of two 24-bit significands has 48 bits and an exponent within float64's range,
    so float64 holds it. s is the float64 nearest to p + c, and r the float32 nearest to s. r can differ from the
    float32 nearest to p + c only if a boundary between two float32 roundings lies between s and p + c, or is s and
    not p + c. Those boundaries are the midpoints of neighbouring float32 numbers; float64 holds each of them, and s
    is the float64 nearest to p + c, so none lies strictly between: s has to be a midpoint itself. In float32's
    normal range that means the last 29 bits of s are 1 followed by zeros. Lanes where they are, or where the
    result is below that range, take the slow way (`_slow_f32`); all others are right.
    """
    s = np.multiply(a, b, dtype=np.float64)
    s = np.add(s, c, dtype=np.float64)
    r: Array = s.astype(np.float32)
    if r.size == 0:
        return r
    bits = np.asarray(s).view(np.uint64)
    doubled = np.asarray(r).view(np.uint32) << _U32_1
    smallest = np.minimum.reduce(doubled, axis=None)
    tied = np.minimum.reduce((bits << _U64_35).view(np.int64), axis=None) == _LOWEST
    tiny = smallest < _TINY
    if tiny and not tied:
        # A zero is right: then s is exact, because c is zero, or is within a factor of two of the product and of the
        # other sign (Sterbenz). Twice the bits less one: zeros wrap to the top.
        tiny = np.minimum.reduce(doubled - _U32_1, axis=None) < _TINY - _U32_1
    if tied or tiny:
        r = _slow_f32(a, b, c, s, r, doubled)
    if np.maximum.reduce(doubled, axis=None) > _INF2:
        r = np.where(doubled > _INF2, NAN32, np.asarray(r).view(np.uint32)).view(np.float32)
    return r


def _slow_f32(a: Array, b: Array, c: Array, s: Array, r: Array, doubled: Array) -> Array:
    """The results `r` of `fma_f32`, computed anew in those lanes where its two roundings may differ from one.

    `s` is the sum in float64, and `doubled` twice the bits of `r`.
    """
    suspect = (((np.asarray(s).view(np.uint64) << _U64_35).view(np.int64) == _LOWEST) | (doubled < _TINY)) & (s != 0)
    product = np.multiply(a, b, dtype=np.float64)
    after = s - product
    suspect &= (product - (s - after)) + (c - after) != 0  # as in `two_sum`: where s is exact, r is rounded once
    if not has_any(suspect):
        return r
    shape = suspect.shape
    where = np.nonzero(suspect.reshape(-1))[0]
    a, b, c = (np.broadcast_to(x, shape).reshape(-1)[where].astype(np.float64) for x in (a, b, c))
    fixed = np.array(r).reshape(-1)
    fixed[where] = narrow_f32(to_odd(*two_sum(a * b, c)))
    found: Array = fixed.reshape(shape)
    return found


def fma_f64(a: Array, b: Array, c: Array, mode: str = "rn") -> Array:
    """fma.f64 in a rounding mode: float64 in and out, of any shapes that broadcast.

    To nearest, where nothing can over- or underflow: the product and the sums are split into rounded parts and exact
    errors, the two errors are added with rounding to odd, and one last addition rounds to nearest (Boldo and
    Melquiond, "Emulation of a FMA and correctly rounded sums", 2008, algorithm 5). All other lanes with finite
    operands are computed in whole numbers.
    """
    product = a * b
    plain = product + c
    if plain.size == 0:
        return plain
    # The error of the product is exact where the product is well within the normal numbers, or is exactly zero.
    size = np.abs(product)
    bounded = mode == "rn" and bool(np.maximum.reduce(size, axis=None) < _HUGE)
    bounded = bounded and all(np.maximum.reduce(np.abs(x), axis=None) < _HUGE for x in (a, b, c))
    if bounded and np.minimum.reduce(size, axis=None) > _SMALL:
        return _fma_f64_in_range(a, b, c, product, plain)
    return _fma_f64_guarded(a, b, c, product, plain, mode)


def _fma_f64_in_range(a: Array, b: Array, c: Array, product: Array, plain: Array) -> Array:
    """a * b + c to nearest where nothing over- or underflows. `product` is a * b and `plain` product + c, rounded."""
    high, low = two_product(a, b, product)
    upper, lower = two_sum(c, low)
    total, rest = two_sum(high, upper)
    # The small parts add up exactly for most data; else their sum is rounded to odd.
    small, error = two_sum(rest, lower)
    if np.any(error):
        small = to_odd(small, error)
    result = total + small
    # A zero has the sign of the plain sum: then the product is exact and cancels, or is zero like c.
    zero = result == 0
    if np.any(zero):
        result = np.where(zero, plain, result)
    return result


def _fma_f64_guarded(a: Array, b: Array, c: Array, product: Array, plain: Array, mode: str) -> Array:
    """a * b + c for all operands and modes: in each lane by the fastest way that is right there."""
    a, b, c, product, plain = np.broadcast_arrays(a, b, c, product, plain)
    size = np.abs(product)
    safe = (np.abs(a) < _HUGE) & (np.abs(b) < _HUGE) & (np.abs(c) < _HUGE) & (size < _HUGE)
    safe &= (size > _SMALL) | (a == 0) | (b == 0)
    if mode != "rn":
        safe = np.zeros_like(safe)
    result: Array = np.array(_fma_f64_in_range(a, b, c, product, plain)).reshape(-1)
    finite = np.isfinite(a) & np.isfinite(b)
    special = ~(finite & np.isfinite(c))
    # A product of finite numbers may overflow, yet an infinite c alone decides.
    decided = np.where(finite & ~np.isnan(c), c, plain)
    result = np.where(special.reshape(-1), decided.reshape(-1), result)
    slow = np.nonzero(~(safe | special).reshape(-1))[0]
    lanes = [x.reshape(-1)[slow].tolist() for x in (a, b, c)]
    result[slow] = [whole_numbers.fma(x, y, z, mode) for x, y, z in zip(*lanes, strict=True)]
    return canonical_f64(result.reshape(a.shape), a, b, c)
