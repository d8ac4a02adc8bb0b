"""Long runs of bytes, which bulk copies move: one lane reads or writes them as a whole, 16 bytes at a time."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import spread
from cutegen.emulator.memory.arenas import GAP, UNWRITTEN, Arena
from cutegen.emulator.memory.global_access import GlobalAccess, group_of
from cutegen.emulator.memory.shared_memory import TABOO, SharedMemory
from cutegen.emulator.memory.shared_memory import UNWRITTEN as UNWRITTEN_UNIT
from cutegen.emulator.ptx.model import Instruction

PIECE = 16
"""The bytes of which bulk copies move a multiple, between addresses that are multiples of it."""

Lane = tuple[int, int]
Landing = Callable[[], None]
"""Is called once it is known that a copy has arrived."""


def load_global(
    access: GlobalAccess, address: int, size: int, lane: Lane, instruction: Instruction
) -> tuple[Array, Array, Landing]:
    """The `size` bytes from an address on, which of them were never written, and what ends the read of them.

    Raises Stop as a load of each piece does.
    """
    return load_places(access, _run(address, size), PIECE, lane, instruction)


def load_places(
    access: GlobalAccess, addresses: Array, piece: int, lane: Lane, instruction: Instruction
) -> tuple[Array, Array, Landing]:
    """The `piece` bytes from each of some addresses on, one after the other, which of them were never written, and what
    ends the read of them. Raises Stop as a load of each piece does.
    """
    size = len(addresses) * piece
    data, lost = np.zeros(size, np.uint8), np.zeros(size, np.bool_)
    flights = []
    for arena, cells, pieces in _pieces(access, addresses, piece, lane, instruction, "reads"):
        bytes_of = pieces[:, None] * piece + np.arange(piece)
        data[bytes_of] = group_of(arena.bytes, piece)[cells]
        if arena.flags is not None:
            lost[bytes_of] = (group_of(arena.flags, piece)[cells] & UNWRITTEN) != 0
        if arena.touched is not None:
            keep = np.full(len(cells), lane[0]), np.full(len(cells), lane[1])
            flights.append(access.hazards.read_run(arena, cells[:, None], piece, keep, instruction))
        access.latest = arena.name

    def land() -> None:
        for flight in flights:
            flight.land(None)

    return data, lost, land


def store_global(access: GlobalAccess, address: int, data: Array, lane: Lane, instruction: Instruction) -> Landing:
    """Writes bytes from an address on, and returns what says that they have arrived. Raises Stop as stores do."""
    return store_places(access, _run(address, len(data)), PIECE, data, lane, instruction)


def store_places(
    access: GlobalAccess, addresses: Array, piece: int, data: Array, lane: Lane, instruction: Instruction
) -> Landing:
    """Writes `piece` bytes of the data from each of some addresses on, and returns what says that they have arrived.

    Raises Stop as a store of each piece does.
    """
    access.written += 1
    written: list[tuple[Arena, Array]] = []
    for arena, cells, pieces in _pieces(access, addresses, piece, lane, instruction, "writes"):
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


def _run(address: int, size: int) -> Array:
    """The addresses of the pieces of a run of bytes."""
    return address + PIECE * np.arange(size // PIECE, dtype=np.int64)


def _pieces(
    access: GlobalAccess,
    told: Array,
    piece: int,
    lane: Lane,
    instruction: Instruction,
    verb: Literal["reads", "writes"],
) -> list[tuple[Arena, Array, Array]]:
    """The arenas in which pieces of so many bytes lie, each with the index of its pieces there and their numbers.

    Raises Stop for a piece that is out of bounds, and for what the lane must not touch yet.
    """
    where, _ = access.memory.folded(told, 0)
    mask = np.zeros(access.shape, np.bool_)
    mask[lane] = True
    found = []
    left = np.ones(len(where), np.bool_)
    for arena in access.memory.arenas:
        inside = left & (where >= arena.low) & (where + piece <= arena.high)
        if inside.any():
            numbers = np.flatnonzero(inside)
            cells = (where[numbers] - arena.start) // piece
            if arena.flags is not None and (gaps := (group_of(arena.flags, piece)[cells] & GAP).any(axis=1)).any():
                raise access.gap(arena, np.full((1, 1), cells[gaps][0]), piece, mask, instruction)
            if access.earlier is not None:
                at = np.full((1, 1), cells[0])
                access.refuse_early(access.earlier, arena, at, piece, mask, instruction, verb)
            found.append((arena, cells, numbers))
            left &= ~inside
    if left.any():
        access.find(np.full((1, 1), where[left][0]), 0, piece, mask, instruction)  # raises
    return found


def load_shared(memory: SharedMemory, access: SharedAccess) -> tuple[Array, Array]:
    """The bytes of the units that the one lane of an access reads, and which were never written. Raises Stop."""
    flags = check_run(memory, access, "reads")
    rows, column = _place(memory, access)
    return memory.data[rows, column].copy().view(np.uint8), np.repeat(flags != 0, memory.unit)


def check_run(memory: SharedMemory, access: SharedAccess, verb: str) -> Array:
    """The flags of the units of an access of one lane. Raises Stop for a unit that must not be touched."""
    rows, column = _place(memory, access)
    flags = np.asarray(memory.flags[rows, column])
    if (flags & TABOO).any():
        memory.refuse(access, [np.full((1, 1), flag) for flag in flags], access.mask, verb)
    return flags


def store_shared(memory: SharedMemory, access: SharedAccess, data: Array, lost: Array) -> None:
    """Puts bytes where the one lane of an access is, of which those `lost` were never written. Raises Stop."""
    rows, column = _place(memory, access)
    memory.data[rows, column] = np.ascontiguousarray(data).view(memory.data.dtype)
    some = bool(lost.any())
    if not some and not memory.dirty[rows].any():
        return  # all of it is written already, in all blocks
    bad = lost.reshape(-1, memory.unit).any(axis=1) if some else np.zeros(access.count, np.bool_)
    memory.flags[rows, column] = np.where(bad, np.uint8(UNWRITTEN_UNIT), np.uint8(0))
    memory.dirty[rows] = memory.flags[rows].max(axis=1)


def _place(memory: SharedMemory, access: SharedAccess) -> tuple[slice, int]:
    """The rows of the units of an access of one lane, and the number of the block that has them."""
    mask = access.mask
    assert mask is not None
    lanes = spread(mask, memory.shape)
    own = np.arange(memory.shape[1])[None, :] if access.columns is None else access.columns
    row = int(spread(access.rows, memory.shape)[lanes][0])
    return slice(row, row + access.count), int(spread(own, memory.shape)[lanes][0])
