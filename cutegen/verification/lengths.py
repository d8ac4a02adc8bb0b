"""Lengths of a mode to run a kernel on, and NaN in all that does not exist: nothing of it may be part of a result."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.language.modes import Lengths
from cutegen.language.tensor import Tensor

if TYPE_CHECKING:
    import torch

BEYOND = 1 << 20  # of a length that is larger than the size


def lengths_for(size: int, count: int, seed: int) -> torch.Tensor:
    """Lengths of a mode of this size for so many places: i32, by turns of the seed all of it, all but one, half, a
    third and one more, one, more than there is, none, and a number below 0.
    """
    import torch

    every = (size, size - 1, size // 2, size // 3 + 1, 1, size + BEYOND, 0, -3)
    return torch.tensor([every[(seed + place) % len(every)] for place in range(count)], dtype=torch.int32)


def with_nothing_beyond(tensor: Tensor, lengths: Lengths, data: torch.Tensor, used: torch.Tensor) -> torch.Tensor:
    """The data of a tensor with NaN, or the largest integer, in the place of elements that do not exist. A tensor
    without the mode that lengths are for has all.
    """
    import torch

    if lengths.of not in tensor.shape:
        return data
    places = torch.arange(data.shape[tensor.shape.index(lengths.mode)])
    shape = [-1 if mode == lengths.mode else 1 for mode in tensor.shape]
    ends = [-1 if mode == lengths.of else 1 for mode in tensor.shape]
    missing = places.view(shape) >= used.view(ends)
    other = float("nan") if tensor.dtype.is_float else tensor.dtype.range[1]
    return torch.where(missing, torch.tensor(other, dtype=data.dtype), data)
