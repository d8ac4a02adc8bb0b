"""Loads from shared memory by the C core, in one call, where nothing is wrong with them and all was written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.core_accesses import Given
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import AccessLog, SharedAccess
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.units import UNITS
from cutegen.emulator.native.library import AccessResult, Core
from cutegen.emulator.ptx.model import Instruction

_empty = np.empty
_LOW, _HIGH = 11, 12  # the places of what the core gives back among the numbers


@dataclass(frozen=True)
class OneLoad:
    """A load from `offset` bytes from an address on."""

    offset: int
    instruction: Instruction


@dataclass(frozen=True, eq=False)
class Loads:
    """Several loads, each of `count` values of `size` bytes. `which` says which address each one has, by its number."""

    each: tuple[OneLoad, ...]
    size: int
    count: int
    which: Array

    @cached_property
    def lines(self) -> Array:
        """The PTX line of each."""
        return np.array([one.instruction.line for one in self.each], np.int64)


class CoreLoads:
    """Loads from the shared memory of some blocks, whose `data` and `flags` have a row for each unit.

    `memory` has the address of the first byte of a block's memory, and how many it has. The reads are noted in `log`.
    """

    def __init__(
        self,
        core: Core,
        memory: tuple[int, int],
        shape: tuple[int, int],
        data: Array,
        flags: Array,
        log: AccessLog | SharedHistory,
    ) -> None:
        self.base, self.size = memory
        self.shape, self.data, self.flags, self.log = shape, data, flags, log
        self._load, self._load_several = core.load_shared, core.load_several
        self._numbers: dict[tuple[object, ...], tuple[Array, int]] = {}
        self._known: dict[tuple[object, ...], tuple[Array, Array]] = {}
        self._rows = np.zeros(shape, np.int64)

    def load(
        self,
        address: Array,
        offset: int,
        size: int,
        count: int,
        mask: Mask,
        instruction: Instruction,
        columns: Array | None,
    ) -> tuple[Array, int, int] | None:
        """The values that `SharedMemory.load` returns, as one array, and the lowest and the highest byte at which a
        lane begins. None, and nothing is noted, for a load that is not in order, or that reads uninitialised memory.
        """
        log, unit, blocks = self.log, self.data.itemsize, self.shape[1]
        address = np.asarray(address)
        shape = ((1, 1) + address.shape)[-2:]
        history = log if isinstance(log, SharedHistory) else None
        if address.dtype.itemsize not in (4, 8):
            return None
        if columns is not None and (history is None or columns.dtype != np.int64):
            return None
        if history is not None and "read" in vars(history):  # somebody watches its reads, which are noted past it here
            return None
        threads = shape[0] if mask is None or mask.ndim < 2 else max(shape[0], mask.shape[0])
        values = np.empty((count, threads if columns is None else self.shape[0], blocks), UNITS[size])
        rows = np.empty(shape, np.int64) if history is None else self._rows
        units = size // unit * count
        given: Given | None = None
        if history is not None:
            given = history.for_core(SharedAccess(rows, units, mask, instruction, 0, 0, columns=columns))
            if given is None:
                return None
        numbers, at = self._told(mask is not None, columns is not None, address.itemsize == 8, offset, size, count)
        masks, places = address if mask is None else mask, address if columns is None else columns
        arrays = (masks, rows, places, address, self.data, self.flags, values)
        if self._load(arrays, at, *(given or ((), None))) != AccessResult.FINE:
            return None
        low, high = numbers[_LOW:].tolist()
        if history is None:
            log.read(SharedAccess(rows, units, mask, instruction, low // unit, (high + size * count) // unit))
        return values, low, high

    def load_several(self, loads: Loads, addresses: Sequence[Array], mask: Mask, first: int) -> tuple[list[Array], int]:
        """Makes loads by the lanes of a mask from their own block's memory, beginning with the load number `first`.

        Returns all their values, and the number of the first load that is not in order, or that reads uninitialised
        memory. `addresses` are the different ones that the loads have.
        """
        log, blocks, each = self.log, self.shape[1], loads.each
        history = log if isinstance(log, SharedHistory) else None
        shape = ((1, 1) + addresses[0].shape)[-2:]
        sizes = [address.itemsize for address in addresses]
        if any(address.shape != addresses[0].shape for address in addresses) or not {4, 8}.issuperset(sizes):
            return [], first
        noted: Given | None = None
        if history is not None:
            noted = history.for_core(SharedAccess(self._rows, 1, mask, each[0].instruction, 0, 0))
            if noted is None or "read" in vars(history):
                return [], first
        numbers, given = self._several(loads, mask is not None, sizes)
        threads = shape[0] if mask is None or mask.ndim < 2 else max(shape[0], mask.shape[0])
        values = _empty((len(each) * loads.count, threads, blocks), UNITS[loads.size])
        rows = _empty((1 if history is not None else len(each), *shape), np.int64)
        given[:] = len(each), first, history is None
        masks = addresses[0] if mask is None else mask
        arrays = (masks, self.data, self.flags, numbers, loads.lines, loads.which, rows, values, *addresses)
        done = self._load_several(arrays, given.ctypes.data, *(noted or ((), None)))
        if history is None:
            unit, total = self.data.itemsize, loads.size * loads.count
            ends = (numbers[first:done, _LOW:] + (0, total)) // unit
            for one, own, low, high in zip(each[first:done], rows[first:], *ends.T.tolist(), strict=False):
                log.read(SharedAccess(own, total // unit, mask, one.instruction, low, high))
        return list(values[first * loads.count : done * loads.count]), done

    def _several(self, loads: Loads, masked: bool, sizes: Sequence[int]) -> tuple[Array, Array]:
        """The numbers that the core is given of several loads, a row for each, and of all of them together."""
        key = loads, masked, *sizes
        found = self._known.get(key)
        if found is None:
            about, unit = (loads.size, loads.count), self.data.itemsize
            rows = [
                (*self.shape, masked, 0, sizes[which] == 8, one.offset, *about, unit, self.base, self.size, 0, 0)
                for one, which in zip(loads.each, loads.which.tolist(), strict=True)
            ]
            found = self._known[key] = np.array(rows, np.int64), np.zeros(3, np.int64)
        return found

    def _told(self, *about: int) -> tuple[Array, int]:
        """The numbers that the core is given of a load, and their address. They are made once for loads like it."""
        found = self._numbers.get(about)
        if found is None:
            made = np.array((*self.shape, *about, self.data.itemsize, self.base, self.size, 0, 0), np.int64)
            found = self._numbers[about] = made, made.ctypes.data
        return found
