"""cp.async, its groups and its waits, as operations on the lanes' state: copies from global to shared memory.

A copy fetches its source at once. But until the wait for it, its source counts as being read
(`checks.reads_in_flight`), and its destination as being written (`memory.shared_memory`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, both, first_lane
from cutegen.emulator.memory.units import join_units
from cutegen.emulator.operations.addresses import read_pointer
from cutegen.emulator.operations.loads_stores import AHEAD
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction, Operand, Register
from cutegen.emulator.ptx.types import STORAGE, TYPES, constant_array


def async_copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of cp.async, or of its commit_group, wait_group or wait_all.

    `slots` numbers the registers by name; `note` gets the smallest accesses. Raises UnsupportedInstruction for other
    forms of cp.
    """
    reader = InstructionReader(instruction)
    if not reader.leads("async"):
        reader.fail("this opcode")
    what = reader.choice("commit_group", "wait_group", "wait_all", default="copy")
    if what == "commit_group":
        reader.operands(0)
        return lambda lanes, mask: lanes.shared.commit(lanes.active(mask))
    if what == "wait_group":
        left = _whole_number(reader, reader.operands(1)[0])

        def wait(lanes: Lanes, mask: Mask) -> None:
            lanes.shared.wait(left, lanes.active(mask))

        return wait
    if what == "wait_all":
        reader.operands(0)

        def wait_for_all(lanes: Lanes, mask: Mask) -> None:
            lanes.shared.commit(lanes.active(mask))
            lanes.shared.wait(0, lanes.active(mask))

        return wait_for_all
    return _copy_from_global(reader, slots, places, note)


def _whole_number(reader: InstructionReader, operand: Operand) -> int:
    """The value of a constant operand that is not negative. Raises UnsupportedInstruction for any other operand."""
    if not isinstance(operand, Immediate) or operand.width is not None or operand.bits >> 63:
        reader.fail("a count that is no constant")
    return operand.bits


def _copy_from_global(reader: InstructionReader, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of cp.async.ca or cp.async.cg, without ignore-src and cache policies.

    Both addresses must be multiples of the copy's size, however much of the source is read. What is not read arrives
    as zeros.
    """
    instruction = reader.instruction
    level = reader.choice("ca", "cg")
    reader.choice(*AHEAD, default="")
    if not (reader.leads("shared") or reader.leads("shared::cta")) or not reader.leads("global"):
        reader.fail("only from global to shared memory")
    target, source, amount, *more = reader.operands(3, 4)
    size = _whole_number(reader, amount)
    if size not in ((16,) if level == "cg" else (4, 8, 16)):
        reader.fail(f"a copy of {size} bytes")
    given = reader.source(more[0], TYPES["u32"]) if more else Immediate(size, 32)
    if isinstance(given, Immediate) and given.bits > size:
        reader.fail(f"{given.bits} bytes of the source, {size} in all")
    slot = slots[given.name] if isinstance(given, Register) else -1
    fixed = constant_array(given.bits if isinstance(given, Immediate) else 0, 32)
    to, origin = (
        read_pointer(reader, target, "shared", slots, places),
        read_pointer(reader, source, "global", slots, places),
    )
    note("global", size)
    note("shared", min(size, 8))

    def copy(lanes: Lanes, mask: Mask) -> None:
        where, destination = origin.known_base(lanes, mask, instruction), to.known_base(lanes, mask, instruction)
        amounts = fixed if slot < 0 else lanes.get(slot)
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, "the size of a copy", instruction)
        active = lanes.active(mask)
        lanes.access.aligned(where, origin.offset, size, active, instruction)
        fetched = _FetchedUnits(size, lanes.shared.unit)
        for number in _distinct(amounts):
            part = active if amounts.size == 1 else both(active, amounts == number)
            if part is None or has_any(part):
                fetched.fetch(lanes, where, origin.offset, number, part, instruction)
        lanes.shared.copy(
            destination,
            to.offset,
            size,
            fetched.values,
            fetched.poison,
            fetched.flights,
            active,
            instruction,
            lanes.access.latest,
        )

    return copy


class _FetchedUnits:
    """The data that a copy of `size` bytes brings to shared memory, one value for each `unit` bytes: zeros at first.

    `poison` gives, for each value, the lanes in which it was never written. `flights` are the reads that go on until
    the copy arrives.
    """

    def __init__(self, size: int, unit: int) -> None:
        self.size, self.unit = size, unit
        self.values: list[Array] = [np.zeros((), STORAGE[unit * 8])] * (size // unit)
        self.poison: list[Mask] = [None] * (size // unit)
        self.flights: list[Flight] = []

    def fetch(
        self, lanes: Lanes, address: Array, offset: int, amount: int, part: Mask, instruction: Instruction
    ) -> None:
        """Fetches the first `amount` bytes of the source for the lanes of the mask `part`.

        Raises Stop if `amount` is more than the size of the copy, and as a load from global memory does.
        """
        if amount > self.size:
            lane = first_lane(np.ones((1, 1), np.bool_) if part is None else part, lanes.shape)
            text = f"cp.async of {amount} bytes from the source, {self.size} in all"
            raise Stop("out-of-bounds", text, instruction, lane)
        if amount == 0:
            return
        piece = gcd(amount, self.unit)  # bytes
        at_once = self.size // piece if amount == self.size else 1
        pieces: list[Array] = []
        lost: list[Mask] = []
        for start in range(0, amount, piece * at_once):
            values, bad = lanes.access.load(
                address, offset + start, piece, at_once, part, instruction, flights=self.flights
            )
            pieces += values
            lost += bad
        left = (self.size - amount) // piece
        pieces += [np.zeros((), STORAGE[piece * 8])] * left
        lost += [None] * left
        each = self.unit // piece
        for i in range(len(self.values)):
            value = pieces[i] if each == 1 else join_units(pieces[i * each : (i + 1) * each])
            self.values[i] = value if part is None else np.where(part, value, self.values[i])
            for mask in lost[i * each : (i + 1) * each]:
                before = self.poison[i]
                if mask is not None:
                    self.poison[i] = mask if before is None else before | mask


def _distinct(amounts: Array) -> list[int]:
    """The different values of an array; nearly always there are one or two."""
    low, high = amounts.min(), amounts.max()
    if low == high:
        return [int(low)]
    if ((amounts == low) | (amounts == high)).all():
        return [int(low), int(high)]
    return [int(a) for a in np.unique(amounts)]
