"""Lanes whose way from a branch depends on what was never written: they may go either way, so both are tried.

That is no fault where it makes no difference but in registers, as where a kernel computes with what it has not loaded
for lanes that are masked off. Where the ways meet, what one of them has written means nothing in those lanes. It is a
fault where such a lane comes to an instruction that does more than write registers or read memory, where what a way
reads must not be read, and where a loop may run any number of times.
"""

from __future__ import annotations

from collections.abc import Callable

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import Mask, both
from cutegen.emulator.machine.native_steps import Joined, NativeSteps
from cutegen.emulator.machine.program import End, Program
from cutegen.emulator.machine.regions import regions_of, successors
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction

Send = Callable[[int, Mask], None]
"""Receives the number of a basic block and the lanes that go there."""

_LOOP = "how often a loop runs"


class EitherWay:
    """Tries both ways from a branch. `limit` is the most instructions that one of them may execute, and `native` has
    what basic blocks do by the C core, if they may be run so.
    """

    def __init__(self, program: Program, lanes: Lanes, limit: int, native: NativeSteps | None) -> None:
        self.program, self.lanes, self.limit = program, lanes, limit
        self._native = native
        self._plain: dict[int, bool] = {}

    def try_both(self, number: int, undecided: Array) -> int:
        """Tries both ways of the `undecided` lanes from the end of the basic block with that number.

        Returns the number of the basic block where they meet, or that of basic blocks if it is the end of the threads.
        Raises Stop for a fault on the way, and if the way makes a difference.
        """
        decided, lanes = regions_of(self.program).of(number), self.lanes
        if decided.repeats:
            raise self._difference(number, undecided, _LOOP)
        # A read marks an uninitialised register; origins distinguish it
        slots = decided.written if lanes.origins is None else range(len(lanes.bits))
        held = [(slot, lanes.bits[slot], lanes.wide[slot], lanes.poison.get(slot)) for slot in slots]
        for way in successors(self.program.blocks, number):
            self._go(number, way, decided.join, undecided)
            for slot, lanes.bits[slot], lanes.wide[slot], poison in held:
                if poison is None:
                    lanes.poison.pop(slot, None)
                else:
                    lanes.poison[slot] = poison
        guard = self.program.blocks[number].end.guard
        assert guard is not None
        lanes.spoil(decided.written, undecided, guard)
        return decided.join

    def _go(self, number: int, way: int, join: int, undecided: Array) -> None:
        """Runs the lanes from the basic block `way` to `join`, as the end of that with the `number` may send them."""
        ready: dict[int, Array] = {way: undecided}
        executed = 0

        def send(where: int, some: Mask) -> None:
            assert some is not None
            ready[where] = ready[where] | some if where in ready else some

        while ready:
            at = min(ready)
            mask = ready.pop(at)
            if at in (join, len(self.program.blocks)):
                continue
            block = self.program.blocks[at]
            executed += len(block.instructions) + 1
            if executed > self.limit:
                raise self._difference(number, mask, _LOOP)
            if self._native is not None and self._is_plain(at):
                self._run(self._native.of(at, "alone"), mask)
                self._leave(number, at, block.end, mask, send)
                continue
            for operation, instruction, writes in zip(block.operations, block.instructions, block.writes, strict=True):
                if writes is None:
                    self._check_unreached(number, instruction, mask)
                    continue
                try:
                    operation(self.lanes, mask)
                except Stop as stop:
                    stop.instruction = stop.instruction or instruction
                    raise
            self._leave(number, at, block.end, mask, send)

    def _is_plain(self, at: int) -> bool:
        """Whether the basic block `at` only writes registers and reads memory, none of it under a guard: the core
        leaves out what nothing reads, and with it a guard that depends on what was never written.
        """
        if at not in self._plain:
            block = self.program.blocks[at]
            self._plain[at] = None not in block.writes and not any(one.guard for one in block.instructions)
        return self._plain[at]

    def _run(self, block: Joined, mask: Array) -> None:
        """Runs a basic block that only writes registers and reads memory."""
        index = 0
        try:
            for index, operation in block.steps:  # noqa: B007
                operation(self.lanes, mask)
        except Stop as stop:
            stop.instruction = stop.instruction or block.instructions[index]
            raise

    def _leave(self, number: int, at: int, end: End, mask: Array, send: Send) -> None:
        """Sends lanes on from the end of the basic block `at`."""
        lanes = self.lanes
        if end.kind in ("barrier", "wait", "trap"):
            assert end.instruction is not None
            self._check_unreached(number, end.instruction, mask)
            send(at + 1, mask)
            return
        if end.kind == "fall" or end.guard is None or end.instruction is None:
            (onward,) = successors(self.program.blocks, at)
            send(onward, mask)
            return
        undecided = lanes.undecided(end.guard, mask)
        if undecided is not None:
            send(self.try_both(at, undecided), undecided)
            left = lanes.without(mask, undecided)
            if left is False:
                return
            mask = left
        taken = lanes.guard(end.guard, end.negated, mask, end.instruction)
        onward, target = successors(self.program.blocks, at)
        if taken is False:
            send(onward, mask)
            return
        send(target, taken)
        rest = both(mask, ~taken)
        if taken is not mask and rest is not None and has_any(rest):
            send(onward, rest)

    def _check_unreached(self, number: int, instruction: Instruction, mask: Array) -> None:
        """Raises Stop if a lane of the mask executes an instruction that does more than write registers."""
        if instruction.guard is not None:
            slot = self.program.slots[instruction.guard.register.name]
            if self.lanes.undecided(slot, mask) is None:
                held = self.lanes.guard(slot, instruction.guard.negated, mask, instruction)
                if held is False:
                    return
                mask = held
        raise self._difference(number, mask, f"whether {instruction.name} (PTX line {instruction.line}) runs")

    def _difference(self, number: int, mask: Array, what: str) -> Stop:
        """The fault that the end of a basic block decides something that must not depend on what was never written."""
        end, lanes = self.program.blocks[number].end, self.lanes
        assert end.guard is not None and end.instruction is not None
        return lanes.refusal(mask, "a predicate", end.instruction, f"; it decides {what}")
