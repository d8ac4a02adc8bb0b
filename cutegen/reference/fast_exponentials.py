"""The error of exponentials that kernels with fast functions compute as powers of 2, whose exponent is rounded."""

from __future__ import annotations

from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import Bounded, unit


def as_power_of_2(x: Bounded, result: Bounded, base: Bounded | None) -> Bounded:
    """The `result` of exp in f32 where it is 2 to the power x log2(e), with rounded product and constant: they change
    the power by 1.06e-7 |x| at most, and the result by 0.62 ulp for each of |x|. One is allowed, which is 2 u |x|.

    With a `base` m the power may be t c - m c, of an x = t - m whose t and m are multiples of the factor in c. Then
    c is rounded once more, and so is m c, which changes the result by u |m| of its value, u = 2^-24.
    """
    import torch

    u = unit(Dtype.f32)
    power = 2 * u * (x.value.abs() + x.error)
    if base is not None:
        below = base.value.abs() + base.error
        # Where there is no largest value that is finite, the base is 0
        power = torch.expm1(1.5 * power + u * torch.where(below.isfinite(), below, 0.0))
    more = power * (result.value.abs() + result.error)
    if not bool(more.isfinite().all()):
        more = torch.where(x.value.isfinite(), power, 0.0) * (result.value.abs() + result.error)
        more = torch.where(result.value.isfinite(), more, 0.0)
    return replace(result, error=result.error + more)


def by_exponential(tanh: Bounded) -> Bounded:
    """A hyperbolic tangent of f32 that is computed as 1 - 2 / (2^(c x) + 1), c = 2 log2(e), whose error is absolute.

    With u = 2^-24: c and c x are rounded, and the power is off by 4 u of itself; |d tanh| is at most half of a relative
    error of it, and |y| 2^y / (2^y + 1)^2 below 0.33: 2 * 2 u * 0.33 + 2 u. The sum below is rounded once, and its
    `rsqrt` off by 2^-22.4 (6.1 u with that of its square), of a quotient of at most 2: 2 * (1 + 6.1 + 1) u. The
    difference is rounded to half an ulp of 1: 20 u, of which 24 are allowed.
    """
    import torch

    if tanh.dtype is not Dtype.f32:
        return tanh
    return replace(tanh, error=torch.where(tanh.value.isnan(), tanh.error, tanh.error + 24 * 2.0**-24))
