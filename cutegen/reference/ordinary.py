"""Operations on ordinary numbers, in few passes: finite ones whose results, with all errors, are far from overflow.

Nearly all elements are ordinary. Each function here has the values and errors that the one in `arithmetic` or `casting`
of its name has, bit for bit: it computes the same formulas, without the parts that only other elements need. Elements
that are not ordinary are given to that function, `fully`, and to it alone.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from functools import reduce
from typing import TYPE_CHECKING, NamedTuple

from cutegen.dtypes import Dtype
from cutegen.reference.masks import below, equal, every, extent, is_finite, is_nan, largest, least, some
from cutegen.reference.rounding import PRECISION, SLACK, Bounded, gamma_of, half_ulp, overflow, rounded, unit

if TYPE_CHECKING:
    import torch

Fully = Callable[..., Bounded]  # what computes elements of any kind, from operands

_FIRST = 16  # elements along a mode that tell most rows which are not of whole numbers


def possible(dtype: Dtype, *operands: Bounded) -> bool:
    """Whether an operation on floats in `dtype` can be done here: on numbers that autograd does not track, narrower
    than the float64 they are computed in, without an overflow of a product that might be fused.
    """
    return dtype in PRECISION and dtype is not Dtype.f64 and all(map(_plain, operands))


def _plain(x: Bounded) -> bool:
    followed = x.value.requires_grad or x.error.requires_grad
    return x.value.is_floating_point() and x.overflowed is None and not followed and x.value.numel() > 0


class _Settled(NamedTuple):
    """The error of results with that of their rounding, one 0 if none has any; which of them are not ordinary, None if
    all are; and whether one is 0, or may be.
    """

    error: torch.Tensor
    strange: torch.Tensor | None
    zeros: bool


def add(a: Bounded, b: Bounded, dtype: Dtype, sign: int, fully: Fully) -> Bounded:
    """The sum, or the difference where `sign` is -1."""
    if decided := _nan_of_one(dtype, a, b):
        return decided
    value = a.value + b.value if sign == 1 else a.value - b.value
    if decided := _unknown_of_one(value, dtype, a, b):
        return decided
    error = a.error if b.known else b.error if a.known else a.error + b.error
    settled = _settled(value, None if a.known and b.known else error, dtype)
    return _mended(value, settled, dtype, fully, a, b)


def multiply(a: Bounded, b: Bounded, dtype: Dtype, fully: Fully) -> Bounded:
    """The product. One that is 0 is ordinary if it cannot have either sign."""
    if decided := _nan_of_one(dtype, a, b):
        return decided
    value = a.value * b.value
    if a.known and b.known:
        return _mended(value, _settled(value, None, dtype), dtype, fully, a, b)
    if decided := _unknown_of_one(value, dtype, a, b):
        return decided
    if b.known:
        error = b.value.abs() * a.error
    else:
        error = a.value.abs()
        error = error.mul_(b.error) if error.shape == value.shape else error * b.error
        if a is b:
            error = (error + error).add_(a.error * a.error)
        elif not a.known:
            error = error + b.value.abs() * a.error + a.error * b.error
    settled = _settled(value, error, dtype)
    if settled.zeros and (_of_open_sign(a) or _of_open_sign(b)):
        zeros = equal(value, 0.0)
        settled = settled._replace(strange=zeros if settled.strange is None else settled.strange | zeros)
    return _mended(value, settled, dtype, fully, a, b)


def divide(a: Bounded, b: Bounded, dtype: Dtype, fully: Fully) -> Bounded:
    """The quotient of divisors that are surely not 0."""
    if decided := _nan_of_one(dtype, a, b):
        return decided
    value, room = a.value / b.value, b.value.abs()
    if not b.known:
        room = room - b.error
        if not (least(b.error) > 0 and least(room) > 0):  # some are exact, or may be 0
            return fully(a, b)
    error = a.error / room if b.known else (a.error + value.abs() * b.error) / room
    settled = _settled(value, None if a.known and b.known else error, dtype)
    return _mended(value, settled, dtype, fully, a, b)


def cast(x: Bounded, dtype: Dtype, fully: Fully) -> Bounded:
    """x, rounded once to a narrower type."""
    import torch

    if decided := _nan_of_one(dtype, x) or _unknown_of_one(x.value, dtype, x):
        return decided
    if x.known:
        value = rounded(x.value, dtype)
        strange = None if largest(value.abs()) < overflow(dtype) else ~below(value.abs(), overflow(dtype))
        return _mended(value, _Settled(torch.zeros_like(x.error), strange, False), dtype, fully, x)
    value, settled = x.value, _settled(x.value, x.error, dtype)
    if not least(x.error) > 0:  # some are exact
        value = torch.where(x.exact, rounded(value, dtype), value)
        settled = settled._replace(error=settled.error.masked_fill_(x.exact, 0.0))
    return _mended(value, settled, dtype, fully, x)


def total(x: Bounded, axis: tuple[int, ...], most: int | None, fully: Fully) -> Bounded:
    """The sum along axes, where no partial one can overflow. One with a NaN that is surely one is another, and nothing
    is known of one with an unknown number.
    """
    import torch

    if decided := _nan_of_one(x.dtype, x):
        shape = [1 if i in axis else size for i, size in enumerate(x.value.shape)]
        return replace(decided, value=decided.value.as_strided(shape, [0] * len(shape)))
    value, sizes = x.value.sum(axis, True), x.value.abs()
    terms = torch.full_like(value, math.prod(x.value.shape[i] for i in axis), dtype=torch.int64)
    if not least(sizes) > 0:
        terms = (sizes + x.error != 0).sum(axis, True)
    magnitude = sizes.add_(x.error).sum(axis, True)
    propagated = torch.zeros_like(value) if x.known else x.error.expand_as(x.value).sum(axis, True)
    unknown = propagated == torch.inf
    gamma = gamma_of((terms - 1).clamp(0, most), unit(x.dtype))
    single = terms <= 1
    if some(few := (propagated == 0) & (magnitude <= 2.0 ** PRECISION[x.dtype])):
        single = single | (few & _whole(x.value, axis))
    rounds = (gamma + gamma_of(terms, unit(Dtype.f64))) * magnitude
    bound = propagated.add_(rounds.masked_fill_(single, 0.0)).mul_(SLACK)
    stays = (magnitude * (1 + gamma) < overflow(x.dtype)) & (value.abs() + bound < overflow(x.dtype))
    if every(stays):
        return Bounded(value, bound, x.dtype)
    nan = value.isnan()
    if some(nan):
        nan &= (x.value.isnan() if x.known else x.value.isnan() & x.exact).any(axis, True)
    bound.masked_fill_(unknown, torch.inf).masked_fill_(nan, 0.0)
    strange = ~(stays | unknown | nan)
    if some(strange):
        rows = strange.flatten()
        values, errors = (_rows(each, axis)[rows] for each in (x.value, x.error.expand_as(x.value)))
        again = fully(Bounded(values, errors, x.dtype), (1,))
        value[strange], bound[strange] = again.value.flatten(), again.error.flatten()
    return Bounded(value, bound, x.dtype)


def _rows(values: torch.Tensor, axis: tuple[int, ...]) -> torch.Tensor:
    """A matrix whose rows are what is summed along axes."""
    last = tuple(range(-len(axis), 0))
    return values.movedim(axis, last).reshape(-1, math.prod(values.shape[i] for i in axis))


def _whole(value: torch.Tensor, axis: tuple[int, ...]) -> torch.Tensor:
    """Where all elements along axes are whole numbers: in most rows that are others, one of the first is not."""
    first = value
    for i in axis:
        first = first.narrow(i, 0, min(_FIRST, value.shape[i]))
    whole = (first == first.floor()).all(axis, True)
    return whole & equal(value, value.floor()).all(axis, True) if some(whole) else whole


def _settled(value: torch.Tensor, error: torch.Tensor | None, dtype: Dtype) -> _Settled:
    """Results after `rounding` and `settle`; `error` is their error before they were rounded, None for no error."""
    import torch

    threshold = overflow(dtype)
    if error is None:
        low, high = extent(value)
        high = max(-low, high)
        off = rounded(value, dtype).sub_(value)
        if not any(extent(off)) and high < threshold:
            return _Settled(torch.zeros((), dtype=torch.float64, device=value.device), None, low <= 0)
        total = half_ulp(value.abs(), dtype).mul_(SLACK).masked_fill_(equal(off, 0.0), 0.0)
        most = high * unit(dtype)
    else:
        magnitude = value.abs()
        (low, high), (nearest, most) = extent(magnitude), extent(error)
        total = half_ulp(magnitude.add_(error), dtype)
        if not nearest > 0:
            exact = equal(error, 0.0) & equal(rounded(value, dtype), value)
            total = total.masked_fill_(exact, 0.0)
        total = total.add_(error).mul_(SLACK)
        most += (high + most) * unit(dtype)
    strange = None
    # of most numbers a bound of all that is too large by little tells that they are ordinary
    if not high + 2 * most < threshold and not high + largest(total) < threshold:
        strange = ~below(value.abs().add_(total), threshold)
    return _Settled(total, strange, not low > 0)


def _nan_of_one(dtype: Dtype, *operands: Bounded) -> Bounded | None:
    """The results where an operand is one number for all of them which is surely NaN: one NaN for all, with one 0 for
    its error.
    """
    import numpy as np
    import torch

    for x in operands:
        if _one(x.value) and _one(x.error) and math.isnan(_number(x.value)) and _number(x.error) == 0:
            shape = np.broadcast_shapes(*(tuple(each.value.shape) for each in operands))
            nan, zero = (torch.tensor(n, dtype=torch.float64, device=x.value.device) for n in (math.nan, 0.0))
            return Bounded(nan.expand(shape), zero, dtype)
    return None


def _unknown_of_one(value: torch.Tensor, dtype: Dtype, *operands: Bounded) -> Bounded | None:
    """These results where nothing is known of an operand which is one number for all of them: of none that is not NaN
    for another reason is anything known, either.
    """
    import torch

    if not any(_one(x.error) and _number(x.error) == math.inf for x in operands):
        return None
    error = torch.tensor(math.inf, dtype=torch.float64, device=value.device)
    for x in operands:
        if not _one(x.error) or _number(x.error) == 0:
            nan = is_nan(x.value) if x.known else is_nan(x.value) & x.exact
            if some(nan):
                error = error.expand_as(value).masked_fill(nan, 0.0)
    return Bounded(value, error, dtype)


def _one(x: torch.Tensor) -> bool:
    """Whether a tensor has one element, in any shape."""
    return x.numel() == 1 or not any(x.stride())


def _number(x: torch.Tensor) -> float:
    """The one number that a tensor has."""
    return float(x.as_strided((), ()))


def _of_open_sign(x: Bounded) -> bool:
    """Whether some value may have either sign, so that 0 times it is a zero of either."""
    if x.known or least(x.value.abs() - x.error) > 0:
        return False
    return some((x.error >= x.value.abs()) & (x.error > 0))


def _mended(value: torch.Tensor, settled: _Settled, dtype: Dtype, fully: Fully, *operands: Bounded) -> Bounded:
    """Results; those that are not ordinary are computed `fully`, unless they need no computing.

    A certain NaN gives a NaN, unknown values give unknown ones, and infinities are kept if all operands are exact.
    """
    import torch

    strange, error = settled.strange, settled.error
    if strange is None:
        return Bounded(value, error, dtype)
    inexact = [x for x in operands if not x.known]
    if not inexact:
        rest, error = strange & is_finite(value), error.masked_fill(strange, 0.0)
    else:
        unknown = reduce(torch.logical_or, [equal(x.error, math.inf) for x in inexact])
        nan = reduce(torch.logical_or, [is_nan(x.value) if x.known else is_nan(x.value) & x.exact for x in operands])
        error = error.masked_fill(unknown, torch.inf).masked_fill_(nan, 0.0)
        rest = strange & ~(unknown | nan)
    count = int(torch.count_nonzero(rest))
    if not count:
        return Bounded(value, error, dtype)
    if count == value.numel():
        return fully(*operands)
    places = rest.nonzero(as_tuple=True)
    few = fully(*(_at(x, places, value.shape) for x in operands))
    value = value.clone(memory_format=torch.contiguous_format)  # which may be that of an operand
    error = error.expand_as(value).contiguous()
    value[places], error[places] = few.value, few.error.expand_as(few.value)
    if few.overflowed is None or not bool(few.overflowed.any()):
        return Bounded(value, error, dtype)
    overflowed = torch.zeros_like(value)
    overflowed[places] = few.overflowed.expand_as(few.value)
    return Bounded(value, error, dtype, overflowed)


def _at(x: Bounded, places: tuple[torch.Tensor, ...], shape: torch.Size) -> Bounded:
    """Some elements of a value that broadcasts to a shape, in a row."""
    return Bounded(x.value.expand(shape)[places], x.error if x.known else x.error.expand(shape)[places], x.dtype)
