"""Long runs of bytes, which bulk copies move: one lane reads or writes them as a whole, 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import spread, value_at
from cutegen.emulator.memory.arenas import GAP, UNWRITTEN, Arena
from cutegen.emulator.memory.global_access import GlobalAccess, group_of
from cutegen.emulator.memory.shared_memory import TABOO, SharedMemory
from cutegen.emulator.memory.shared_memory import UNWRITTEN as UNWRITTEN_UNIT
from cutegen.emulator.ptx.model import Instruction

PIECE = 16
"""The granularity of bulk copies in bytes, for sizes and addresses."""

Lane = tuple[int, int]
Landing = Callable[[], None]
"""Is called once it is known that a copy has arrived."""


def load_global(
    access: GlobalAccess, address: int, size: int, lane: Lane, instruction: Instruction
) -> tuple[Array, Array, Landing]:
    """The `size` bytes from an address on, which of them were never written, and what ends the read of them.

    Raises Stop as a load of each piece does.
    """
    return load_places(access, address + pieces_of(size), PIECE, lane, instruction)


def load_places(
    access: GlobalAccess, addresses: Array, piece: int, lane: Lane, instruction: Instruction
) -> tuple[Array, Array, Landing]:
    """The `piece` bytes from each of some addresses on, one after the other, which of them were never written, and what
    ends the read of them. Raises Stop as a load of each piece does.
    """
    keep = np.full(len(addresses), lane[0]), np.full(len(addresses), lane[1])
    data, lost, flights = gather(access, addresses, piece, keep, instruction)
    for flight, _ in flights:
        flight.begin(instruction.line)

    def land() -> None:
        for flight, _ in flights:
            flight.land(None)

    return data, lost, land


def gather(
    access: GlobalAccess, addresses: Array, piece: int, keep: tuple[Array, Array], instruction: Instruction
) -> tuple[Array, Array, list[tuple[Flight, Array]]]:
    """The `piece` bytes from each of some addresses on, one after the other, and which of them were never written.

    `keep` has the thread and the block of the lane that reads each piece. Returns with them the reads that are to
    begin, with the numbers of their pieces. Raises Stop as a load of each piece does, with nothing changed.
    """
    data: Array | None = None
    lost = np.zeros((len(addresses), piece), np.bool_)
    flights = []
    mask = np.zeros(access.shape, np.bool_)
    mask[keep] = True
    for arena, cells, pieces in _pieces(access, addresses, piece, mask, instruction, "reads"):
        found = group_of(arena.bytes, piece).take(cells, axis=0)
        if len(pieces) == len(addresses):
            data = found
        else:
            data = np.zeros((len(addresses), piece), np.uint8) if data is None else data
            data[pieces] = found
        if arena.flags is not None:
            lost[pieces] = (group_of(arena.flags, piece)[cells] & UNWRITTEN) != 0
        if arena.touched is not None:
            some = keep[0][pieces], keep[1][pieces]
            flights.append((access.hazards.read_run(arena, cells[:, None], piece, some, instruction), pieces))
        access.latest = arena.name
    return np.zeros(0, np.uint8) if data is None else data.reshape(-1), lost.reshape(-1), flights


def store_global(access: GlobalAccess, address: int, data: Array, lane: Lane, instruction: Instruction) -> Landing:
    """Writes bytes from an address on, and returns what says that they have arrived. Raises Stop as stores do."""
    return store_places(access, address + pieces_of(len(data)), PIECE, data, lane, instruction)


def store_places(
    access: GlobalAccess, addresses: Array, piece: int, data: Array, lane: Lane, instruction: Instruction
) -> Landing:
    """Writes `piece` bytes of the data from each of some addresses on, and returns what says that they have arrived.

    Raises Stop as a store of each piece does.
    """
    access.written += 1
    written: list[tuple[Arena, Array]] = []
    mask = np.zeros(access.shape, np.bool_)
    mask[lane] = True
    for arena, cells, pieces in _pieces(access, addresses, piece, mask, instruction, "writes"):
        if arena.touched is None:
            index = np.full((1, 1), cells[0])
            text = f"writes {arena.name}, an input"
            raise access.stop_at(arena, index, lane, piece, "write-to-input", text, instruction)
        keep = np.full(len(cells), lane[0]), np.full(len(cells), lane[1])
        access.hazards.write(arena, cells[:, None], piece, keep, instruction, flying=True)
        group_of(arena.bytes, piece)[cells] = data.reshape(-1, piece)[pieces]
        if arena.flags is not None:
            group_of(arena.flags, piece)[cells] &= np.uint8(~UNWRITTEN & 0xFF)
        written.append((arena, cells[:, None]))

    def land() -> None:
        for arena, cells in written:
            access.hazards.landed(arena, cells, piece)

    return land


def pieces_of(size: int) -> Array:
    """Where the pieces of a run of bytes begin, counted from its first byte."""
    return PIECE * np.arange(size // PIECE, dtype=np.int64)


def _pieces(
    access: GlobalAccess,
    told: Array,
    piece: int,
    mask: Array,
    instruction: Instruction,
    verb: Literal["reads", "writes"],
) -> list[tuple[Arena, Array, Array]]:
    """The arenas in which pieces of so many bytes lie, each with the index of its pieces there and their numbers.

    Raises Stop for a piece that is out of bounds, and for what the lanes of the mask must not touch yet.
    """
    where, _ = access.memory.folded(told, 0)
    found = []
    low, high = (int(where.min()), int(where.max()) + piece) if len(where) else (0, 0)
    left = np.ones(len(where), np.bool_)
    for arena in access.memory.arenas:
        if high <= arena.low or arena.high <= low:
            continue
        inside: Array = left
        if low < arena.low or arena.high < high:
            inside = (where >= arena.low) & (where + piece <= arena.high)
            numbers = np.flatnonzero(inside & left)
            some = where[numbers]
        else:  # then no arena before has any of it
            numbers, some = np.arange(len(where)), where
        if len(numbers):
            cells = some - arena.start >> piece.bit_length() - 1
            if arena.flags is not None and has_any(gaps := (group_of(arena.flags, piece)[cells] & GAP).any(axis=1)):
                raise access.gap(arena, np.full((1, 1), cells[gaps][0]), piece, mask, instruction)
            if access.earlier is not None:
                at = np.full((1, 1), cells[0])
                access.refuse_early(access.earlier, arena, at, piece, mask, instruction, verb)
            found.append((arena, cells, numbers))
            if len(numbers) == len(where):
                return found
            left &= ~inside
    if has_any(left):
        access.find(np.full((1, 1), where[left][0]), 0, piece, mask, instruction)  # raises
    return found


def load_shared(memory: SharedMemory, access: SharedAccess) -> tuple[Array, Array]:
    """The bytes of the units that the one lane of an access reads, and which were never written. Raises Stop."""
    flags = check_run(memory, access, "reads")
    rows, column = _place(memory, access)
    lost = np.repeat(flags != 0, memory.unit) if has_any(flags) else np.zeros(len(flags) * memory.unit, np.bool_)
    return memory.data[rows, column].copy().view(np.uint8), lost


def check_run(memory: SharedMemory, access: SharedAccess, verb: str) -> Array:
    """The flags of the units of an access of one lane. Raises Stop for a unit that must not be touched."""
    rows, column = _place(memory, access)
    flags = np.asarray(memory.flags[rows, column])
    if has_any(flags) and has_any(flags & TABOO):
        memory.refuse(access, [np.full((1, 1), flag) for flag in flags], access.mask, verb)
    return flags


def store_shared(memory: SharedMemory, access: SharedAccess, data: Array, lost: Array) -> None:
    """Puts bytes where the one lane of an access is; the `lost` ones were never written. Raises Stop."""
    rows, column = _place(memory, access)
    memory.data[rows, column] = np.ascontiguousarray(data).view(memory.data.dtype)
    some = has_any(lost)
    if not some and not has_any(memory.dirty[rows]):
        return  # all of it is written already, in all blocks
    bad = lost.reshape(-1, memory.unit).any(axis=1) if some else np.zeros(access.count, np.bool_)
    memory.flags[rows, column] = np.where(bad, np.uint8(UNWRITTEN_UNIT), np.uint8(0))
    memory.dirty[rows] = _of_any_block(memory.flags[rows])


@dataclass(frozen=True)
class Runs:
    """Runs of `count` units of shared memory, one for each lane of an access: the first `rows` of each, and the
    `columns`, which say whose memory it is.
    """

    rows: Array
    columns: Array
    count: int

    def index(self) -> tuple[Array | slice, Array | slice]:
        """The index that picks the units from arrays of shape (units, blocks): a column for each run."""
        first = self.columns[:1]
        rising = bool((self.columns == first + np.arange(len(self.columns))).all())
        columns = slice(int(first[0]), int(first[0]) + len(self.columns)) if rising else self.columns
        if (self.rows == self.rows[0]).all():
            return slice(int(self.rows[0]), int(self.rows[0]) + self.count), columns
        return self.rows + np.arange(self.count)[:, None], self.columns

    def starts(self) -> list[int]:
        """The different first rows."""
        return sorted({*self.rows.tolist()})


def check_runs(memory: SharedMemory, access: SharedAccess, runs: Runs, verb: str) -> None:
    """Raises Stop if any unit of an access must not be touched; `runs` are its units."""
    flags = memory.flags[runs.index()]
    if has_any(flags & TABOO):
        parts = np.zeros((access.count, *memory.shape), np.uint8)
        parts[:, whole(access.mask, memory.shape)] = flags
        memory.refuse(access, list(parts), access.mask, verb)


def store_runs(memory: SharedMemory, runs: Runs, data: Array, lost: Array) -> None:
    """Puts bytes into runs of units, all different ones, one run's after the other's; the `lost` ones were never
    written.
    """
    index, shape = runs.index(), (len(runs.rows), runs.count)
    memory.data[index] = data.view(memory.data.dtype).reshape(shape).T
    some = has_any(lost)
    if not some and not any(has_any(memory.dirty[row : row + runs.count]) for row in runs.starts()):
        return  # all of it is written already, in all blocks
    bad = lost.reshape(*shape, memory.unit).any(axis=2).T if some else np.zeros(shape[::-1], np.bool_)
    memory.flags[index] = np.where(bad, np.uint8(UNWRITTEN_UNIT), np.uint8(0))
    for row in runs.starts():
        memory.dirty[row : row + runs.count] = _of_any_block(memory.flags[row : row + runs.count])


def store_units(memory: SharedMemory, rows: Array, columns: Array, values: Array, lost: Array | None) -> None:
    """Puts values where units are; the `lost` ones, if any, were never written; of two in one place, the later.

    `rows` and `columns` give the block and the unit of each value, in the shape of the values.
    """
    cells = rows * memory.shape[1] + columns
    memory.data.reshape(-1)[cells] = values
    if lost is None and not has_any(memory.dirty.take(rows)):
        return  # all of it is written already, in all blocks
    memory.flags.reshape(-1)[cells] = 0 if lost is None else np.where(lost, np.uint8(UNWRITTEN_UNIT), np.uint8(0))
    memory.dirty[rows] = _of_any_block(memory.flags[rows])


def _of_any_block(flags: Array) -> Array:
    """The flags that a unit has in any block, from those that it has in each, along the last axis."""
    found = np.array(flags[..., 0])
    for block in range(1, flags.shape[-1]):  # a few, and faster than numpy's maximum along so short an axis
        np.maximum(found, flags[..., block], out=found)
    return found


def _place(memory: SharedMemory, access: SharedAccess) -> tuple[slice, int]:
    """The rows of the units of an access of one lane, and the number of the block that has them."""
    assert access.mask is not None
    thread, block = divmod(int(spread(access.mask, memory.shape).argmax()), memory.shape[1])
    row = value_at(access.rows, (thread, block), memory.shape)
    column = block if access.columns is None else value_at(access.columns, (thread, block), memory.shape)
    return slice(row, row + access.count), column
