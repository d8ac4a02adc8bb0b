"""The error of a matrix product that uses only some bits of its factors, as tensor cores do with f32."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import PRECISION, half_subnormal

if TYPE_CHECKING:
    import torch


def cut(
    a: torch.Tensor,
    b: torch.Tensor,
    bits: int | None,
    product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor],
) -> torch.Tensor:
    """How far the product of two finite factors of f32 may be off if only `bits` of their fractions are taken.

    `bits` counts the leading one; None takes all. Factors that are off by da and db at most give a product that is off
    by da (|b| + db) + |a| db.
    """
    if bits is None:
        return a.new_zeros(())  # also where the product overflows
    da, db = _lost(a, bits), _lost(b, bits)
    return product(da, b.abs() + db) + product(a.abs(), db)


def _lost(x: torch.Tensor, bits: int) -> torch.Tensor:
    """How far each value of f32 may be from one with so many bits of a fraction, cut or rounded: 0 if it is one.

    Below the normal numbers the last places are fixed.
    """
    import torch

    dropped = PRECISION[Dtype.f32] - bits
    lost = (x.abs() * 2.0 ** (1 - bits)).clamp(min=2.0 ** (dropped + 1) * half_subnormal(Dtype.f32))
    pattern = x.float().view(torch.int32) & (2**dropped - 1)
    return lost.masked_fill(pattern == 0, 0.0)
