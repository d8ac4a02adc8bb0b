"""What the bound of a matrix product is made of: its rounding factor, NaNs among its terms, its exact value."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import unit

if TYPE_CHECKING:
    import torch


def nan_among(
    a: torch.Tensor, b: torch.Tensor, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """Whether a NaN is among what is summed for each element, whatever else is."""
    import torch

    return product(a.isnan().double(), torch.ones_like(b)) + product(torch.ones_like(a), b.isnan().double()) > 0


def gamma(n: int, dtype: Dtype) -> float:
    """n u / (1 - n u), of n roundings of a type whose unit roundoff is u; infinite where that says nothing."""
    nu = n * unit(dtype)
    return nu / (1 - nu) if nu < 0.5 else float("inf")


def exact_integer_product(
    a: torch.Tensor, b: torch.Tensor, product: Callable[[torch.Tensor, torch.Tensor], torch.Tensor]
) -> torch.Tensor:
    """A @ B.T modulo 2^32 from float64 products of 16-bit halves, each of which is exact for K below 2^21.

    It works wherever there is no integer matrix product, as on a GPU.
    """
    import torch

    def halves(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return (x >> 16).to(torch.float64), (x & 0xFFFF).to(torch.float64)

    (ah, al), (bh, bl) = halves(a), halves(b)
    middle = product(ah, bl).to(torch.int64) + product(al, bh).to(torch.int64)
    return ((middle % 2**16) << 16) + product(al, bl).to(torch.int64) % 2**32
