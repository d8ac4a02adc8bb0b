"""Functions of two floats that are no arithmetic: powers, and remainders of divisions."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import TYPE_CHECKING, Any

from cutegen.dtypes import Dtype
from cutegen.reference.arithmetic import allowance
from cutegen.reference.rounding import Bounded, settle

if TYPE_CHECKING:
    import torch


def general_power(x: Bounded, y: Bounded, dtype: Dtype) -> Bounded:
    """x to a power that is no small whole number.

    It is monotone in each argument while x keeps its sign, so that it lies between its values at the corners of what
    the arguments may be. Where x may have either sign, that is so of a positive power that is known, and 0 is among its
    values. A negative x has a power, which is no NaN, where the other may be a whole number.
    """
    import torch

    up = torch.full_like(x.value, torch.inf)
    value = torch.pow(x.value, y.value)
    least, most = (
        torch.where(x.exact, x.value, torch.nextafter(x.value + sign * x.error, sign * up)) for sign in (-1, 1)
    )
    corners = [torch.pow(a, y.value + sign * y.error) for a in (least, most) for sign in (-1, 1)]
    crossed = (least <= 0) & (most >= 0) & ~x.exact
    corners.append(torch.where(crossed, 0.0, value))
    error = torch.zeros_like(value)
    for corner in corners:
        same = (corner == value) | (corner.isnan() & value.isnan())
        error = torch.maximum(error, torch.where(same, 0.0, (corner - value).abs()).nan_to_num(torch.inf, torch.inf))
    known = x.exact & y.exact
    may_be_whole = ~y.exact & ((y.value - y.error).ceil() <= (y.value + y.error).floor())
    unknown = (crossed & ~(y.exact & (y.value > 0))) | (least < 0) & may_be_whole | x.error.isinf() | y.error.isinf()
    error = torch.where(unknown & ~known, torch.inf, error)
    return settle(value, error, allowance(value, error, dtype), dtype, lambda: error == 0)


def remainder_of_division(x: Bounded, y: Bounded, dtype: Dtype) -> Bounded:
    """C's fmod, which is exact: x - y trunc(x / y). Where errors may give another quotient, it lies between -|y| and
    |y|; nothing is known if x may be infinite, which gives NaN.
    """
    import torch

    value = fmod(x.value, y.value)
    known = x.exact & y.exact
    size, by = x.value.abs(), y.value.abs()
    quotient = (size / by).trunc()
    least, most = (size - x.error) / (by + y.error), (size + x.error) / (by - y.error)
    sure = (by > y.error) & (least.trunc() == quotient) & (most.trunc() == quotient) & (size >= x.error)
    error = torch.where(sure, x.error + quotient * y.error, by + y.error + value.abs())
    unknown = (by <= y.error) | x.error.isinf() | error.isnan() | value.isnan()
    error = torch.where(unknown, torch.inf, error)
    return Bounded(value, torch.where(known, 0.0, error * (1 + 2.0**-30)), dtype)


def fmod(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """C's fmod, which is exact. Torch's own gives NaN on a CPU where the quotient overflows."""
    import numpy as np
    import torch

    if x.device.type != "cpu":
        return torch.fmod(x, y)
    with np.errstate(invalid="ignore"):
        value = torch.as_tensor(np.fmod(x.detach().numpy(), y.detach().numpy()))
    if not torch.is_grad_enabled() or not (x.requires_grad or y.requires_grad):
        return value
    result: torch.Tensor = _with_gradients()(value, x.expand(value.shape), y.expand(value.shape))
    return result


@cache
def _with_gradients() -> Callable[..., torch.Tensor]:
    """The value of x modulo y, given beside x and y, with the gradients that torch's own has."""
    import torch

    class Remainder(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, value: torch.Tensor, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            ctx.save_for_backward(x, y)
            return value

        @staticmethod
        def backward(ctx: Any, arriving: torch.Tensor) -> tuple[None, torch.Tensor, torch.Tensor]:
            x, y = ctx.saved_tensors
            return None, arriving, -arriving * (x / y).trunc()

    return Remainder.apply
