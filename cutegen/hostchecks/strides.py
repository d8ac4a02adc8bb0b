"""Views of tensors with other strides: one that is odd, far, or what torch gives a mode of size 1."""

from __future__ import annotations

from typing import TYPE_CHECKING

from cutegen.language.model import Tensor
from cutegen.verification.cases import align_unit

if TYPE_CHECKING:
    import torch


def with_stride(tensor: Tensor, view: torch.Tensor, mode: str, stride: int) -> torch.Tensor:
    """The tensor with another stride along a mode."""
    strides = [stride if m == mode else s for m, s in zip(tensor.shape, view.stride(), strict=True)]
    return view.as_strided(view.shape, strides)


def odd_along(tensor: Tensor, view: torch.Tensor, mode: str) -> torch.Tensor:
    """The tensor with a stride along a mode that the kernel would not take."""
    return with_stride(tensor, view, mode, 3 if mode == tensor.major else int(align_unit(tensor) > 1))


def far_along(tensor: Tensor, view: torch.Tensor, mode: str) -> torch.Tensor:
    """The tensor with a stride along a mode that no 32 bits count, and that no alignment divides."""
    return with_stride(tensor, view, mode, (1 << 32) + 3)


def turned(tensor: Tensor, view: torch.Tensor) -> tuple[int, ...] | None:
    """Strides with which the modes that may have any follow each other the other way round; None where it has but one
    of these.
    """
    fixed = {tensor.contiguous, *tensor.dense}
    own = [i for i, mode in enumerate(tensor.shape) if mode not in fixed and view.shape[i] > 1]
    if len(own) < 2 or not view.numel():
        return None
    strides, step = list(view.stride()), min(view.stride(i) for i in own)
    for i in sorted(own, key=view.stride, reverse=True):
        strides[i], step = step, step * view.shape[i]
    return tuple(strides)


def odd_along_all(tensor: Tensor, view: torch.Tensor, mode: str) -> torch.Tensor:
    """The tensor with such strides along all modes."""
    for one in tensor.shape:
        view = odd_along(tensor, view, one)
    return view


def as_torch_makes_it(tensor: Tensor, view: torch.Tensor, mode: str) -> torch.Tensor:
    """A tensor without elements, with the strides that torch gives it."""
    import torch

    order = sorted(range(view.dim()), key=lambda i: tensor.shape[i] == tensor.major)
    fresh = torch.empty([view.shape[i] for i in order], dtype=view.dtype, device=view.device)
    return fresh.permute([order.index(i) for i in range(view.dim())])
