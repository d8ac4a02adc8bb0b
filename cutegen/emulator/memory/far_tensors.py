"""Tensors whose elements are few in all the memory that they span, such as rows that lie gigabytes apart.

The emulator keeps several bytes for each byte of a tensor. So a kernel works on a copy of such a tensor whose elements
lie near to each other, and gets the real strides (`Fold`). Where there is a gap between elements, the copy has one too,
and each address is aligned as the one that the kernel gets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cutegen.emulator.memory.bound_tensors import NEAR, BoundTensor, Fold, elements_of

_LARGE, _SPARSE = (
    1 << 26,
    8,
)  # bytes from which on it is worth it, and how many of them there are for each of an element
_STEP = 512  # bytes modulo which a stride of the copy is the real one


def is_sparse(tensor: BoundTensor) -> bool:
    """Whether a tensor spans far more memory than its elements have, and each address is of one element at most."""
    if tensor.span < _LARGE or tensor.span < _SPARSE * tensor.elements * tensor.itemsize:
        return False
    return _near_strides(tensor.shape, tensor.strides, tensor.itemsize) is not None


def brought_near(tensor: BoundTensor, strides: Sequence[int]) -> BoundTensor | None:
    """A copy of a tensor whose elements lie near to each other, for a kernel that gets these strides, in elements.

    Its `home` is the tensor, to which `settle` writes it back. None where an address may be of several elements.
    """
    near = _near_strides(tensor.shape, strides, tensor.itemsize)
    if near is None:
        return None
    mode = max(range(len(strides)), key=lambda m: (tensor.shape[m] > 1, strides[m]))
    told = tuple(stride * tensor.itemsize for stride in strides)
    fold = Fold(tensor.at, told, mode, np.arange(tensor.shape[mode]))
    made = replace(tensor, strides=near, address=tensor.at + NEAR, fold=fold, home=tensor, unwritten=None, written=None)
    memory = np.zeros(made.span, np.uint8)
    made = replace(made, pointer=int(memory.ctypes.data), owner=(memory, tensor.owner))
    elements_of(memory, made)[...] = elements_of(tensor.bytes(), tensor)
    return made


def as_told(tensor: BoundTensor) -> BoundTensor | None:
    """A tensor with a `fold` as the kernel sees it, for messages only; None where the kernel has a part of it."""
    fold = tensor.fold
    if fold is None or fold.elsewhere is not None or len(fold.coordinates) != fold.coordinates[-1] + 1:
        return None
    strides = tuple(step // tensor.itemsize for step in fold.strides)
    return replace(tensor, strides=strides, address=fold.address, fold=None)


def settle(tensor: BoundTensor) -> None:
    """Writes the elements of a copy to where they come from."""
    if tensor.home is not None and tensor.role != "in":
        elements_of(tensor.home.bytes(), tensor.home)[...] = elements_of(tensor.bytes(), tensor)


def _near_strides(shape: Sequence[int], strides: Sequence[int], itemsize: int) -> tuple[int, ...] | None:
    """Strides of a copy, in elements; None where elements overlap, or the steps along two modes do not nest."""
    step = max(1, _STEP // itemsize)
    near, far_extent, extent = [0] * len(shape), 1, 1
    for mode in sorted((m for m, n in enumerate(shape) if n > 1), key=lambda m: strides[m]):
        stride = strides[mode]
        if stride < far_extent:
            return None
        near[mode] = extent
        if stride > far_extent:  # with a gap of one element at least
            near[mode] = extent + 1 + (stride - extent - 1) % step
        extent = near[mode] * (shape[mode] - 1) + extent
        far_extent = stride * (shape[mode] - 1) + far_extent
    return tuple(near)
