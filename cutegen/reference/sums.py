"""Reductions along axes, on `Bounded` values. Those that are reduced have all elements along them."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference import ordinary
from cutegen.reference.masks import equal, is_nan
from cutegen.reference.rounding import (
    PRECISION,
    Bounded,
    gamma_of,
    half_subnormal,
    overflow,
    settle,
    settle_integer,
    smallest_normal,
    unit,
)

if TYPE_CHECKING:
    import torch


class Whole:
    """All elements along axes as one, which keep size 1."""

    def __init__(self, axes: tuple[int, ...]) -> None:
        self.axes = axes

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x.sum(self.axes, True)

    def prod(self, x: torch.Tensor) -> torch.Tensor:
        (axis,) = self.axes
        return x.prod(axis, keepdim=True)

    def any(self, x: torch.Tensor) -> torch.Tensor:
        return x.any(self.axes, True)

    def all(self, x: torch.Tensor) -> torch.Tensor:
        return x.all(self.axes, True)


class UpTo:
    """At each place along an axis all elements up to that one."""

    def __init__(self, axis: int) -> None:
        self.axis = axis

    def sum(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(self.axis)

    def prod(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumprod(self.axis)

    def any(self, x: torch.Tensor) -> torch.Tensor:
        return x.cumsum(self.axis) > 0

    def all(self, x: torch.Tensor) -> torch.Tensor:
        return ~self.any(~x)


def total(x: Bounded, axis: tuple[int, ...], most: int | None = None) -> Bounded:
    """The sum along axes, all at once, in any order and with products fused or not, accumulated in the type of x.

    |s' - s| <= gamma(n - 1) sum |x'| with gamma(n) = n u / (1 - n u), of n terms that are not 0: adding 0 does not
    round; where each term goes through `most` additions at most, gamma(most) if that is less. Source: Higham, section
    3.1, and section 4.2 for a tree of them. The reference's own float64 sum adds the same with its u. Whole numbers
    whose sizes come to 2^p at most stay whole at every step. An infinity or NaN is known where no partial sum of what
    is finite can overflow; where a product overflowed that may be fused, nothing is known unless all are of one sign.
    """

    dtype = x.dtype
    if ordinary.possible(dtype, x):
        return ordinary.total(x, axis, most, lambda x, axis: total_fully(x, axis, most))
    return total_fully(x, axis, most)


def total_fully(x: Bounded, axis: tuple[int, ...], most: int | None = None) -> Bounded:
    """The result of `total` for elements of any kind, not only `ordinary` ones."""
    return _total(x, Whole(axis), most)


def running_total(x: Bounded, axis: int, most: int | None = None) -> Bounded:
    """The sums up to each element along an axis: each of them as `total` has it, of the elements up to that one."""
    return _total(x, UpTo(axis), most)


def _total(x: Bounded, over: Whole | UpTo, most: int | None) -> Bounded:
    import torch

    dtype = x.dtype
    error = x.error.expand_as(x.value)
    if not dtype.is_float:
        about = over.sum(x.value.double().abs())  # i64 may wrap on the way
        return settle_integer(over.sum(x.value), over.sum(error), dtype, about)
    value, finite = over.sum(x.value), x.value.masked_fill(~x.value.isfinite(), 0.0)
    magnitude = over.sum(finite.abs() + error)
    terms = over.sum((finite != 0) | (error != 0))
    gamma = gamma_of((terms - 1).clamp(0, most), unit(dtype))
    propagated = over.sum(error)
    whole = over.all(finite == finite.floor()) & (propagated == 0) & (magnitude <= 2.0 ** PRECISION[dtype])
    rounds = (gamma + gamma_of(terms, unit(Dtype.f64))) * magnitude
    bound = propagated + torch.where(whole | (terms <= 1), 0.0, rounds)
    stays = magnitude * (1 + gamma) < overflow(dtype)
    one_sign = over.all(x.value + error <= 0) | over.all(x.value - error >= 0)
    surely = value.isfinite() & one_sign & (value.abs() - bound >= overflow(dtype))
    bound = torch.where(stays | surely, bound, torch.inf)
    if x.overflowed is not None:
        fused = over.any(x.overflowed.expand_as(x.value)) & ~one_sign
        bound = torch.where(fused, torch.inf, bound)
    nan = over.any(x.value.isnan() & (error == 0))
    opposite = over.any(x.value == torch.inf) & over.any(x.value == -torch.inf)
    known = stays & bound.isfinite()
    certain = value.isnan() & (nan | (opposite & known)) | value.isinf() & known
    return settle(value, bound, torch.zeros_like(bound), dtype, lambda: certain)


def running_product(x: Bounded, axis: int) -> Bounded:
    """The products up to each element along an axis: each of them as `product` has it."""
    return _product(x, UpTo(axis))


def product(x: Bounded, axis: int) -> Bounded:
    """The product along an axis, in any order, in the type of x.

    Where no partial product can leave the type's range, |p' - p| <= P (1 + gamma(n - 1)) - |p| with P the product of
    |x| + e, of n factors. One that may overflow on the way makes nothing known, unless all factors are 1 at least. One
    that may underflow changes the result by half a subnormal, times all factors above 1. Whole numbers whose product
    has p bits stay whole at every step. A zero beside an infinity is NaN in any order.
    """
    return _product(x, Whole((axis,)))


def _product(x: Bounded, over: Whole | UpTo) -> Bounded:
    import torch

    dtype, error = x.dtype, x.error.expand_as(x.value)
    least, most = x.value.double().abs() - error, x.value.double().abs() + error
    value, reach = over.prod(x.value), over.prod(most)
    if not dtype.is_float:
        return settle_integer(value, (reach - value.double().abs()).clamp_min(0), dtype, reach)
    count = over.sum(torch.ones_like(most))
    powers = over.sum(most.clamp_min(1).log2().nan_to_num(0, 0, 0))  # of the largest partial product
    small = over.sum(torch.where(least > 0, least, 1).clamp_max(1).log2())
    zero = over.any((x.value == 0) & (error == 0))
    may_overflow = powers + 1 >= math.log2(overflow(dtype))
    may_underflow = (small - 1 <= math.log2(smallest_normal(dtype))) | over.any((least <= 0) & (error > 0))
    gamma = 2 * (count - 1).clamp_min(0) * (unit(dtype) + unit(Dtype.f64))
    rounds = torch.where(gamma < 1, reach * (1 + gamma) - value.abs(), torch.inf)
    whole = over.all(x.value == x.value.trunc()) & over.all(error == 0)
    bits = torch.where(zero, powers, powers.clamp_max(reach.log2()))
    bound = torch.where(whole & (bits <= PRECISION[dtype]), 0.0, rounds.clamp_min(0))
    below = torch.where(may_underflow, count * half_subnormal(dtype) * torch.exp2(powers), 0.0)
    bound = torch.where(may_overflow, torch.inf, bound + below)
    bound = torch.where(zero & ~may_overflow, half_subnormal(dtype), bound)  # a zero whose sign is open
    large = over.all(least >= 1) & value.isfinite() & (value.abs() - rounds >= 2 * overflow(dtype))
    value = torch.where(large, torch.copysign(torch.full_like(value, torch.inf), value), value)
    infinite = over.any(x.value.isinf() & (error == 0))
    nan = over.any(x.value.isnan() & (error == 0)) | (infinite & zero)
    known = infinite & ~may_overflow & ~may_underflow & over.all(error < most)
    value = torch.where(infinite & zero, torch.nan, value)
    return Bounded(value, torch.where(large | nan | known, 0.0, bound.nan_to_num(torch.inf, torch.inf)), dtype)


def extreme(x: Bounded, axis: tuple[int, ...], function: str) -> Bounded:
    """The largest or smallest along axes, between those of the ends that bounds leave open.

    Of no elements it is the infinity, or the end of the integers, that any other would replace. NaN wins.
    """
    import torch

    if not all(x.value.shape[i] for i in axis):
        shape = [1 if i in axis else size for i, size in enumerate(x.value.shape)]
        low, high = (-torch.inf, torch.inf) if x.dtype.is_float else x.dtype.range
        none = torch.full(shape, low if function == "max" else high, dtype=x.value.dtype, device=x.value.device)
        return Bounded(none, torch.zeros(shape, dtype=torch.float64, device=x.value.device), x.dtype)
    pick = torch.amax if function == "max" else torch.amin
    value = pick(x.value, axis, True)
    least, most = pick(x.value - x.error, axis, True), pick(x.value + x.error, axis, True)
    error = torch.where(x.exact.expand_as(x.value).all(axis, True), 0.0, torch.maximum(most - value, value - least))
    nan = (is_nan(x.value) & x.exact).any(axis, True)
    unknown = equal(x.error, math.inf).expand_as(x.value).any(axis, True)
    error = torch.where(unknown, torch.inf, error.double().nan_to_num(torch.inf, torch.inf))
    return Bounded(value, torch.where(nan, 0.0, error), x.dtype)
