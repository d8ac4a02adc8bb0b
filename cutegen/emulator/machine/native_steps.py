"""The operations of a program's basic blocks, with those on registers done by the C core where there is one."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Literal

from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.machine.joined_blocks import Arm, InArm, Look, Part, leading_to, parts_from
from cutegen.emulator.machine.liveness import end_registers, live_registers
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.regions import successors
from cutegen.emulator.native.gathering import Gathering
from cutegen.emulator.native.library import Core, core
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.ptx.model import Instruction

How = Literal["alone", "joined", "watched"]
"""How basic blocks are run: each by itself, joined to others, or by itself so that loops can be cut short."""

COMPARING = ("setp", "set")
"""Opcodes of instructions that compare."""

Steps = tuple[tuple[int, Operation], ...]


@dataclass(frozen=True)
class Joined:
    """Basic blocks that are run as one: the `steps` of all of them, each with the place of its first instruction among
    the `instructions`, the number of the `last` block, at whose end they end, and how many instructions all threads
    execute that go through them, besides those of the `arms`.
    """

    steps: Steps
    instructions: tuple[Instruction, ...]
    last: int
    count: int
    arms: tuple[Arm, ...]


class _Body:
    """The instructions of basic blocks that are joined, as `Gathering.steps` takes them."""

    def __init__(self) -> None:
        self.operations: list[tuple[int, Operation]] = []
        self.instructions: list[Instruction] = []
        self.pure: list[PureOp | None] = []
        self.reads: list[tuple[int, ...]] = []
        self.writes: list[tuple[int, ...] | None] = []


class NativeSteps:
    """The steps of a program's basic blocks, one by one or joined, each made when it is first asked for."""

    def __init__(self, program: Program, found: Core) -> None:
        self._program = program
        self.gathering = Gathering(found, program.slots, program.widths, program.placement.places)
        self._live = [*live_registers(program), frozenset[int]()]
        self._before = leading_to(program)
        self._made: dict[tuple[int, How], Joined] = {}

    def of(self, number: int, how: How) -> Joined:
        """The steps that run from the basic block with that number on: of that block, or of all that are joined to it.

        If they are to be watched, registers that comparisons read are kept, too.
        """
        key = number, how
        if key not in self._made:
            parts = [Part(number, self._program.blocks[number])]
            if how == "joined":
                parts = parts_from(self._program, number, self._before)
            self._made[key] = self._make(parts, compared=how == "watched")
        return self._made[key]

    def _make(self, parts: Sequence[Part], *, compared: bool) -> Joined:
        program, last, body = self._program, parts[-1], _Body()
        arms, count = [], 0
        for part in parts:
            own = len(part.block.instructions) + 1
            if part.over is None:
                self._add(body, part)
                count += own
            else:
                arms.append(Arm(part.over, own, None not in part.block.pure))
                self._add_arm(body, part, arms[-1], self._live[part.number + 1])
        after = [self._live[n] for n in successors(program.blocks, last.number)]
        live = frozenset(end_registers(last.block, program.slots)).union(*after)
        if compared:
            pairs = zip(body.instructions, body.reads, strict=True)
            live = live.union(*(reads for instruction, reads in pairs if instruction.opcode in COMPARING))
        steps = self.gathering.steps(body.operations, body.instructions, body.pure, body.reads, body.writes, live)
        return Joined(steps, tuple(body.instructions), last.number, count, tuple(arms))

    @staticmethod
    def _add(body: _Body, part: Part) -> None:
        """Adds a basic block that all lanes run."""
        block, first = part.block, len(body.instructions)
        body.operations += [(first + place, operation) for place, operation in block.single_steps]
        body.instructions += block.instructions
        body.pure += block.pure
        body.reads += block.reads
        body.writes += block.writes

    def _add_arm(self, body: _Body, part: Part, arm: Arm, live: Collection[int]) -> None:
        """Adds an arm; `live` are the slots of the registers that are read after it."""
        block, first, widths = part.block, len(body.instructions), self._program.widths
        doing: dict[int, Operation] = dict(block.single_steps)
        looked = False
        for place, (instruction, op, reads, writes) in enumerate(
            zip(block.instructions, block.pure, block.reads, block.writes, strict=True)
        ):
            private = [slot for slot in writes or () if slot not in live]
            kept = tuple(slot for slot in writes or () if slot in live)
            shared = writes is None or len(private) < len(writes)
            guarded = arm.under_guard(instruction)
            if op is not None and not shared and self.gathering.knows(instruction, op):
                guarded = instruction
            body.instructions.append(guarded)
            body.pure.append(op)
            body.writes.append(writes)
            if guarded is instruction:
                body.reads.append(reads)
            else:
                body.reads.append((*reads, arm.slot, *kept))
            if place in doing:
                operation = doing[place]
                if guarded is not instruction:
                    fresh = not set(private).intersection(reads)
                    operation = InArm(arm, operation, [(slot, widths[slot]) for slot in private], fresh, kept)
                    looked = looked or op is None or not self.gathering.knows(guarded, op)
                body.operations.append((first + place, operation))
        if not looked:
            body.operations.append((len(body.instructions), Look(arm)))
            body.instructions.append(arm.instruction)
            body.pure.append(None)
            body.reads.append((arm.slot,))
            body.writes.append(())


def native_steps(program: Program) -> NativeSteps | None:
    """The steps of a program's basic blocks with the C core, made once for each program; None if there is no core."""
    found = core()
    if found is None:
        return None
    kept = program.kept
    if "native" not in kept:
        kept["native"] = NativeSteps(program, found)
    made = kept["native"]
    assert isinstance(made, NativeSteps)
    return made
