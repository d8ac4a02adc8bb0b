"""Conversions of values with a bound on their error, from any type to any other."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference import ordinary
from cutegen.reference.rounding import (
    PRECISION,
    Bounded,
    of_open_sign,
    rounded,
    rounding,
    settle,
    settle_integer,
    unit,
)

if TYPE_CHECKING:
    import torch

_SINGLE = (Dtype.f32, Dtype.f16, Dtype.bf16, Dtype.f8e4m3, Dtype.f8e5m2)  # types whose numbers f32 holds


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
    wider = dtype is Dtype.f64 or (dtype is Dtype.f32 and x.dtype in _SINGLE)
    if wider:
        return Bounded(x.value.to(torch.float64), x.error, dtype)
    if x.dtype in _SINGLE and ordinary.possible(dtype, x):
        return ordinary.cast(x, dtype, lambda x: cast_fully(x, dtype))
    return cast_fully(x, dtype)


def cast_fully(x: Bounded, dtype: Dtype) -> Bounded:
    """The result of `cast` for elements of any kind, rounded to floats of f64 or less that are not of 8 bits."""
    import torch

    value = x.value.to(torch.float64)
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
