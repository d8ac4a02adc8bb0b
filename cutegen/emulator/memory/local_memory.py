"""Local memory: what each thread has for itself, where the compiler keeps arrays that it does not hold in registers.

The memory is an array of bytes of shape (bytes, threads of a block, blocks), with another one like it for the poison of
their bits. Nobody but the thread itself reaches its bytes, so there are no races. A fault names bytes by their place in
all of the thread's variables.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.origins import Origins
from cutegen.emulator.checks.poison import Poison, poison_whole
from cutegen.emulator.lanes import Mask, first_lane, spread, value_at
from cutegen.emulator.memory.placement import LOCAL_BASE
from cutegen.emulator.memory.units import join_units, split_units
from cutegen.emulator.ptx.model import Instruction


class LocalMemory:
    """The local memory of the lanes of `shape` = (threads, blocks): `size` bytes for each, all of them poison at first.

    `origins`, if given, record where poison comes from.
    """

    def __init__(self, size: int, shape: tuple[int, int]) -> None:
        self.size, self.shape = size, shape
        self.origins: Origins | None = None
        self.data: NDArray[np.uint8] = np.zeros((size, *shape), np.uint8)
        self.poison: NDArray[np.uint8] = np.full((size, *shape), 0xFF, np.uint8)
        self._marks = np.zeros((0, *shape), np.int64)

    def trace(self, origins: Origins) -> None:
        """Keeps from now on where the poison of each byte comes from."""
        self.origins, self._marks = origins, np.zeros((self.size, *self.shape), np.int64)

    def load(
        self, address: Array, offset: int, size: int, count: int, mask: Mask, instruction: Instruction
    ) -> tuple[list[Array], list[Poison]]:
        """Loads `count` values of `size` bytes from `address` + `offset`, in the lanes of the mask.

        Returns the values, and the poison of each. Raises Stop for an access that is out of bounds or misaligned.
        """
        rows = self._rows(address, offset, size * count, mask, instruction)
        values: list[Array] = []
        poison: list[Poison] = []
        for first in range(0, size * count, size):
            values.append(join_units([self._take(self.data, rows + first + i) for i in range(size)]))
            bits = join_units([self._take(self.poison, rows + first + i) for i in range(size)])
            bits = bits if mask is None else np.where(mask, bits, bits.dtype.type(0))
            poison.append(bits if has_any(bits) else None)
            if self.origins is not None and poison[-1] is not None:
                self._tell(self.origins, rows + first, size, instruction)
        return values, poison

    def store(
        self,
        address: Array,
        offset: int,
        size: int,
        values: Sequence[Array],
        poison: Sequence[Poison],
        mask: Mask,
        instruction: Instruction,
    ) -> None:
        """Stores values of `size` bytes, with the poison of each, to `address` + `offset`, in the lanes of the mask.

        Raises Stop for an access that is out of bounds or misaligned.
        """
        rows = self._rows(address, offset, size * len(values), mask, instruction)
        lanes = np.nonzero(np.broadcast_to(True if mask is None else mask, self.shape))
        for number, (value, bad) in enumerate(zip(values, poison, strict=True)):
            lost = np.zeros((), np.uint8) if bad is None else bad
            if lost.dtype == np.bool_:
                lost = poison_whole(lost, 8 * size)
            parts = zip(split_units(value, size, np.uint8), split_units(lost, size, np.uint8), strict=True)
            for i, (part, mark) in enumerate(parts):
                places = (spread(rows, self.shape)[lanes] + number * size + i, *lanes)
                self.data[places] = spread(part, self.shape)[lanes]
                self.poison[places] = spread(mark, self.shape)[lanes]
                if self.origins is not None:
                    self._marks[places] = spread(self.origins.stored, self.shape)[lanes]

    def _rows(self, address: Array, offset: int, size: int, mask: Mask, instruction: Instruction) -> Array:
        """The first byte of an access of `size` bytes in each lane; in those outside of the mask it is 0."""
        rows = np.asarray(address).astype(np.int64) + (offset - LOCAL_BASE)
        rows = rows if mask is None else np.where(mask, rows, 0)
        rows = rows.reshape((1,) * (2 - rows.ndim) + rows.shape)
        what = f"{instruction.opcode} of {size} bytes of local memory at byte"
        if has_any(bad := (rows < 0) | (rows + size > self.size)):
            lane = first_lane(bad, self.shape)
            text = f"{what} {value_at(rows, lane, self.shape)}; the thread has {self.size} bytes"
            raise Stop("out-of-bounds", text, instruction, lane)
        if has_any(bad := rows % size != 0):
            lane = first_lane(bad, self.shape)
            text = f"{what} {value_at(rows, lane, self.shape)}, not a multiple of {size}"
            raise Stop("misaligned", text, instruction, lane)
        return rows

    def _take(self, memory: Array, rows: Array) -> Array:
        """One byte of each lane."""
        if rows.size == 1:
            byte: Array = memory[int(rows[0, 0])]
            return byte
        return np.asarray(np.take_along_axis(memory, spread(rows, self.shape)[None], axis=0)[0])

    def _tell(self, origins: Origins, rows: Array, size: int, instruction: Instruction) -> None:
        """Notes where the poison comes from of the `size` bytes from the given ones on."""
        poison = [self._take(self.poison, rows + i) != 0 for i in range(size)]

        def describe(lane: tuple[int, int]) -> str:
            bad = [bool(value_at(one, lane, self.shape)) for one in poison]
            return f"byte {value_at(rows, lane, self.shape) + bad.index(True)} of local memory, never written"

        unwritten = origins.add(instruction, describe, "uninitialised local memory")
        for i, bad in reversed(list(enumerate(poison))):
            marks = self._take(self._marks, rows + i)
            origins.load(np.where(bad, np.where(marks != 0, marks, unwritten), 0))
