"""Asynchronous copies from global to shared memory: cp.async, its groups and its waits.

A copy fetches its source at once, but until it arrives, at the wait, its source counts as being read (`flights.py`) and
its destination as being written (`shared.py`).
"""

from __future__ import annotations

from collections.abc import Mapping
from math import gcd

import numpy as np

from cutegen.emulator.flights import Flight
from cutegen.emulator.form import TYPES, Form
from cutegen.emulator.lanes import Array, Mask, Stop, both, first
from cutegen.emulator.moves import AHEAD, Note, Operation, pointer
from cutegen.emulator.pure import Places
from cutegen.emulator.shared import join
from cutegen.emulator.state import Lanes
from cutegen.emulator.types import STORAGE, Immediate, Instruction, Operand, Register, constant


def copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """cp.async, its commit_group, wait_group and wait_all. `note` is told the least sizes that are moved."""
    form = Form(instruction)
    if not form.leads("async"):
        form.fail("this opcode")
    what = form.choice("commit_group", "wait_group", "wait_all", default="copy")
    if what == "commit_group":
        form.done(0)
        return lambda lanes, mask: lanes.shared.commit(lanes.active(mask))
    if what == "wait_group":
        left = _whole(form, form.done(1)[0])
        return lambda lanes, mask: lanes.shared.wait(left, lanes.active(mask))
    if what == "wait_all":
        form.done(0)

        def all_of_them(lanes: Lanes, mask: Mask) -> None:
            lanes.shared.commit(lanes.active(mask))
            lanes.shared.wait(0, lanes.active(mask))

        return all_of_them
    return _copy(form, slots, places, note)


def _whole(form: Form, operand: Operand) -> int:
    if not isinstance(operand, Immediate) or operand.width is not None or operand.bits >> 63:
        form.fail("a count that is no constant")
    return operand.bits


def _copy(form: Form, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """cp.async.ca and cp.async.cg, but for ignore-src and cache policies. Both addresses are multiples of the copy's
    size, however much of the source is read; what is not read arrives as zeros."""
    instruction = form.instruction
    level = form.choice("ca", "cg")
    form.choice(*AHEAD, default="")
    if not (form.leads("shared") or form.leads("shared::cta")) or not form.leads("global"):
        form.fail("only from global to shared memory")
    target, source, amount, *more = form.done(3, 4)
    size = _whole(form, amount)
    if size not in ((16,) if level == "cg" else (4, 8, 16)):
        form.fail(f"a copy of {size} bytes")
    given = form.source(more[0], TYPES["u32"]) if more else Immediate(size, 32)
    if isinstance(given, Immediate) and given.bits > size:
        form.fail(f"{given.bits} bytes of the source, {size} in all")
    slot = slots[given.name] if isinstance(given, Register) else -1
    fixed = constant(given.bits if isinstance(given, Immediate) else 0, 32)
    to, origin = pointer(form, target, "shared", slots, places), pointer(form, source, "global", slots, places)
    note("global", size)
    note("shared", min(size, 8))

    def operation(lanes: Lanes, mask: Mask) -> None:
        where, destination = origin.at(lanes, mask, instruction), to.at(lanes, mask, instruction)
        if slot in lanes.poison:
            lanes.refuse(lanes.poison[slot], mask, "the size of a copy", instruction)
        active = lanes.active(mask)
        lanes.access.aligned(where, origin.offset, size, active, instruction)
        fetched = _Fetched(size, lanes.shared.unit)
        amounts = fixed if slot < 0 else lanes.get(slot)
        for number in _distinct(amounts):
            part = active if amounts.size == 1 else both(active, amounts == number)
            if part is None or part.any():
                fetched.take(lanes, where, origin.offset, number, part, instruction)
        lanes.shared.copy(
            destination, to.offset, size, fetched.values, fetched.poison, fetched.flights, active, instruction
        )

    return operation


class _Fetched:
    """What a copy of `size` bytes brings, in units of shared memory: zeros, until something is taken."""

    def __init__(self, size: int, unit: int) -> None:
        self.size, self.unit = size, unit
        self.values: list[Array] = [np.zeros((), STORAGE[unit * 8])] * (size // unit)
        self.poison: list[Mask] = [None] * (size // unit)
        self.flights: list[Flight] = []

    def take(
        self, lanes: Lanes, address: Array, offset: int, amount: int, part: Mask, instruction: Instruction
    ) -> None:
        """The first `amount` bytes of the source, in the lanes of `part`."""
        if amount > self.size:
            lane = first(np.ones((1, 1), np.bool_) if part is None else part, lanes.shape)
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
            value = pieces[i] if each == 1 else join(pieces[i * each : (i + 1) * each])
            self.values[i] = value if part is None else np.where(part, value, self.values[i])
            for mask in lost[i * each : (i + 1) * each]:
                before = self.poison[i]
                if mask is not None:
                    self.poison[i] = mask if before is None else before | mask


def _distinct(amounts: Array) -> list[int]:
    """The different values; nearly always one, or two."""
    low, high = amounts.min(), amounts.max()
    if low == high:
        return [int(low)]
    if ((amounts == low) | (amounts == high)).all():
        return [int(low), int(high)]
    return [int(a) for a in np.unique(amounts)]


__all__ = ["copy_operation"]
