"""Values with a bound on how far a kernel's may be from them, and what rounding and conversion add to it.

A kernel that computes a node as IEEE arithmetic of the node's dtype does gives a number within `value +- error`,
whether or not the compiler contracts a product and a sum into an fma (which leaves out one rounding). `error` is 0
where the result is known to the last bit, and infinite where nothing can be said (say, a comparison that could go
either way in front of a logarithm).

Model of arithmetic: N. Higham, Accuracy and Stability of Numerical Algorithms, 2nd ed., section 2.2:
fl(x op y) = (x op y)(1 + d), |d| <= u, u = 2^-p, plus half of the smallest subnormal where the result underflows.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype

if TYPE_CHECKING:
    import torch

PRECISION = {Dtype.f64: 53, Dtype.f32: 24, Dtype.f16: 11, Dtype.bf16: 8}
_TOP = {Dtype.f64: 1024, Dtype.f32: 128, Dtype.f16: 16, Dtype.bf16: 128}
# The bounds are themselves computed in float64, a few dozen roundings deep.
_SLACK = 1 + 2.0**-30
_EXPONENT = 0x7FF << 52  # the bits of the exponent of a float64
_SINGLE = (Dtype.f32, Dtype.f16, Dtype.bf16, Dtype.f8e4m3, Dtype.f8e5m2)  # types whose numbers f32 holds


@dataclass(frozen=True)
class Bounded:
    """Values with a bound on how far a kernel's may be from them.

    `value` is float64, or int64 for integers and bool (0, 1); `error` is float64 of the same or a broadcastable shape.
    `overflowed` says, of a product of finite numbers or an exponential of one, where it is infinite, as an fma that it
    goes into need not be: by the least that it can be without the overflow, with its sign, and 0 elsewhere. It is None
    where that is so of none.
    """

    value: torch.Tensor
    error: torch.Tensor
    dtype: Dtype
    overflowed: torch.Tensor | None = None

    @property
    def exact(self) -> torch.Tensor:
        return self.error == 0


def unit(dtype: Dtype) -> float:
    """Unit roundoff u: half the distance from 1 to the next number."""
    return 2.0 ** -PRECISION[dtype]


def smallest_normal(dtype: Dtype) -> float:
    return 2.0 ** (2 - _TOP[dtype])


def half_subnormal(dtype: Dtype) -> float:
    """Half of the smallest positive number: the most that rounding changes a result that underflows."""
    exponent = 2 - _TOP[dtype] - PRECISION[dtype]
    return 2.0 ** max(exponent, -1074)  # for f64 that half is no float64: take the whole


def overflow(dtype: Dtype) -> float:
    """The least magnitude that rounds to infinity: the largest number plus half an ulp; for f64 the largest number."""
    return 2.0 ** (_TOP[dtype] - 1) * (2 - 2.0 ** (1 - PRECISION[dtype] - (dtype is not Dtype.f64)))


def of_open_sign(error: torch.Tensor, either: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """The errors of results, which are exact zeros but for their sign where that may be `either` and the error is 0.

    The smallest error says so: the sign is then not compared, and no other number is within it.
    """
    import torch

    least = half_subnormal(Dtype.f32 if dtype.is_f8 else dtype)
    return torch.where(either & (error == 0), least, error)


def representable(value: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """Whether a float64 is a number of `dtype`."""
    return rounded(value, dtype) == value


def rounded(value: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """float64 numbers rounded to the nearest of `dtype` and back (to f16 and bf16 by way of f32, see `cast`)."""
    import torch

    if dtype is Dtype.f64:
        return value
    if value.requires_grad:  # by autograd the gradient would be rounded, too
        given = value.detach()
        return torch.where(value.isfinite(), value - given, 0.0) + rounded(given, dtype)
    single = value.to(torch.float32)
    return single.to(getattr(torch, dtype.torch)).to(torch.float64)


def rounding(value: torch.Tensor, error: torch.Tensor, dtype: Dtype, exact: torch.Tensor | None = None) -> torch.Tensor:
    """What one rounding to `dtype` adds: half an ulp, or 0 where the operands are exact and the result fits.

    Half an ulp of what is at least 2^e, and less than twice that, is u 2^e; the number may be as large as |value| +
    error. For f64 the reference rounds as well, so it counts twice; whether its result is exact cannot be seen from
    the result alone and is told by `exact`.
    """
    import torch

    twice = 2 if dtype is Dtype.f64 else 1
    most = value.abs() + error
    # The largest power of two that is not above `most`: without the fraction, of which NaN keeps a bit. Below the least
    # normal number that is 0, which the rounding of results that underflow is more than.
    power = (most.view(torch.int64) & _EXPONENT).view(torch.float64)
    power = torch.where(most.isnan(), most, power)
    added = (power * (twice * unit(dtype))).clamp_min(half_subnormal(dtype))
    known = error == 0
    if not bool(known.any()):
        return added
    fits = representable(value, dtype) if dtype is not Dtype.f64 else torch.zeros_like(value, dtype=torch.bool)
    if exact is not None:
        fits = exact
    return torch.where(known & fits, 0.0, added)


def settle(
    value: torch.Tensor,
    error: torch.Tensor,
    added: torch.Tensor,
    dtype: Dtype,
    certain: Callable[[], torch.Tensor],
) -> Bounded:
    """A result of `dtype` from its propagated `error` and what computing it `added`.

    A result that is NaN or infinite is known to be where `certain` says so. One whose magnitude reaches the largest
    number plus half an ulp overflows to infinity; one that might has an infinite error.
    """
    import torch

    total = (error + added) * _SLACK
    magnitude, threshold = value.abs(), math.inf if dtype is Dtype.f64 else overflow(dtype)
    if total.numel() and bool((magnitude + total).max() < threshold):  # which no NaN is
        return Bounded(value, torch.broadcast_to(total, value.shape), dtype)
    finite = torch.isfinite(value)
    total = torch.where(finite & ~total.isnan(), total, torch.inf)
    total = torch.where(~finite & certain(), 0.0, total)
    if dtype is not Dtype.f64:
        surely = finite & (magnitude - error >= threshold)
        perhaps = finite & ~surely & (magnitude + total >= threshold)
        value = torch.where(surely, torch.copysign(torch.full_like(value, torch.inf), value), value)
        total = torch.where(surely, 0.0, torch.where(perhaps, torch.inf, total))
    else:
        perhaps = finite & (magnitude + total == torch.inf)
        total = torch.where(perhaps, torch.inf, total)
    return Bounded(value, total, dtype)


def settle_integer(
    value: torch.Tensor, error: torch.Tensor, dtype: Dtype, about: torch.Tensor | None = None
) -> Bounded:
    """An int64 wrapped into `dtype` as two's complement does. If it is uncertain and might wrap, nothing is known.

    `about` is the same result in float64, for i64, whose own results have wrapped before they are seen here.
    """
    import torch

    low, high = dtype.range
    if dtype is Dtype.i64:
        far = (value.to(torch.float64) if about is None else about).abs()
        inside = far + error < 2.0**63 * (1 - 2.0**-50)  # these sums round
        return Bounded(value, torch.where((error > 0) & ~inside, torch.inf, error), dtype)
    wrapped = (value - low) % (high - low + 1) + low
    inside = (value - error >= low) & (value + error <= high)
    return Bounded(wrapped, torch.where((error > 0) & ~inside, torch.inf, error), dtype)


def sum_is_exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether a + b has no rounding error in float64. Source: Knuth's TwoSum."""
    s = a + b
    t = s - a
    return ((a - (s - t)) + (b - t)) == 0


def product_is_exact(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """Whether a * b has no rounding error in float64. Source: Dekker's product with Veltkamp's splitting."""

    def split(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        c = x * 134217729.0  # 2^27 + 1
        high = c - (c - x)
        return high, x - high

    p = a * b
    (ah, al), (bh, bl) = split(a), split(b)
    rest = ((ah * bh - p) + ah * bl + al * bh) + al * bl
    return ((rest == 0) & (p.abs() > 2.0**-900)) | (a == 0) | (b == 0)


def cast(x: Bounded, dtype: Dtype) -> Bounded:
    """`x` converted to `dtype`.

    To a float: one correct rounding, none if every number of the source fits. From float to integer: toward zero, to
    the nearest end of the range from outside of it, NaN to 0. From integer to integer: wraps. To bool: not equal 0.
    To a float of 8 bits: what is too large becomes the largest number, infinities too, and NaN stays.
    f64 to f16, bf16 or 8 bits may take one rounding or two (by way of f32), so it is only exact where the number fits.
    """
    import torch

    if dtype is x.dtype:
        return x
    if dtype is Dtype.bool:
        sure = (x.exact | (x.value.abs() > x.error)) & ~torch.isinf(x.error)
        return Bounded((x.value != 0).to(torch.int64), torch.where(sure, 0.0, 1.0), dtype)
    if not dtype.is_float:
        return _to_integer(x, dtype)
    if x.dtype is Dtype.i64:
        return _from_i64(x, dtype)
    if dtype.is_f8:
        return _to_f8(x, dtype)
    value = x.value.to(torch.float64)
    wider = dtype is Dtype.f64 or (dtype is Dtype.f32 and x.dtype in _SINGLE)
    if wider:
        return Bounded(value, x.error, dtype)
    once = rounded(value, dtype)
    twice = PRECISION[dtype] < 24 and x.dtype not in _SINGLE
    known = x.exact & ((once == value) | (not twice))
    result = torch.where(known, once, value)
    added = torch.where(known, 0.0, rounding(value, x.error, dtype) * (1 + 2.0**-12 * twice))
    return settle(result, x.error.expand_as(result), added, dtype, lambda: x.exact)


def _to_f8(x: Bounded, dtype: Dtype) -> Bounded:
    """A number as a float of 8 bits, between those of both ends of x; it may be rounded to f32 before."""
    import torch

    largest, value = dtype.largest, x.value.to(torch.float64)
    single = value.to(torch.float32).to(torch.float64)
    unheld = (single != value) & value.isfinite()
    slack = torch.where(unheld, value.abs() * 2.0**-23, 0.0) if x.dtype not in _SINGLE else 0.0
    reach = torch.where(x.exact, 0.0, x.error) + slack

    def stored(number: torch.Tensor) -> torch.Tensor:
        return rounded(number.clamp(-largest, largest), dtype)

    nearest, least, most = stored(value), stored(value - reach), stored(value + reach)
    error = torch.maximum(most - nearest, nearest - least)
    error = of_open_sign(error, least.signbit() != most.signbit(), dtype)
    error = torch.where(x.error == torch.inf, torch.inf, error)  # NaN may be among what it stands for
    return Bounded(nearest, torch.where(nearest.isnan() & x.exact, 0.0, error), dtype)


def _from_i64(x: Bounded, dtype: Dtype) -> Bounded:
    """An i64 as a float: one rounding, from all its bits, to f64 or f32; to a narrower float one or two."""
    import torch

    wide = Dtype.f64 if dtype is Dtype.f64 else Dtype.f32
    nearest = x.value.to(getattr(torch, wide.torch)).to(torch.float64)
    most = nearest.abs() + x.error
    known = x.exact | (most <= 2.0 ** PRECISION[wide])  # as all whole numbers are that the type holds
    error = x.error + torch.where(known, 0.0, most * 2 * unit(wide))
    if dtype is wide:
        return Bounded(nearest, error, dtype)
    return cast(Bounded(nearest, error, Dtype.f64), dtype)


def _to_integer(x: Bounded, dtype: Dtype) -> Bounded:
    import torch

    if not x.dtype.is_float:
        return settle_integer(x.value, x.error, dtype)
    low, high = dtype.range

    def converted(value: torch.Tensor, nan: float) -> torch.Tensor:
        return value.nan_to_num(nan).clamp(low, high).trunc()

    value = converted(x.value, 0.0)
    inside = value < 2.0**63  # of i64 float64 has no largest one, only the number after it
    whole = torch.where(inside, torch.where(inside, value, 0.0).to(torch.int64), high)
    # NaN comes of an infinity less an unbounded error
    least = torch.where(x.exact, value, converted(x.value - x.error, low))
    most = torch.where(x.exact, value, converted(x.value + x.error, high))
    error = torch.maximum(most - value, value - least)
    error = torch.where(most - least == high - low, torch.inf, error)  # any number of the type may come
    return Bounded(whole, error, dtype)
