"""Incoming gradients for a backward pass, with all strides that autograd produces, and helpers for such tensors."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import torch


def arriving(output: torch.Tensor, seed: int) -> list[tuple[str, torch.Tensor]]:
    """Gradients for an output, each with how it lies in memory: contiguous first."""
    import torch

    generator = torch.Generator().manual_seed(seed)

    def normal(shape: Sequence[int]) -> torch.Tensor:
        return torch.randn(tuple(shape), generator=generator).to(device=output.device, dtype=output.dtype)

    shape = tuple(output.shape)
    found = [("contiguous", normal(shape))]
    if not shape:
        return found
    found.append(("transposed" if len(shape) > 1 else "in steps of 1", normal(shape[::-1]).permute(*_reversed(shape))))
    wider = normal([*shape[:-1], 2 * shape[-1] + 3])
    found.append(("in steps of 2", wider[..., 1 : 2 * shape[-1] : 2]))
    found.append(("contiguous from the second element of its memory", normal([output.numel() + 1])[1:].view(shape)))
    longer = normal([*shape[:-1], shape[-1] + 3])
    found.append(("cut out of wider rows", longer[..., 1 : shape[-1] + 1]))
    for axis in range(len(shape)):
        few = [1 if i == axis else size for i, size in enumerate(shape)]
        found.append((f"expanded along the mode {axis}", normal(few).expand(shape)))
    if len(shape) > 1:
        found.append(("expanded from one number", normal([1] * len(shape)).expand(shape)))
    return found


def _reversed(shape: Sequence[int]) -> list[int]:
    return list(range(len(shape)))[::-1]


def strided(x: torch.Tensor, shape: Sequence[str], wanted: Sequence[str]) -> torch.Tensor:
    """A tensor whose modes are in the order of `shape`, in the order of `wanted`."""
    return x.permute([list(shape).index(mode) for mode in wanted])


def changed(x: torch.Tensor) -> None:
    """Writes to a tensor, in place, what it holds: autograd knows that it was written, not what."""
    x.detach().copy_(x.detach().clone())
