"""Shared memory of the blocks that run at once: its bytes, what is known about them, and copies on their way to it.

The memory is an array of shape (units, blocks); a unit is the smallest access that the kernel makes. Where the threads
of all blocks use the same offsets, as they nearly always do, one access moves whole rows.

Until the wait for a cp.async its destination is in flight: to touch it is a fault at once. The bytes arrive at the
wait, which is as late as they may. Races are found by `checks.shared_races`, or by `checks.shared_history` where blocks
may reach each other's memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.origins import Origins
from cutegen.emulator.checks.poison import Poison, poison_whole
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import AccessLog, SharedAccess
from cutegen.emulator.lanes import Mask, first_lane, spread, value_at
from cutegen.emulator.memory.address_extents import AddressExtents
from cutegen.emulator.memory.copy_groups import Copy, CopyGroups
from cutegen.emulator.memory.core_loads import CoreLoads
from cutegen.emulator.memory.core_stores import CoreStores
from cutegen.emulator.memory.placement import BASE
from cutegen.emulator.memory.shared_faults import astray, flying, misaligned, outside, part_of_mbarrier
from cutegen.emulator.memory.units import UNITS, join_units, split_units
from cutegen.emulator.native.library import core
from cutegen.emulator.ptx.model import Instruction

UNWRITTEN, _IN_FLIGHT, _NOBODYS, _BARRIER = 1, 2, 4, 8  # flags of a unit; the last is for those of an mbarrier
TABOO = _IN_FLIGHT | _NOBODYS | _BARRIER


class SharedMemory:
    """The shared memory of the blocks of `shape` = (threads, blocks): `size` bytes for each, in units of `unit` bytes.

    `variables` are what lies there, in order: the name of each, the offset of its first byte, and that after its last
    byte. Without any, all of the memory may be used. `base` is the address of a block's first byte. `clocks` are given
    where more than whole blocks meet.
    """

    def __init__(
        self,
        size: int,
        unit: int,
        shape: tuple[int, int],
        variables: Sequence[tuple[str, int, int]] = (),
        clocks: Clocks | None = None,
        base: int = BASE,
    ) -> None:
        self.size, self.unit, self.shape, self.variables, self.base = size, unit, shape, tuple(variables), base
        self.rows = -(-size // unit)
        self.data: NDArray[Any] = np.zeros((self.rows, shape[1]), UNITS[unit])
        self.dirty = np.full(self.rows, _NOBODYS if variables else UNWRITTEN, np.uint8)  # flags of any block
        for _, start, end in variables:
            self.dirty[start // unit : -(-end // unit)] = UNWRITTEN
        self.flags = np.repeat(self.dirty[:, None], shape[1], axis=1)
        self.log: AccessLog | SharedHistory = AccessLog(self.rows, unit, shape)
        if clocks is not None:
            self.log = SharedHistory(self.rows, unit, clocks)
        # The core may be there since the history was made without it
        found = core() if isinstance(self.log, AccessLog) or self.log.has_core else None
        self.core_loads = (
            None if found is None else CoreLoads(found, (base, size), shape, self.data, self.flags, self.log)
        )
        self._stores = None if found is None else CoreStores(found, shape, self.data, self.flags, self.dirty)
        self._pending = CopyGroups(shape)
        self._blocks = np.arange(shape[1])[None, :]
        self.extents = AddressExtents()
        self._first: tuple[Array, Array, Array] | None = None  # an address, its byte and its row in each lane
        self.touched: list[tuple[int, ...]] | None = None  # what accesses there were, where somebody wants to know
        self.origins: Origins | None = None
        self._origin = np.zeros((0, 0), np.int64)  # of the poison in each unit, where it is kept

    # --------------------------------------------------------------------------------------------------- accesses

    def load(
        self,
        address: Array,
        offset: int,
        size: int,
        count: int,
        mask: Mask,
        instruction: Instruction,
        columns: Array | None = None,
    ) -> tuple[list[Array], list[Poison]]:
        """Loads `count` values of `size` bytes from `address` + `offset`, in the lanes of the mask.

        `columns`, which broadcasts to the lanes, has the number of the block whose memory it is, by default the lane's
        own. Returns the values, and the poison of each: the bits that were never written. Raises Stop for a fault.
        """
        if self.core_loads is not None:
            found = self.core_loads.load(address, offset, size, count, mask, instruction, columns)
            if found is not None:
                if self.touched is not None:
                    self.touched.append((*found[1:], size * count))
                return list(found[0]), [None] * count
        access = self.access(address, offset, size * count, mask, instruction, columns)
        self.log.read(access)
        rows, inside = self._inside(access)
        each = size // self.unit
        units = self._take_all(rows, access)
        poison: list[Poison] = [None] * count
        if has_any(self.dirty[access.low : access.high]) and has_any(self.dirty.take(self._span(rows, access.count))):
            poison = self._inspect(access, rows, inside, each, count)
        if each == 1:
            return units, poison
        return [join_units(units[i * each : (i + 1) * each]) for i in range(count)], poison

    def store(
        self,
        address: Array,
        offset: int,
        size: int,
        values: Sequence[Array],
        poison: Sequence[Poison],
        mask: Mask,
        instruction: Instruction,
        columns: Array | None = None,
    ) -> None:
        """Stores values of `size` bytes, with the poison of each, to `address` + `offset`, in the lanes of the mask.

        `columns` is as for `load`. Raises Stop for a fault.
        """
        access = self.access(address, offset, size * len(values), mask, instruction, columns)
        self.check_free(access, "writes")
        self.log.write(access)
        self.put(access, size, values, poison)

    def mark_barrier(self, access: SharedAccess, there: bool) -> None:
        """Says that an mbarrier lies where an access is, or that it does no longer, which leaves nothing written."""
        self._put(access, (), (), _BARRIER if there else UNWRITTEN)

    def put(self, access: SharedAccess, size: int, values: Sequence[Array], poison: Sequence[Poison]) -> None:
        """Puts values of `size` bytes, with the poison of each, where an access is; what may be wrong was looked at."""
        each = size // self.unit
        units: list[Array] = []
        marks: list[Mask] = []
        for value, bits in zip(values, poison, strict=True):
            units += split_units(value, each, UNITS[self.unit])
            marks += [None] * each if bits is None else [p != 0 for p in split_units(bits, each, UNITS[self.unit])]
        self._put(access, units, marks)

    def put_matrices(
        self, access: SharedAccess, registers: Sequence[Array], poison: Sequence[Array] | None, transposed: bool
    ) -> bool:
        """Lets the core put matrices where an access is, as `CoreStores.put_matrices` does. False: it did nothing."""
        if self.origins is not None or self._stores is None:
            return False
        return self._stores.put_matrices(access, registers, poison, transposed)

    def access(
        self,
        address: Array,
        offset: int,
        size: int,
        mask: Mask,
        instruction: Instruction,
        columns: Array | None = None,
        align: int = 0,
    ) -> SharedAccess:
        """The access of the lanes in the mask, in units; `columns` is as for `load`.

        Raises Stop if it is out of bounds, or misaligned in a lane: no multiple of `align` bytes, by default its size.
        """
        align = align or size
        shape = self.shape
        address = np.asarray(address)
        low, high, bits = self.extents.of(address, mask)
        low, high = low + offset - self.base, high + offset - self.base
        if self.touched is not None:
            self.touched.append((low, high, size))
        if low < 0 or high + size > self.size:
            signed = address.astype(np.int64) + (offset - self.base)
            raise outside(signed, size, self.size, mask, shape, instruction)
        if (bits | offset) & (align - 1):
            signed = address.astype(np.int64) + offset
            bad = np.asarray(signed % align != 0)
            if mask is not None:
                bad = np.asarray(bad & mask)
            if has_any(bad):
                raise misaligned(signed - self.base, bad, size, align, shape, instruction)
        if self._first is None or self._first[0] is not address:
            first = address.astype(np.int64) - self.base
            first = first.reshape((1,) * (2 - first.ndim) + first.shape)
            self._first = address, first, first // self.unit
        rows = self._first[2] + offset // self.unit
        if offset % self.unit:  # only together with the address it is a multiple of the unit
            rows = (self._first[1] + offset) // self.unit
        ends = low // self.unit, (high + size) // self.unit
        if columns is None:
            return SharedAccess(rows, size // self.unit, mask, instruction, *ends)
        columns = spread(columns, shape)
        return SharedAccess(spread(rows, shape), size // self.unit, mask, instruction, *ends, columns=columns)

    def _inside(self, access: SharedAccess) -> tuple[Array, Mask]:
        """The rows of an access, with those of lanes outside of the mask brought in bounds; and the mask."""
        if access.mask is None:
            return access.rows, None
        mask: Array = access.mask
        if access.rows.shape[1] == 1 and mask.ndim == 2 and mask.shape[1] > 1:
            mask = np.asarray(mask.any(axis=1, keepdims=True))
        return np.where(mask, access.rows, 0), access.mask

    def _take_all(self, rows: Array, access: SharedAccess) -> list[Array]:
        """The units of an access from the given rows on, which broadcast to the lanes."""
        count = access.count
        if rows.shape[1] == 1:
            column = rows[:, 0]
            if count == 1:
                return [self.data.take(column, axis=0)]
            return list(self.data.take(column + np.arange(count)[:, None], axis=0))
        flat, first = self.data.reshape(-1), rows * self.shape[1] + self._columns(access)
        return [flat.take(first + j * self.shape[1]) for j in range(count)]

    def _columns(self, access: SharedAccess) -> Array:
        """The number of the block whose memory it is, in each lane of an access."""
        return self._blocks if access.columns is None else access.columns

    @staticmethod
    def _span(rows: Array, count: int) -> Array:
        """The rows of all `count` units of accesses that begin at the given rows."""
        return rows[..., None] + np.arange(count) if count > 1 else rows

    def _inspect(self, access: SharedAccess, rows: Array, mask: Mask, each: int, count: int) -> list[Poison]:
        """The poison of each of the `count` values of a load. Raises Stop for what is in flight or nobody's."""
        flags = [self.flags[spread(rows, self._wide(rows)) + j, self._columns(access)] for j in range(access.count)]
        self.refuse(access, flags, mask, "reads")
        poison: list[Poison] = []
        for i in range(count):
            parts = [flag != 0 if mask is None else (flag != 0) & mask for flag in flags[i * each : (i + 1) * each]]
            bits = [poison_whole(part, self.unit * 8) for part in parts]
            value = bits[0] if each == 1 else join_units(bits)
            poison.append(value if has_any(value) else None)
        if self.origins is not None and any(one is not None for one in poison):
            self._note_origin(self.origins, access, rows, flags)
        return poison

    def _note_origin(self, origins: Origins, access: SharedAccess, rows: Array, flags: Sequence[Array]) -> None:
        """Notes where the poison comes from that an access reads; `flags` are those of its units."""

        def describe(lane: tuple[int, int]) -> str:
            bad = [bool(value_at(flag, lane, self.shape)) for flag in flags]
            byte = (value_at(access.rows, lane, self.shape) + bad.index(True)) * self.unit
            return f"byte {byte} of shared memory, which was never written"

        unwritten = origins.add(access.instruction, describe, "uninitialised shared memory")
        for j, flag in reversed(list(enumerate(flags))):
            found = self._kept_origins()[spread(rows, self._wide(rows)) + j, self._columns(access)]
            origins.load(np.where(flag != 0, np.where(found != 0, found, unwritten), 0))

    def _kept_origins(self) -> Array:
        """The origin of each unit of each block, as an array that may be written."""
        if not self._origin.size:
            self._origin = np.zeros((self.rows, self.shape[1]), np.int64)
        return self._origin

    def _wide(self, rows: Array) -> tuple[int, int]:
        """The shape of the rows once each block has its own."""
        return rows.shape[0], self.shape[1]

    def check_free(self, access: SharedAccess, verb: str) -> None:
        """Raises Stop if an access that writes touches what is in flight or nobody's."""
        if not has_any(self.dirty[access.low : access.high] & TABOO):
            return
        rows, mask = self._inside(access)
        if has_any(self.dirty.take(self._span(rows, access.count)) & TABOO):
            flags = [self.flags[spread(rows, self._wide(rows)) + j, self._columns(access)] for j in range(access.count)]
            self.refuse(access, flags, mask, verb)

    def refuse(self, access: SharedAccess, flags: Sequence[Array], mask: Mask, verb: str) -> None:
        """Raises Stop if an access touches what is in flight or nobody's; `flags` are those of its units."""
        for j, flag in enumerate(flags):
            for reason in (_NOBODYS, _IN_FLIGHT, _BARRIER):
                bad = (flag & reason) != 0
                bad = bad if mask is None else bad & mask
                if has_any(bad):
                    lane = first_lane(bad, self.shape)
                    byte = (value_at(access.rows, lane, self.shape) + j) * self.unit
                    if reason == _NOBODYS:
                        raise astray(access, lane, byte, verb, self.variables)
                    if reason == _BARRIER:
                        raise part_of_mbarrier(access, lane, byte, verb)
                    copies = (c.access for c in self._pending.unfinished())
                    raise flying(access, lane, byte, verb, copies, self.unit, self.shape)

    def keep_origins(self, access: SharedAccess, j: int, poison: Array) -> None:
        """Keeps where poison comes from that lanes put into unit `j` of an access, where somebody wants to know."""
        if self.origins is not None:
            lanes = np.broadcast_to(True if access.mask is None else access.mask, self.shape)
            rows, columns = spread(access.rows + j, self.shape)[lanes], spread(self._columns(access), self.shape)[lanes]
            self._kept_origins()[rows, columns] = spread(np.where(poison, self.origins.stored, 0), self.shape)[lanes]

    def _put(self, access: SharedAccess, values: Sequence[Array], poison: Sequence[Mask], flag: int = 0) -> None:
        """Writes the units of an access in every lane of its mask, or only their flags where there are no `values`.

        `poison`, where there are values, has the lanes in which each is poison, and `flag` is set for all of them.
        """
        if self.origins is None and self._stores is not None and self._stores.put(access, values, poison, flag):
            return
        for j in range(access.count):
            self._put_unit(access, j, values[j] if values else None, poison[j] if poison else None, flag)

    def _put_unit(self, access: SharedAccess, j: int, value: Array | None, poison: Mask, flag: int) -> None:
        """Writes unit `j` of an access, as `_put` does."""
        if poison is not None:
            self.keep_origins(access, j, poison)
        rows, mask, threads = access.rows + j, access.mask, self.shape[0]
        if rows.shape[1] == 1 and (mask is None or mask.ndim < 2 or mask.shape[1] == 1):
            keep: Array | slice = slice(None)
            wide_rows = spread(rows, (threads, 1))[:, 0]
            if mask is not None:
                keep = spread(mask, (threads, 1))[:, 0]
                wide_rows = wide_rows[keep]
            if value is not None:
                self.data[wide_rows] = spread(value, self.shape)[keep]
            if poison is None:
                self.flags[wide_rows] = flag
                self.dirty[wide_rows] = flag
            else:
                self.flags[wide_rows] = np.where(spread(poison, self.shape)[keep], flag | UNWRITTEN, flag)
                self.dirty[wide_rows] = self.flags[wide_rows].max(axis=1)
            return
        wide = spread(rows, self.shape)
        columns = spread(self._columns(access), self.shape)
        if mask is not None:
            whole = spread(mask, self.shape)
            wide, columns = wide[whole], columns[whole]
            value = None if value is None else spread(value, self.shape)[whole]
            poison = None if poison is None else spread(poison, self.shape)[whole]
        if value is not None:
            self.data[wide, columns] = value
        self.flags[wide, columns] = flag if poison is None else np.where(poison, flag | UNWRITTEN, flag)
        touched = np.unique(wide)
        self.dirty[touched] = self.flags[touched].max(axis=1, initial=0)

    # --------------------------------------------------------------------------------------- asynchronous copies

    def copy(
        self,
        address: Array,
        offset: int,
        size: int,
        values: Sequence[Array],
        poison: Sequence[Mask],
        flights: Sequence[Flight],
        mask: Mask,
        instruction: Instruction,
        tensor: str = "",
    ) -> None:
        """Begins a cp.async of `size` bytes to `address` + `offset`, in the lanes of the mask.

        `values` has one value for each unit, and `poison` the lanes in which that value was never written. `flights`
        are the reads that go on until the copy arrives, and `tensor` is what they read. Raises Stop for a fault.
        """
        access = replace(self.access(address, offset, size, mask, instruction), tensor=tensor)
        self.check_free(access, "writes")
        self._put(access, (), (), _IN_FLIGHT)
        self.log.write(access)
        origin = None if self.origins is None else self.origins.loaded
        self._pending.begin(Copy(access, tuple(values), tuple(poison), tuple(flights), origin))

    def commit(self, mask: Mask) -> None:
        """Executes cp.async.commit_group in the lanes of the mask."""
        self._pending.commit(mask)

    def wait(self, left: int, mask: Mask) -> list[SharedAccess]:
        """Executes cp.async.wait_group, which leaves the last `left` groups of each lane; returns what has arrived."""
        landed = self._pending.wait(left, mask)
        for copy in landed:
            if self.origins is not None and copy.origin is not None:
                self.origins.stored = copy.origin
            self._put(copy.access, copy.values, copy.poison)
            self.log.landed(copy.access)
            copy.arrive(self.shape)
        return [copy.access for copy in landed]

    def state(self) -> list[Array]:
        """All that the memory holds and that copies bring to it, as arrays that do not change."""
        found = [self.data.copy(), self.flags.copy(), np.array(self._pending.sizes())]
        for copy in self._pending.unfinished():
            known = (copy.access.mask, *copy.poison)
            found += [copy.access.rows, *copy.values, *(np.zeros(0) if mask is None else mask for mask in known)]
        return found

    def barrier(self, blocks: Mask = None, gone: Mask = None) -> None:
        """Notes that all threads of the blocks in the mask, shape (1, blocks), have come to a barrier.

        None of those that have exited, which are in the mask `gone`, has. Copies in flight go on writing after it.
        Raises Stop for a race between the last barrier and this one.
        """
        self.log.barrier(blocks, [copy.access for copy in self._pending.unfinished()], gone)
