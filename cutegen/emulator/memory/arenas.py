"""Global memory: one arena for each tensor, with what is known about each of its bytes.

A tensor owns its elements and nothing else: gaps between rows are as far out of bounds as anything beyond its ends.
An arena is a copy of the tensor, so that no access of a kernel ever reaches the memory of this process.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.global_races import TouchRecord
from cutegen.emulator.checks.journal import Journal
from cutegen.emulator.checks.reads_in_flight import PendingReads
from cutegen.emulator.memory.bound_tensors import (
    NEAR,
    BoundTensor,
    element_at,
    unfolded,
    unwritten_elements,
    whole_elements_of,
)

GAP, UNWRITTEN = 1, 2  # flags of a byte: no element has it; it is uninitialised
_LINE = 256  # an arena starts at a multiple of this, as the tensor's own address modulo it is kept
_PART = 1 << 17  # bytes
_BY_SIZE = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64, 16: np.complex128}  # complex: just 16 bytes


class Arena:
    """The bytes of one tensor while a kernel runs, and what is known about them.

    `start` is the address of `bytes[0]`, and `offset` the index of the tensor's first byte, whose address is `low`;
    `high` is the address after its last byte. `flags` has GAP and UNWRITTEN for each byte, or is None if every byte may
    be read.

    The tensor is divided into units, of `unit` bytes if the kernel makes no smaller access. `touched` says who wrote
    and read each unit, and is None for an input. `reading` says which units asynchronous copies still read, and
    `constant` which ld.global.nc has read; both are None until there is such a read.
    """

    def __init__(self, tensor: BoundTensor, unit: int, traced: bool = False) -> None:
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
        self.flags = self._flags()
        self.unit = int(np.gcd(unit, np.gcd(tensor.itemsize, _LINE)))
        self.touched = None if tensor.role == "in" else TouchRecord(size // self.unit, traced)
        self.reading: PendingReads | None = None
        self.constant: NDArray[np.bool_] | None = None
        self._addresses: NDArray[np.int64] | None = None

    def read_on(self) -> PendingReads:
        """The units that asynchronous copies still read, which are kept from now on."""
        if self.reading is None:
            self.reading = PendingReads(len(self.bytes) // self.unit)
            if self._addresses is not None:
                self.addresses()
        return self.reading

    def read_as_constant(self) -> NDArray[np.bool_]:
        """The units that ld.global.nc has read, which are kept from now on."""
        if self.constant is None:
            self.constant = np.zeros(len(self.bytes) // self.unit, np.bool_)
            if self._addresses is not None:
                self.addresses()
        return self.constant

    def addresses(self) -> NDArray[np.int64]:
        """The C core's numbers for the arena: bounds, and addresses of records, 0 for none (`global_accesses.h`)."""
        if self._addresses is None:
            self._addresses = np.zeros(9, np.int64)
        kept: list[NDArray[Any] | None] = [self.bytes, self.flags, self.constant]
        data, flags, constant = (0 if one is None else int(one.ctypes.data) for one in kept)
        touched = 0 if self.touched is None else int(self.touched.addresses().ctypes.data)
        reading = 0 if self.reading is None else int(self.reading.count.ctypes.data)
        self._addresses[:] = self.low, self.high, self.start, data, flags, self.unit, touched, constant, reading
        return self._addresses

    def _dense(self) -> bool:
        """Whether the tensor has no gaps, as is seen from its strides."""
        extent = 1
        for stride, size in sorted(
            (s, n) for s, n in zip(self.tensor.strides, self.tensor.shape, strict=True) if n > 1
        ):
            if stride != extent:
                return False
            extent *= size
        return True

    def _flags(self) -> NDArray[np.uint8] | None:
        """The flags of each byte, or None if every byte of the tensor may be read."""
        dense, each = self._dense(), UNWRITTEN if self.role == "out" else 0
        if dense and not each and self.tensor.unwritten is None:
            return None
        flags = np.full(len(self.bytes), GAP, np.uint8)
        inside = flags[self.offset : self.offset + self.span]
        if dense:
            inside[:] = each
        elif self.span:
            whole = int.from_bytes(bytes([each]) * self.tensor.itemsize, "little")
            whole_elements_of(flags[self.offset :], self.tensor)[...] = whole
        if self.tensor.unwritten is not None:
            unwritten = self.tensor.unwritten.view(np.uint8)
            for part in _parts(self.span):
                inside[part] |= unwritten[part] * np.uint8(UNWRITTEN)
        return flags if (dense and each and self.span) or has_any(inside) else None

    def view(self, size: int) -> NDArray[Any]:
        """The bytes as an array whose entries have `size` bytes each: 1, 2, 4, 8 or 16."""
        return self.bytes.view(_BY_SIZE[size])

    def copy_back(self) -> None:
        """Writes the elements back to the tensor in this process, unless it is an input. Gaps stay as they are.

        Those that were written are no longer among its `unwritten` bytes, and are among those that it has `written`.
        """
        if self.role == "in" or not self.span:
            return
        if self.tensor.written is not None and self.touched is not None:
            units = np.repeat(self.touched.written(), self.unit)
            self.tensor.written[:] |= units[self.offset : self.offset + self.span]
        if self.tensor.unwritten is not None and self.flags is not None:
            flags = self.flags[self.offset : self.offset + self.span]
            for part in _parts(self.span):
                self.tensor.unwritten[part] &= (flags[part] & UNWRITTEN) != 0
        whole_elements_of(self.tensor.bytes(), self.tensor)[...] = whole_elements_of(
            self.bytes[self.offset :], self.tensor
        )

    def unwritten(self) -> tuple[int, int]:
        """The number of uninitialised elements, and the byte offset of the first of them in the tensor."""
        if self.touched is None or not self.span:
            return 0, 0
        written = self.touched.written()
        if written[self.offset // self.unit : -(-(self.offset + self.span) // self.unit)].all():
            return 0, 0
        missing = np.repeat(~written, self.unit)
        return unwritten_elements(self.tensor, missing[self.offset : self.offset + self.span])

    def element(self, address: int) -> tuple[int, ...] | None:
        """The index of the element that holds the byte at `address`, or None if the strides do not tell."""
        return element_at(self.tensor, address)

    def describe(self, address: int, size: int) -> str:
        """Says where an access of `size` bytes that is out of bounds lies relative to the tensor."""
        return describe(self.tensor, address, size)


def _parts(size: int) -> Iterator[slice]:
    """Parts of an array of that size, so small that what is computed of one stays in the caches."""
    return (slice(start, start + _PART) for start in range(0, size, _PART))


def describe(tensor: BoundTensor, address: int, size: int) -> str:
    """Says where an access of `size` bytes that is out of bounds lies relative to a tensor."""
    if tensor.span == 0:
        return f"{tensor.name} has no elements"
    if address < tensor.at:
        return f"{tensor.at - address} bytes before the start of {tensor.name}"
    past = address + size - tensor.at - tensor.span
    if past > 0:
        return f"{past} bytes past the end of {tensor.name}, which has {tensor.span} bytes"
    return f"in a gap between the rows of {tensor.name}, {address - tensor.at} bytes from its start"


class GlobalMemory:
    """The arenas of all tensors of a launch, in the order of their addresses; `unit` is the least access in bytes.

    Where it is `traced`, it keeps the PTX line of the last access to each unit. A `journal` notes all touches. `folds`
    are the tensors with a `fold`.
    """

    def __init__(
        self, tensors: Sequence[BoundTensor], unit: int, traced: bool = False, journal: Journal | None = None
    ) -> None:
        self.journal, self.traced = journal, traced
        self.arenas = sorted((Arena(t, unit, traced) for t in tensors), key=lambda a: a.start)
        self.folds = [tensor for tensor in tensors if tensor.fold is not None]
        self.alike_elsewhere = any(tensor.fold is not None and tensor.fold.elsewhere for tensor in tensors)
        # What finds the addresses of all accesses, where somebody wants to know them
        self.watched: list[Callable[[], Array]] | None = None

    def folded(self, address: Array, offset: int) -> tuple[Array, int]:
        """Addresses and an offset from them, as they are where the elements of tensors with a `fold` lie.

        What such a tensor does not have stays where it is, which is out of bounds.
        """
        if not self.folds:
            return address, offset
        result = address.astype(np.int64) + offset
        if self.watched is not None:
            self.watched.append(partial(np.asarray, result))
        for tensor in self.folds:
            result = unfolded(tensor, result)
        return result, 0

    def told_of(self, address: int) -> BoundTensor | None:
        """The tensor with a `fold` whose virtual addresses include this one, mapped or not."""
        reach = abs(NEAR)
        return next((t for t in self.folds if t.told - reach // 2 <= address < t.told + reach), None)

    def around(self, low: int, high: int) -> Arena | None:
        """The arena of the tensor that has all addresses from `low` to before `high`, or None."""
        for arena in self.arenas:
            if arena.low <= low and high <= arena.high:
                return arena
        return None

    def nearest(self, address: int) -> Arena | None:
        """The arena whose tensor has the address, or else is nearest to it; None if there are no tensors."""
        return min(
            self.arenas,
            key=lambda a: 0 if a.low <= address < a.high else min(abs(a.low - address), abs(a.high - address)),
            default=None,
        )
