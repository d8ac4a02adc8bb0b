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
from cutegen.reference.masks import below, equal, every, is_finite, largest, some

if TYPE_CHECKING:
    import torch

PRECISION = {Dtype.f64: 53, Dtype.f32: 24, Dtype.f16: 11, Dtype.bf16: 8}
_TOP = {Dtype.f64: 1024, Dtype.f32: 128, Dtype.f16: 16, Dtype.bf16: 128}
# The bounds are themselves computed in float64, a few dozen roundings deep.
SLACK = 1 + 2.0**-30
_EXPONENT = 0x7FF << 52  # the bits of the exponent of a float64


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
        return equal(self.error, 0.0)

    @property
    def known(self) -> bool:
        """Whether all values are known to be exact: the error is a single 0."""
        return self.error.dim() == 0 and float(self.error) == 0


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
    return equal(rounded(value, dtype), value)


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
    """The error that one rounding to `dtype` adds: half an ulp, or 0 where the operands are exact and the result fits.

    The number may be as large as |value| + error. For f64 the result alone does not show whether it is exact: `exact`
    says so.
    """
    import torch

    added = half_ulp(value.detach().abs() + error.detach(), dtype)
    known = equal(error, 0.0)
    if not some(known):
        return added
    fits = representable(value, dtype) if dtype is not Dtype.f64 else torch.zeros_like(value, dtype=torch.bool)
    if exact is not None:
        fits = exact
    return torch.where(known & fits, 0.0, added)


def half_ulp(most: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """The most that rounding to `dtype` changes a number of that size, which is overwritten by it; of NaN infinity.

    Half an ulp of what is at least 2^e, and less than twice that, is u 2^e. For f64 the reference rounds as well, so it
    counts twice.
    """
    import torch

    # The largest power of two that is not above `most`: without the fraction. Below the least normal number that is 0,
    # which the rounding of results that underflow is more than.
    most.view(torch.int64).bitwise_and_(_EXPONENT)
    return most.mul_((2 if dtype is Dtype.f64 else 1) * unit(dtype)).clamp_min_(half_subnormal(dtype))


def gamma_of(terms: torch.Tensor, u: float) -> torch.Tensor:
    """n u / (1 - n u), of n roundings of a type whose unit roundoff is u; infinite where that says nothing."""
    import torch

    nu = terms * u
    return torch.where(below(nu, 0.5), nu / (1 - nu), torch.inf)


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

    total = (error + added) * SLACK
    magnitude, threshold = value.abs(), math.inf if dtype is Dtype.f64 else overflow(dtype)
    if total.numel() and largest((magnitude + total).detach()) < threshold:  # which no NaN is
        return Bounded(value, torch.broadcast_to(total, value.shape), dtype)
    finite, total = is_finite(value), total.nan_to_num(torch.inf, torch.inf)
    if not every(finite):
        total = torch.where(finite, total, torch.where(certain(), 0.0, torch.inf))
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
