"""Loads and stores in global memory by the C core, which does what numpy would in one pass, where nothing is odd."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.global_races import ClockEpochs, Epochs
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.arenas import Arena, GlobalMemory
from cutegen.emulator.native.library import Core, core
from cutegen.emulator.ptx.types import STORAGE

# The places of what changes among the numbers that the core is given, in its order
_OFFSET, _TOTAL, _ONE, _MANY, _IN_SOME, _NO_CHANGE, _FLIES = range(7, 14)
_NEEDS = -2  # minus the number of an arena: what the core says where nothing is kept yet of what must be noted

_empty = np.empty


class CoreGlobal:
    """The accesses of one batch of lanes. `memory`, `lanes`, `threads` and `epochs` are as for `GlobalAccess`."""

    def __init__(self, found: Core, memory: GlobalMemory, lanes: Array, threads: int, epochs: Epochs) -> None:
        self.memory, self.epochs = memory, epochs
        self._load, self._store = found.accesses["load_global"], found.accesses["store_global"]
        self._lanes = np.ascontiguousarray(lanes, np.int64)
        self._table = np.array([arena.addresses().ctypes.data for arena in memory.arenas], np.int64)
        fixed = (self._table.ctypes.data, len(memory.arenas), self._lanes.ctypes.data, *lanes.shape, threads)
        self._given = np.array([*fixed, isinstance(epochs, ClockEpochs), 0, 0, 0, 0, 0, 0, 0], np.int64)
        self._address = self._given.ctypes.data

    def load(
        self, address: Array, offset: int, size: int, count: int, mask: Mask, *, constant: bool, flies: bool
    ) -> tuple[Arena, list[Array]] | None:
        """Loads as `GlobalAccess.load` does at most 16 bytes, all of which were written, from one arena: it, and the
        values. Or does nothing, and returns None.

        `flies` says that the reads go on, as those of an asynchronous copy do.
        """
        if address.itemsize != 8:
            return None
        shape = address.shape
        if mask is None:
            arrays: tuple[Array, ...] = (address, address, self.epochs.passed)
        else:
            arrays = (address, mask, self.epochs.passed)
            if mask.shape != shape:
                shape = np.broadcast_shapes(shape, mask.shape)
        storage = STORAGE[8 * size]
        values: list[Array] = [_empty(shape, storage) for _ in range(count)]
        arrays += tuple(values)
        self._tell(offset, size, count, mask)
        self._given[_NO_CHANGE], self._given[_FLIES] = constant, flies
        number = self._load(arrays, self._address)
        if number <= _NEEDS:
            arena = self.memory.arenas[_NEEDS - number]
            assert arena.touched is not None
            arena.touched.begin_reads()
            if constant:
                arena.read_as_constant()
            number = self._load(arrays, self._address)
        return None if number < 0 else (self.memory.arenas[number], values)

    def store(self, address: Array, offset: int, size: int, values: Sequence[Array], mask: Mask) -> bool:
        """Stores as `GlobalAccess.store` does at most 16 bytes in one arena, and returns True; or does nothing."""
        if address.itemsize != 8:
            return False
        arrays = (address, address if mask is None else mask, self.epochs.passed, *map(np.asarray, values))
        if min([array.itemsize for array in arrays[3:]]) < size:
            return False
        self._tell(offset, size, len(values), mask)
        return self._store(arrays, self._address) >= 0

    def _tell(self, offset: int, size: int, count: int, mask: Mask) -> None:
        """Tells the core of an access what is no array."""
        given = self._given
        given[_OFFSET], given[_TOTAL], given[_ONE], given[_MANY] = offset, size * count, size, count
        given[_IN_SOME] = mask is not None


def core_global(memory: GlobalMemory, lanes: Array, threads: int, epochs: Epochs) -> CoreGlobal | None:
    """The accesses of one batch by the core, None where there is no core, or where more is kept than it knows of."""
    if memory.traced or memory.journal is not None or (found := core()) is None:
        return None
    return CoreGlobal(found, memory, lanes, threads, epochs)
