"""The tensors that a launch is given: where they lie in this process, and the addresses that the kernel gets."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

Role = Literal["in", "out", "inout"]
"""The use that a kernel makes of a tensor: it reads it, writes all of it, or both (see `BoundTensor`)."""

_ROOM = 1 << 48  # bytes between the address ranges of two tensors
PLACES = (1 << 57) // _ROOM - 2
"""Numbers of tensors, from 0 on, whose addresses fit the 57 bits that a tensor map has for one."""
NEAR = -(_ROOM // 4)
"""Bytes from the address that a kernel gets for a folded tensor to the place of its elements, which is lower."""


@dataclass(frozen=True)
class Fold:
    """The address and strides that a kernel gets for a tensor of which only a part exists, or which is stored more
    densely.

    `address` is that of the first element, `strides` are the bytes of a step along each mode. Along the mode with the
    number `mode`, only the `coordinates` are there, in rising order, the mode's last one among them. Those of the range
    `elsewhere`, if there is one, repeat periodically in place of all others.
    """

    address: int
    strides: tuple[int, ...]
    mode: int
    coordinates: NDArray[np.int64]
    elsewhere: range | None = None


@dataclass(frozen=True)
class BoundTensor:
    """A tensor that a kernel may touch: memory of this process, and the address by which the kernel knows it.

    `pointer` is where the elements lie in this process; `shape` and `strides` (in elements of `itemsize` bytes) say
    which bytes they are. `address` is what the kernel's parameters hold, by default `pointer`. An `in` tensor must not
    be written, an `out` tensor must not be read before it is written and must be written whole. `unwritten`, for a
    tensor that several launches share, marks those of its `span` bytes that none of them has written yet, which must
    not be read; a launch takes away what it writes. `written` marks those that a launch has written; gaps may be marked
    too. `spare` says that what lies between its elements is nobody's, as in memory that host code has made for the
    call. `owner` is kept alive. `fold`, if there is one, replaces `address` and `strides` for the kernel. `home` is the
    tensor that this is a copy of (`far_tensors`), if it is one. Raises ValueError for another role.
    """

    name: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    role: Role = "inout"
    address: int = -1
    unwritten: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)
    written: NDArray[np.bool_] | None = field(default=None, repr=False, compare=False)
    fold: Fold | None = None
    spare: bool = False
    home: BoundTensor | None = field(default=None, repr=False, compare=False)
    owner: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"{self.name}: the role is one of {', '.join(get_args(Role))}, not {self.role!r}")

    @property
    def at(self) -> int:
        """The byte address by which the kernel knows the first element."""
        return self.pointer if self.address < 0 else self.address

    @property
    def told(self) -> int:
        """The byte address of the first element, as the kernel gets it."""
        return self.at if self.fold is None else self.fold.address

    @property
    def told_last(self) -> int:
        """The byte address of the last element, as the kernel gets it; of no elements that of the first."""
        if self.fold is None:
            return self.told + max(0, self.span - self.itemsize)
        extents = list(self.shape)
        extents[self.fold.mode] = int(self.fold.coordinates[-1]) + 1
        return self.told + sum(max(0, n - 1) * step for n, step in zip(extents, self.fold.strides, strict=True))

    @property
    def span(self) -> int:
        """How many bytes there are from the first byte of the first element to the last byte of the last one."""
        if 0 in self.shape:
            return 0
        return (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))) * self.itemsize

    @property
    def elements(self) -> int:
        """How many elements there are."""
        return prod(self.shape)

    def bytes(self) -> NDArray[np.uint8]:
        """The memory itself as an array of `span` bytes, which shares it; gaps between the elements are in it too."""
        if not self.span:
            return np.zeros(0, np.uint8)
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.span).from_address(self.pointer))


def bind(tensor: Any, name: str, role: Role = "inout", address: int = -1) -> BoundTensor:
    """Binds a torch tensor in the CPU's memory, or a numpy array, for a launch.

    `name` is what faults call it; `role` and `address` are as for `BoundTensor`. Raises TypeError for anything else,
    and ValueError for negative strides, for strides that are not whole elements, for a tensor without memory or in
    another device's memory, and for a read-only array unless the role is `in`.
    """
    if isinstance(tensor, np.ndarray):
        if not tensor.flags.writeable and role != "in":
            raise ValueError(f"{name}: a read-only array that the kernel may write ({role})")
        size = tensor.itemsize
        if any(s % size for s in tensor.strides):
            raise ValueError(f"{name}: strides {tensor.strides} bytes are not whole elements of {size} bytes")
        strides, pointer = tuple(s // size for s in tensor.strides), int(tensor.ctypes.data)
    elif hasattr(tensor, "data_ptr") and hasattr(tensor, "element_size"):
        if tensor.is_sparse or tensor.untyped_storage().device.type != "cpu":
            raise ValueError(f"{name}: expected a tensor in the CPU's memory")
        size, strides, pointer = int(tensor.element_size()), tuple(tensor.stride()), int(tensor.data_ptr())
    else:
        raise TypeError(f"{name}: expected a torch tensor or a numpy array, got {type(tensor).__name__}")
    if any(s < 0 for s in strides):
        raise ValueError(f"{name}: expected strides that are not negative, got {strides}")
    return BoundTensor(name, pointer, tuple(tensor.shape), strides, size, role, address, owner=tensor)


def place(pointer: int, number: int) -> int:
    """The address to tell a kernel for the tensor with that number, which really lies at `pointer`.

    Each number has a range of addresses of its own, far from all others, so that an address that has left its tensor
    never looks like one of another tensor. The alignment of `pointer` is kept up to a megabyte.
    """
    return (number + 1) * _ROOM + _ROOM // 2 + pointer % (1 << 20)


def unfolded(tensor: BoundTensor, told: NDArray[np.int64]) -> NDArray[np.int64]:
    """The places of bytes that a kernel addresses by a tensor's `fold`; other addresses unchanged.

    So are those of elements that are not there.
    """
    fold = tensor.fold
    assert fold is not None
    indices, left = _indices(tensor, told)
    there, near = told >= fold.address, np.zeros_like(left)
    for mode, index in indices.items():
        if mode == fold.mode:
            found, known = _found(fold, index)
            if fold.elsewhere is not None:
                like = fold.elsewhere.start + (index - fold.elsewhere.start) % len(fold.elsewhere)
                others, alike = _found(fold, like)
                alike &= index <= fold.coordinates[-1]
                found, known = np.where(known, found, others), known | alike
            there &= known
            index = found
        there &= index < tensor.shape[mode]
        near += index * (tensor.strides[mode] * tensor.itemsize)
    return np.where(there & (left < tensor.itemsize), tensor.at + near + left, told)


def coordinates_of(tensor: BoundTensor, told: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """Along the mode of a tensor's `fold`, the coordinates that a kernel addresses; and whether they are in bounds."""
    fold = tensor.fold
    assert fold is not None
    indices, there = _indices(tensor, told)[0], told >= fold.address
    for mode, index in indices.items():
        there &= index <= (fold.coordinates[-1] if mode == fold.mode else tensor.shape[mode] - 1)
    return indices[fold.mode], there


def _found(fold: Fold, index: NDArray[np.int64]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
    """The places of indices among a fold's coordinates, and whether they are there at all."""
    found = np.minimum(np.searchsorted(fold.coordinates, index), len(fold.coordinates) - 1)
    return found, fold.coordinates[found] == index


def _indices(tensor: BoundTensor, told: NDArray[np.int64]) -> tuple[dict[int, NDArray[np.int64]], NDArray[np.int64]]:
    """Decodes addresses as a tensor's `fold` tells them to a kernel: the index along each mode, and the bytes left."""
    fold = tensor.fold
    assert fold is not None
    extents, left = list(tensor.shape), told - fold.address
    extents[fold.mode] = int(fold.coordinates[-1]) + 1
    indices = {}
    for mode in sorted(range(len(extents)), key=lambda mode: (-fold.strides[mode], -extents[mode])):
        if tensor.shape[mode] != 1 or mode == fold.mode:
            indices[mode], left = np.divmod(left, fold.strides[mode])
    return indices, left


def elements_of(flat: NDArray[Any], tensor: BoundTensor) -> NDArray[Any]:
    """A view of those entries of a flat array, one for each byte, that are of elements of the tensor.

    Its shape is (*shape, itemsize).
    """
    strides = (*(s * tensor.itemsize for s in tensor.strides), 1)
    return np.lib.stride_tricks.as_strided(flat, (*tensor.shape, tensor.itemsize), strides)


def whole_elements_of(flat: NDArray[np.uint8], tensor: BoundTensor) -> NDArray[Any]:
    """The same with a whole number for the bytes of each element, which numpy copies faster. Its shape is `shape`."""
    strides = tuple(s * tensor.itemsize for s in tensor.strides)
    return np.ndarray(tensor.shape, f"u{tensor.itemsize}", flat, 0, strides)


def unwritten_elements(tensor: BoundTensor, missing: NDArray[np.bool_]) -> tuple[int, int]:
    """How many elements have a byte for which `missing` is True, and the byte offset of the first of them.

    `missing` has an entry for each of the tensor's `span` bytes.
    """
    if not tensor.span:
        return 0, 0
    each = elements_of(missing, tensor)
    elements = each[..., 0].copy()
    for byte in range(1, tensor.itemsize):
        elements |= each[..., byte]
    count = int(elements.sum())
    if not count:
        return 0, 0
    index = np.unravel_index(int(elements.argmax()), tensor.shape)
    return count, sum(int(i) * s for i, s in zip(index, tensor.strides, strict=True)) * tensor.itemsize


def element_at(tensor: BoundTensor, address: int) -> tuple[int, ...] | None:
    """The index of the element that holds the byte at `address`, or None if the strides do not tell.

    For an address outside of the tensor the index lies outside of the shape.
    """
    strides = tensor.strides
    left = (address - tensor.at) // tensor.itemsize
    index = [0] * len(strides)
    order = sorted((i for i, n in enumerate(tensor.shape) if n > 1), key=lambda i: -strides[i])
    for position, i in enumerate(order):
        if strides[i] <= 0:
            return None
        index[i] = left // strides[i]
        # what is outside only because of an outer mode is said of the outermost
        if position == 0 or left >= 0:
            left -= index[i] * strides[i]
    return tuple(index) if left == 0 else None
