"""Tensors as values along the modes of an output."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.reference.rounding import Bounded

if TYPE_CHECKING:
    import torch


def widened(values: torch.Tensor, dtype: Dtype) -> torch.Tensor:
    import torch

    # a copy even of float64: what is expected must not change when the kernel writes its output
    return values.to(torch.float64 if dtype.is_float else torch.int64, copy=True)


def exactly(values: torch.Tensor, dtype: Dtype) -> Bounded:
    """Values that are known to the last bit."""
    import torch

    return Bounded(values, torch.zeros((), dtype=torch.float64, device=values.device), dtype)


def placed(values: torch.Tensor, shape: tuple[str, ...], onto: tuple[str, ...]) -> torch.Tensor:
    """`values` with modes `shape`, permuted to the order of `onto` and with size 1 for the modes it lacks."""
    order = [shape.index(m) for m in onto if m in shape]
    if len(order) != len(shape):
        raise ValueError(f"[{', '.join(shape)}] has a mode that the output [{', '.join(onto)}] lacks")
    values = values.permute(order)
    for position, mode in enumerate(onto):
        if mode not in shape:
            values = values.unsqueeze(position)
    return values


def letters(shape: Iterable[str], modes: Mapping[str, str]) -> str:
    return "".join(modes[m] for m in shape)
