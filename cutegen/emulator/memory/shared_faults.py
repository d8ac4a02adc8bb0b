"""Faults of accesses to shared memory that touch bytes they must not: each is of one lane at one byte."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import Mask, first_lane, spread, value_at
from cutegen.emulator.ptx.model import Instruction


def astray(
    access: SharedAccess, lane: tuple[int, int], byte: int, verb: str, variables: Sequence[tuple[str, int, int]]
) -> Stop:
    """The fault of a lane that touches a byte between two of the variables, which are (name, start, end)."""
    name, start, end = max((v for v in variables if v[2] <= byte), key=lambda v: v[2])
    text = f"{verb} shared memory {byte - end} bytes past the end of {name}, which has {end - start} bytes"
    return Stop("out-of-bounds", text, access.instruction, lane, address=byte)


def part_of_mbarrier(access: SharedAccess, lane: tuple[int, int], byte: int, verb: str) -> Stop:
    """The fault of a lane that touches a byte of an mbarrier as if it were data."""
    text = f"{verb} byte {byte} of shared memory, which is part of an mbarrier until it is invalidated"
    return Stop("mbarrier", text, access.instruction, lane, address=byte)


def flying(
    access: SharedAccess,
    lane: tuple[int, int],
    byte: int,
    verb: str,
    copies: Iterable[SharedAccess],
    unit: int,
    shape: tuple[int, int],
) -> Stop:
    """The fault of a lane that touches a byte which one of the asynchronous `copies` still writes.

    A unit has `unit` bytes, and `shape` is that of the lanes.
    """
    copy = next((c for c in copies if _covers(c, byte // unit, lane[1], shape)), None)
    line, what = (0, "") if copy is None else (copy.instruction.line, f" of {copy.tensor}" if copy.tensor else "")
    return Stop(
        "in-flight",
        f"{verb} shared memory that a cp.async{what} (PTX line {line}) still writes: the thread that issued it has "
        "not waited for its group",
        access.instruction,
        lane,
        address=byte,
        witnesses=(Witness("the copy that is in flight", line),),
    )


def _covers(access: SharedAccess, row: int, block: int, shape: tuple[int, int]) -> bool:
    """Whether a thread of the block touches that row in an access."""
    rows = spread(access.rows, shape)[:, block]
    there = (rows <= row) & (row < rows + access.count)
    return has_any(there if access.mask is None else there & spread(access.mask, shape)[:, block])


def outside(
    places: Array, size: int, memory: int, mask: Mask, shape: tuple[int, int], instruction: Instruction
) -> Stop:
    """The fault of a lane of the mask that touches `size` bytes outside of the memory of a block, which has `memory`
    bytes. `places` has the byte of each lane, counted from the memory's first.
    """
    bad = (places < 0) | (places + size > memory)
    lane = first_lane(bad if mask is None else bad & mask, shape)
    where = value_at(places, lane, shape)
    how = f"{-where} bytes before its start" if where < 0 else f"bytes {where} to {where + size - 1}"
    text = f"{instruction.opcode} of {size} bytes of shared memory at {how}; the block has {memory} bytes"
    return Stop("out-of-bounds", text, instruction, lane, address=where)


def misaligned(
    places: Array, bad: Array, size: int, align: int, shape: tuple[int, int], instruction: Instruction
) -> Stop:
    """The fault of the first of the lanes `bad`, whose byte in `places` is not a multiple of `align`."""
    lane = first_lane(bad, shape)
    where = value_at(places, lane, shape)
    text = f"{instruction.opcode} of {size} bytes of shared memory at byte {where}, not a multiple of {align}"
    return Stop("misaligned", text, instruction, lane, address=where)
