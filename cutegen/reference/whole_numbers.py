"""Operators on integers, on `Bounded` values: `//`, `%`, shifts and those on bits.

All is computed in int64 and then wrapped into the type, independent of the kernel.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import Bounded, settle_integer

if TYPE_CHECKING:
    import torch

_MONOTONE = ("//", ">>")  # in what is divided or shifted, where the other side is a certain number above 0


def operate(op: str, a: Bounded, b: Bounded, dtype: Dtype) -> Bounded:
    """The result of an operator; unknown where an operand is, but for what is divided or shifted to the right.

    That lies between the results of both its ends.
    """
    import torch

    value = _compute(op, a.value, b.value, dtype)
    error = torch.where(a.exact & b.exact, 0.0, torch.inf)
    if op in _MONOTONE and not bool(a.exact.all()):
        reach = a.error.nan_to_num(0.0, 0.0).ceil().to(torch.int64)
        low, high = dtype.range
        inside = (a.error < 2.0**62) & (a.value >= low + reach) & (a.value <= high - reach)
        ends = [_compute(op, x, b.value, dtype) for x in (a.value - reach, a.value + reach)]
        between = torch.maximum(ends[1] - value, value - ends[0]).double()
        error = torch.where(inside & b.exact & (b.value > 0), between, error)
    return settle_integer(value, error, dtype)


def _compute(op: str, a: torch.Tensor, b: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    """The result in 64 bits."""
    import torch

    last = dtype.bits - 1
    match op:
        case "&":
            return a & b
        case "|":
            return a | b
        case "^":
            return a ^ b
        case "<<":
            return torch.where((b < 0) | (b > last), 0, a << b.clamp(0, last))
        case ">>":
            return a >> torch.where((b < 0) | (b > last), last, b)
    divisor = torch.where((b == 0) | (b == -1), 1, b)
    quotient = torch.div(a, divisor, rounding_mode="floor")
    if op == "%":
        return a - quotient * divisor
    return torch.where(b == 0, 0, torch.where(b == -1, -a, quotient))
