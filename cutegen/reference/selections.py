"""The largest values along an axis and their places, on `Bounded` values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import Bounded

if TYPE_CHECKING:
    import torch


def largest(x: Bounded, axis: int, count: int) -> Bounded:
    """The largest values along an axis, the largest first, of which NaN is above all numbers.

    The i-th largest is between the i-th largest of all lower bounds and that of all upper bounds.
    """
    import torch

    error = x.error.expand_as(x.value)
    found = _sorted(x.value, axis)[0].narrow(axis, 0, count)
    if bool((error == 0).all()):
        return Bounded(found, torch.zeros((), dtype=torch.float64, device=found.device), x.dtype)
    low, high = (_sorted(x.value + sign * error, axis)[0].narrow(axis, 0, count) for sign in (-1, 1))
    alike = torch.zeros_like(low)
    below, above = torch.where(low == found, alike, found - low), torch.where(high == found, alike, high - found)
    away = torch.maximum(below, above)
    away = torch.where(found.isnan(), 0.0, away.nan_to_num(torch.inf, torch.inf))
    return Bounded(found, torch.where(error.isinf().any(axis, True), torch.inf, away), x.dtype)


def places(x: Bounded, axis: int, count: int, dtype: Dtype) -> Bounded:
    """The places of the largest values along an axis, of equal values the first one first.

    A place is known where its value is surely below all values before it in order and above all others. Equal values
    that are exact have the order of their places. In a row with errors, nothing is known beside NaN and infinity.
    """
    import torch

    value, order = _sorted(x.value, axis)
    found = order.narrow(axis, 0, count)
    error = x.error.expand_as(x.value).gather(axis, order)
    if bool((error == 0).all()):
        return Bounded(found, torch.zeros((), dtype=torch.float64, device=found.device), dtype)
    value = value.double()
    infinity = torch.full_like(value, torch.inf)
    low = torch.where(error > 0, torch.nextafter(value - error, -infinity), value)
    high = torch.where(error > 0, torch.nextafter(value + error, infinity), value)
    place = torch.ones_like(order).cumsum(axis)
    first, last = place == 1, place == value.shape[axis]
    surely_below = first | (low.cummin(axis)[0].roll(1, axis) >= high)
    surely_above = last | (low >= high.flip(axis).cummax(axis)[0].flip(axis).roll(-1, axis))
    exact = (error == 0).all(axis, True)
    known = exact | surely_below & surely_above & value.isfinite().all(axis, True)
    return Bounded(found, torch.where(known.narrow(axis, 0, count), 0.0, torch.inf), dtype)


def _sorted(x: torch.Tensor, axis: int) -> tuple[torch.Tensor, torch.Tensor]:
    import torch

    found = torch.sort(x, dim=axis, descending=True, stable=True)
    return found.values, found.indices
