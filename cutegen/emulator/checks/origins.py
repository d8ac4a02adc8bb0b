"""Where poison comes from: the read of what was never written, for each register of each lane and each unit of memory.

This is kept only in a second run of a launch, once the first one has found that something depends on what was never
written. It watches each instruction from outside: the poison of what it read goes to what it wrote. Where lanes
exchange values, it is not told which of them it comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.lanes import Mask, both
from cutegen.emulator.ptx.model import Address, Guard, Instruction, Operand, Register, Vector

if TYPE_CHECKING:
    from cutegen.emulator.checks.global_races import Epochs

_NONE = np.zeros((1, 1), np.int64)
_EXCHANGES = ("shfl", "vote", "match", "redux", "mma", "wgmma", "ldmatrix")


class Registers(Protocol):
    """The registers of lanes, by number: `bits` and `wide` hold their values, `poison` what of these means nothing."""

    bits: list[Array | None]
    wide: list[Array | None]
    poison: dict[int, Array]

    def get(self, slot: int) -> Array:
        """The raw bits of a register."""


L = TypeVar("L", bound=Registers)


@dataclass(frozen=True)
class Origin:
    """An instruction that read what was never written.

    `describe` says what it read in a lane (thread, block) of its batch, `what` what all lanes did, and `passed` how
    many barriers each block had passed then, shape (1, blocks). `tensor` is the tensor that it read, if any.
    """

    instruction: Instruction
    describe: Callable[[tuple[int, int]], str]
    what: str
    passed: Array
    tensor: str = ""


class Origins:
    """The origins of all poison of the lanes of a batch.

    They are kept as marks, which tell an origin and the lane in which it was; a mark of 0 stands for none.

    `slots` numbers the registers by name, and `shape` and `epochs` are those of the batch. `loaded` are the marks of
    what the instruction that runs has read from memory, None if that has no poison, and `stored` those of what it
    writes there, as arrays that broadcast to the lanes. `first` is the first fault that poison has led to, after which
    the run goes on, and `tensor` the tensor that its poison comes from, if it comes from one.
    """

    def __init__(self, slots: Mapping[str, int], shape: tuple[int, int], epochs: Epochs) -> None:
        self.slots, self.shape, self.epochs = slots, shape, epochs
        self.first: Stop | None = None
        self.tensor = ""
        self.loaded: Array | None = None
        self.stored: Array = _NONE
        self._lanes: Array = np.arange(shape[0] * shape[1]).reshape(shape)
        self._known: list[Origin] = []
        self._of: dict[int, Array] = {}
        self._read: dict[int, tuple[int, ...]] = {}

    def add(
        self, instruction: Instruction, describe: Callable[[tuple[int, int]], str], what: str, tensor: str = ""
    ) -> Array:
        """Notes an origin, whose fields are as for `Origin`, and returns its mark for each lane."""
        self._known.append(Origin(instruction, describe, what, self.epochs.barriers, tensor))
        return np.asarray(len(self._known) * self._lanes.size + self._lanes)

    def load(self, marks: Array) -> None:
        """Notes where the poison comes from that the instruction that runs has read from memory."""
        self.loaded = marks if self.loaded is None else np.where(self.loaded != 0, self.loaded, marks)

    def run(self, operation: Callable[[L, Mask], None], instruction: Instruction, lanes: L, mask: Mask) -> None:
        """Runs an operation in the lanes of the mask, and notes what origin the poison has that it has written."""
        read = self._slots_of(instruction)
        for slot in read:
            if lanes.bits[slot] is None and lanes.wide[slot] is None:
                self._of[slot] = self._of_register(slot, instruction, "was never")
        before, found = dict(lanes.poison), self._sources(read, instruction, lanes)
        self.stored, self.loaded = found, None
        operation(lanes, mask)
        mask = self._executing(instruction, lanes, mask)
        if self.loaded is not None:
            found = np.where(self.loaded != 0, self.loaded, found)
        added: Sequence[str] = ()  # registers that mean nothing already, and the less for these operands
        if instruction.opcode in _EXCHANGES and has_any(found):
            found = self._of_any_lane(found)
            added = _names(instruction.operands[0]) if instruction.opcode == "wgmma" else ()
        for slot in (self.slots[name] for name in added):
            known = self._of.get(slot, _NONE)
            self._of[slot] = np.where((found != 0) if mask is None else (found != 0) & mask, found, known)
        for slot, poison in lanes.poison.items():
            if poison is not before.get(slot) and not (slot in read and slot not in before):
                bare = poisoned_lanes(poison) & (found == 0)
                whole = np.where(bare, self._of_result(instruction), found) if has_any(bare) else found
                self._of[slot] = whole if mask is None else np.where(mask, whole, self._of.get(slot, _NONE))

    def spoil(self, slots: Sequence[int], predicate: int, mask: Array) -> None:
        """Notes that registers have in the lanes of the mask the poison that a predicate has."""
        origin = self._of.get(predicate, _NONE)
        for slot in slots:
            self._of[slot] = np.where(mask, origin, self._of.get(slot, _NONE))

    def explained(self, stop: Stop, lanes: Registers) -> Stop:
        """A fault `never-written` with a witness of where the value comes from."""
        if stop.instruction is None or stop.lane is None:
            return stop
        slots = self._slots_of(stop.instruction)
        for slot in reversed(slots) if stop.explanation.startswith("an address") else slots:
            poison = lanes.poison.get(slot)
            if poison is None or not np.broadcast_to(poisoned_lanes(poison), self.shape)[stop.lane]:
                continue
            number, index = divmod(
                int(np.broadcast_to(self._of.get(slot, _NONE), self.shape)[stop.lane]), self._lanes.size
            )
            lane = (index // self.shape[1], index % self.shape[1])
            if not number:
                text = f"the value comes from register {self._name(slot)}, which this thread has not written"
                stop.witnesses = (Witness(text, 0),)
            else:
                origin = self._known[number - 1]
                barriers = int(np.broadcast_to(origin.passed, self.shape)[lane])
                when = f", after {barriers} barrier{'s' * (barriers != 1)}" if barriers else ""
                text = f"the value comes from {origin.describe(lane)}{when}"
                stop.witnesses = (Witness(text, origin.instruction.line),)
                if self.first is None:
                    self.tensor = origin.tensor
            return stop
        return stop

    def _sources(self, read: Sequence[int], instruction: Instruction, lanes: Registers) -> Array:
        """For each lane, the origin of the first of these registers that is poison there."""
        found: Array = np.zeros(self.shape, np.int64)
        for slot in read:
            poison = lanes.poison.get(slot)
            if poison is None and (lanes.bits[slot] is not None or lanes.wide[slot] is not None):
                continue
            bad = np.asarray(True) if poison is None else poisoned_lanes(poison)
            marks = self._of.get(slot, _NONE)
            if has_any((marks == 0) & bad):
                marks = np.where(marks == 0, self._of_register(slot, instruction, "this thread has not"), marks)
                self._of[slot] = marks
            found = np.where((found == 0) & bad, marks, found)
        return found

    def _executing(self, instruction: Instruction, lanes: Registers, mask: Mask) -> Mask:
        """The lanes of the mask in which the guard of an instruction holds, or may hold; None for all of them."""
        if instruction.guard is None:
            return mask
        slot = self.slots[instruction.guard.register.name]
        value, poison = lanes.get(slot), lanes.poison.get(slot)
        held = ~value if instruction.guard.negated else value
        return both(mask, held if poison is None else held | poison)

    def _of_register(self, slot: int, instruction: Instruction, by: str) -> Array:
        """The marks of a register that an instruction reads and that was never written, as `by` says."""
        text = f"register {self._name(slot)}, which {by} written"
        return self.add(instruction, lambda lane: text, text)

    def _of_result(self, instruction: Instruction) -> Array:
        """The marks of a result that means nothing though all that it is computed from does."""
        text = f"{instruction.name}, whose result PTX leaves open"
        return self.add(instruction, lambda lane: text, text)

    def _of_any_lane(self, marks: Array) -> Array:
        """Marks like the given ones, without the lane, for all lanes of a block in which one has a mark."""
        new = np.zeros_like(marks)
        for number in np.unique(marks // self._lanes.size):
            if number:
                old = self._known[int(number) - 1]
                mark = self.add(old.instruction, lambda lane, what=old.what: what, old.what, old.tensor)  # type: ignore[misc]
                some = (marks // self._lanes.size == number).any(axis=0, keepdims=True)
                new = np.where(some, mark, new)
        return new

    def _name(self, slot: int) -> str:
        """The name of a register."""
        return next((name for name, number in self.slots.items() if number == slot), "")

    def _slots_of(self, instruction: Instruction) -> tuple[int, ...]:
        """The slots of the registers that an instruction reads, those of the address that it writes to last."""
        if id(instruction) not in self._read:
            first, *others = instruction.operands or (None,)
            guard = () if instruction.guard is None else (instruction.guard,)
            target = (first,) if isinstance(first, Address) else ()
            names = [name for operand in (*others, *guard, *target) for name in _names(operand)]
            self._read[id(instruction)] = tuple(self.slots[name] for name in dict.fromkeys(names) if name in self.slots)
        return self._read[id(instruction)]


def _names(operand: Operand | None) -> list[str]:
    """The names of the registers in an operand."""
    if isinstance(operand, Register):
        return [operand.name] if operand.width else []
    if isinstance(operand, Vector):
        return [i.name for i in operand.items if isinstance(i, Register) and i.width]
    if isinstance(operand, Guard):
        return [operand.register.name]
    if isinstance(operand, Address) and isinstance(operand.base, Register):
        return [operand.base.name]
    return []
