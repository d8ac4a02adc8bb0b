"""Torch's own functions, for those that `compute` defines by others: a definition is compared with their values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cutegen.expressions.functions import PARTS
from cutegen.reference.powers_and_remainders import fmod
from cutegen.reference.rounding import Bounded, overflow, settle_integer

if TYPE_CHECKING:
    import torch


def _torch(name: str) -> Callable[..., torch.Tensor]:
    """Torch's function of a name."""
    import torch

    own: dict[str, Callable[..., torch.Tensor]] = {
        # torch takes these parameters as numbers only
        "leaky_relu": lambda x, slope: torch.where(x > 0, x, x * slope),
        "hardswish": lambda x: x * _hardsigmoid(x),  # exact beyond 3
        "remainder": _remainder,
        "floor_divide": _floor_divide,
        "elu": lambda x, alpha: torch.where(x > 0, x, torch.expm1(x) * alpha),
    }
    found: Callable[..., torch.Tensor] | None = own.get(name)
    found = found or getattr(torch.nn.functional, name, None) or getattr(torch, name)
    return found


def _hardsigmoid(x: torch.Tensor) -> torch.Tensor:
    """A line from 0 at -3 to 1 at 3, and level beyond: torch's own of float64 takes a sixth that is rounded to f32 on a
    GPU.
    """
    return (x + 3).clamp(0, 6) / 6


def _below(r: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    """Whether a remainder that has the sign of the dividend must be brought to that of the divisor."""
    return (r != 0) & ((r < 0) != (y < 0))


def _remainder(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    import torch

    r = fmod(x, y)
    return torch.where(_below(r, y), r + y, r)


def _floor_divide(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    import torch

    x, y = x.detach(), y.detach()  # constant where it has a derivative
    r = fmod(x, y)
    quotient = ((x - r) / y).round() - _below(r, y).to(x.dtype)
    quotient = torch.where(quotient == 0, torch.copysign(torch.zeros_like(quotient), x / y), quotient)
    exact = torch.fmod(x, y).isfinite() & (y != 0)  # torch's own gives NaN where the quotient overflows
    return torch.where(exact, torch.floor_divide(x, y), torch.where(y == 0, x / y, quotient))


def valued(name: str, arguments: Sequence[Bounded], defined: Bounded) -> Bounded:
    """A function's value as torch has it, with the error of its definition; infinite where its type ends."""
    import torch

    if name in PARTS:
        return defined
    value = _torch(name)(*(x.value for x in arguments))
    dtype = defined.dtype
    if not dtype.is_float:
        value = value.to(torch.int64).expand_as(defined.value)
        return replace(defined, value=settle_integer(value, defined.error, dtype).value if dtype.is_integer else value)
    value = value.to(torch.float64)
    if dtype.value != "f64":
        most = value.abs() >= overflow(dtype)
        value = torch.where(most, torch.copysign(torch.full_like(value, torch.inf), value), value)
    return replace(defined, value=value)
