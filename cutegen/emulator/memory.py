"""Global memory: one arena for each tensor, with what is known about each of its bytes.

A tensor owns its elements and nothing else: gaps between rows are as far out of bounds as anything beyond its ends.
Its arena is a copy, so that no access of a kernel ever reaches memory of this process, and its address range is
`place`d far away from all others, so that an address that has left its tensor never looks like one of another.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.flights import Reading
from cutegen.emulator.ordering import Touched

Role = Literal["in", "out", "inout"]
GAP, UNWRITTEN = 1, 2  # of a byte of an arena
_ROOM = 1 << 40  # bytes between the address ranges of two tensors
_LINE = 256  # an arena starts at a multiple of this, as the tensor's own address modulo it is kept
_BY_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}  # complex: just 16 bytes


@dataclass(frozen=True)
class BoundTensor:
    """A tensor that a kernel may touch: memory of this process, and the address by which the kernel knows it.

    `pointer` is where the elements lie in this process; `shape` and `strides` (in elements of `itemsize` bytes) say
    which bytes they are. `address` is what the kernel's parameters hold, by default `pointer`. An `in` tensor must not
    be written, an `out` tensor must not be read before it is written and must be written whole. `owner` is kept alive.
    Raises ValueError for another role.
    """

    name: str
    pointer: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    itemsize: int
    role: Role = "inout"
    address: int = -1
    owner: object = field(default=None, repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.role not in get_args(Role):
            raise ValueError(f"{self.name}: the role is one of {', '.join(get_args(Role))}, not {self.role!r}")

    @property
    def at(self) -> int:
        return self.pointer if self.address < 0 else self.address

    @property
    def span(self) -> int:
        """Bytes from the first to the end of the last element."""
        if 0 in self.shape:
            return 0
        return (1 + sum((n - 1) * s for n, s in zip(self.shape, self.strides, strict=True))) * self.itemsize

    @property
    def elements(self) -> int:
        return prod(self.shape)

    def bytes(self) -> NDArray[np.uint8]:
        """The memory itself, from the first to the end of the last element, gaps included."""
        if not self.span:
            return np.zeros(0, np.uint8)
        return np.ctypeslib.as_array((ctypes.c_uint8 * self.span).from_address(self.pointer))


def bind(tensor: Any, name: str, role: Role = "inout", address: int = -1) -> BoundTensor:
    """A torch tensor in the CPU's memory, or a numpy array, as `BoundTensor`. Raises TypeError for anything else,
    ValueError for negative strides, for a tensor without memory or elsewhere, and for a read-only array unless the role
    is `in`."""
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
    return BoundTensor(name, pointer, tuple(tensor.shape), strides, size, role, address, tensor)


def place(pointer: int, number: int) -> int:
    """The address that a kernel is told for tensor `number` at `pointer`: its own range of addresses, the same
    alignment up to a megabyte."""
    return (number + 1) * _ROOM + _ROOM // 2 + pointer % (1 << 20)


class Arena:
    """The bytes of one tensor while kernels run.

    `start` is the address of `bytes[0]`; the tensor's first byte is at `offset`. `flags` is None if every byte may be
    read, else GAP and UNWRITTEN for each. `touched` knows who wrote and read each `unit` bytes; None for an input.
    `reading` knows what asynchronous copies still read, `constant` what ld.global.nc has read, both once there is any.
    """

    def __init__(self, tensor: BoundTensor, unit: int) -> None:
        self.tensor = tensor
        self.name, self.role = tensor.name, tensor.role
        self.offset = tensor.at % _LINE
        self.start = tensor.at - self.offset
        self.span = tensor.span
        size = -(-(self.offset + self.span) // _LINE) * _LINE if self.span else 0
        self.bytes: NDArray[np.uint8] = np.zeros(size, np.uint8)
        self.low, self.high = tensor.at, tensor.at + self.span
        if self.span:
            self.bytes[self.offset : self.offset + self.span] = tensor.bytes()
        owned = self._owned()
        flags = np.where(owned, UNWRITTEN if tensor.role == "out" else 0, GAP).astype(np.uint8)
        inside = flags[self.offset : self.offset + self.span]
        self.flags: NDArray[np.uint8] | None = flags if inside.any() else None
        self.unit = int(np.gcd(unit, np.gcd(tensor.itemsize, _LINE)))
        self.touched = None if tensor.role == "in" else Touched(size // self.unit)
        self.reading: Reading | None = None
        self.constant: NDArray[np.bool_] | None = None

    def _owned(self) -> NDArray[np.bool_]:
        owned = np.zeros(len(self.bytes), np.bool_)
        if self.span:
            owned_view = _elements(owned[self.offset :], self.tensor)
            owned_view[...] = True
        return owned

    def view(self, size: int) -> NDArray[Any]:
        """The bytes as an array of `size`-byte entries."""
        return self.bytes.view(_BY_SIZE[size])

    def copy_back(self) -> None:
        """Writes the elements to where the tensor really is; gaps stay as they are."""
        if self.role == "in" or not self.span:
            return
        _elements(self.tensor.bytes(), self.tensor)[...] = _elements(self.bytes[self.offset :], self.tensor)

    def unwritten(self) -> tuple[int, int]:
        """How many elements nothing has written, and the first one's byte offset from the tensor's address."""
        if self.touched is None or not self.span:
            return 0, 0
        missing = np.repeat(~self.touched.written(), self.unit)
        elements = _elements(missing[self.offset :], self.tensor).any(axis=-1)
        count = int(elements.sum())
        if not count:
            return 0, 0
        index = np.unravel_index(int(elements.argmax()), self.tensor.shape)
        return count, sum(int(i) * s for i, s in zip(index, self.tensor.strides, strict=True)) * self.tensor.itemsize

    def element(self, address: int) -> tuple[int, ...] | None:
        """The index whose element holds `address`; may lie outside of the shape. None if strides do not tell."""
        strides = self.tensor.strides
        left = (address - self.tensor.at) // self.tensor.itemsize
        index = [0] * len(strides)
        order = sorted((i for i, n in enumerate(self.tensor.shape) if n > 1), key=lambda i: -strides[i])
        for position, i in enumerate(order):
            if strides[i] <= 0:
                return None
            index[i] = left // strides[i]
            # what is outside only because of an outer mode is said of the outermost
            if position == 0 or left >= 0:
                left -= index[i] * strides[i]
        return tuple(index) if left == 0 else None

    def describe(self, address: int, size: int) -> str:
        """Where an access of `size` bytes lies relative to the tensor."""
        if self.span == 0:
            return f"{self.name} has no elements"
        if address < self.low:
            return f"{self.low - address} bytes before the start of {self.name}"
        if address + size > self.high:
            past = address + size - self.high
            return f"{past} bytes past the end of {self.name}, which has {self.span} bytes"
        return f"in a gap between the rows of {self.name}, {address - self.low} bytes from its start"


def _elements(flat: NDArray[Any], tensor: BoundTensor) -> NDArray[Any]:
    """The bytes of a flat array that are the tensor's elements, shaped (*shape, itemsize)."""
    strides = (*(s * tensor.itemsize for s in tensor.strides), 1)
    return np.lib.stride_tricks.as_strided(flat, (*tensor.shape, tensor.itemsize), strides)


class GlobalMemory:
    """All arenas, found by address."""

    def __init__(self, tensors: Sequence[BoundTensor], unit: int) -> None:
        self.arenas = sorted((Arena(t, unit) for t in tensors), key=lambda a: a.start)

    def around(self, low: int, high: int) -> Arena | None:
        """The arena that holds all bytes of [low, high), or None."""
        for arena in self.arenas:
            if arena.low <= low and high <= arena.high:
                return arena
        return None

    def nearest(self, address: int) -> Arena | None:
        """The arena whose tensor is nearest to an address that none holds."""
        return min(
            self.arenas,
            key=lambda a: 0 if a.low <= address < a.high else min(abs(a.low - address), abs(a.high - address)),
            default=None,
        )
