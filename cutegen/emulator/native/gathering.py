"""Cuts basic blocks into segments, and into what numpy runs between them.

An instruction on registers may be done before others that neither read nor write what it writes, nor write what it
reads; so there are few segments, and long ones. Nothing is done on the other side of an instruction that does more than
read and write registers and memory.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from cutegen.emulator.instructions.pure_op import PureOp
from cutegen.emulator.memory.placement import Place
from cutegen.emulator.native.graphs import GraphMaker, Lowered
from cutegen.emulator.native.library import Core
from cutegen.emulator.native.lowering import lower
from cutegen.emulator.native.segments import Segment
from cutegen.emulator.native.spreading import spreads
from cutegen.emulator.operations.alike import gather_alike
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.ptx.model import Instruction, Register, Symbol

_PASSED = frozenset(("ld", "st", "cvta", "shfl", "mma", "ldmatrix"))
"""Opcodes of instructions that others on registers may be done before and after: they change registers and memory."""


class Gathering:
    """Cuts basic blocks of one program. `slots` numbers its registers by name, and `widths` are theirs in bits."""

    def __init__(
        self, core: Core, slots: Mapping[str, int], widths: Sequence[int], places: Mapping[str, Place]
    ) -> None:
        self.core, self.slots, self.widths, self.places = core, slots, widths, places

    def steps(
        self,
        operations: Sequence[tuple[int, Operation]],
        instructions: Sequence[Instruction],
        pure: Sequence[PureOp | None],
        reads: Sequence[Sequence[int]],
        writes: Sequence[Sequence[int] | None],
        live: Collection[int],
    ) -> tuple[tuple[int, Operation], ...]:
        """The operations of a basic block, each with the number of its instruction, with segments in their places.

        `pure` has the semantics of instructions on registers. `live` are the slots of the registers that are read after
        the block.
        """
        lowered: dict[int, Lowered] = {}
        for number, _ in operations:
            if (op := pure[number]) is not None and (one := self._lowered(instructions[number], op)) is not None:
                lowered[number] = one
        runs = _runs([number for number, _ in operations], instructions, reads, writes, lowered)
        alone = dict(operations)
        needed = [set(live)]
        for native, numbers in reversed(runs):
            now = set(needed[-1])
            for number in reversed(numbers):
                if native and instructions[number].guard is None:
                    now -= set(writes[number] or ())
                now |= set(reads[number])
            needed.append(now)
        found: list[tuple[int, Operation]] = []
        for (native, numbers), after in zip(runs, reversed(needed[:-1]), strict=True):
            gather = partial(gather_alike, [(number, alone[number]) for number in numbers], reads, writes)
            if not native:
                found += gather()
                continue
            maker = GraphMaker(self.core.operations, self.widths)
            for number in numbers:
                maker.add(lowered[number])
            told = partial(spreads, [(lowered[number], op) for number in numbers if (op := pure[number]) is not None])
            segment = Segment(self.core, maker.graph(after), self.widths, gather, told)
            found.append((numbers[0], segment))
        return tuple(found)

    def knows(self, instruction: Instruction, op: PureOp) -> bool:
        """Whether the core runs an instruction on registers."""
        return self._lowered(instruction, op) is not None

    def _lowered(self, instruction: Instruction, op: PureOp) -> Lowered | None:
        """An instruction as expressions of the core, or None where it has none."""
        if any(isinstance(source, Symbol) for source in op.sources):  # whose place is another one in another program
            nodes = lower(instruction, op, self.places)
        elif "nodes" in op.kept:
            nodes = op.kept["nodes"]
        else:
            nodes = op.kept["nodes"] = lower(instruction, op, self.places)
        if nodes is None:
            return None
        targets = tuple(self.slots[d.name] if d.width else -1 for d in op.destinations)
        sources = tuple(self.slots[s.name] if isinstance(s, Register) else -1 for s in op.sources)
        guard = instruction.guard
        slot = None if guard is None else self.slots[guard.register.name]
        return Lowered(nodes, targets, sources, slot, guard is not None and guard.negated, instruction)


def _runs(
    numbers: Sequence[int],
    instructions: Sequence[Instruction],
    reads: Sequence[Sequence[int]],
    writes: Sequence[Sequence[int] | None],
    lowered: Collection[int],
) -> list[tuple[bool, list[int]]]:
    """The instructions with these numbers in runs, in the order in which they are done; whether the core does each run.

    A run of the core has all instructions that can be done, and one of numpy as few as there must be before the core
    can go on.
    """
    before = _before(numbers, instructions, reads, writes)
    left = {number: len(earlier) for number, earlier in before.items()}
    after: dict[int, list[int]] = {number: [] for number in numbers}
    for number, earlier in before.items():
        for one in earlier:
            after[one].append(number)
    ready: tuple[set[int], set[int], set[int]] = (set(), set(), set())  # of the core, of numpy, and of memory

    def kind(number: int) -> int:
        if number in lowered:
            return 0
        return 1 if writes[number] is not None and instructions[number].opcode != "ld" else 2

    for number in numbers:
        if not left[number]:
            ready[kind(number)].add(number)
    runs: list[tuple[bool, list[int]]] = []
    while any(ready):
        which = next(k for k in range(3) if ready[k])
        done: list[int] = []
        while ready[which]:
            number = min(ready[which])
            ready[which].remove(number)
            done.append(number)
            for later in after[number]:
                left[later] -= 1
                if not left[later]:
                    ready[kind(later)].add(later)
        if runs and which and not runs[-1][0]:
            runs[-1][1].extend(done)
        else:
            runs.append((which == 0, done))
    return runs


def _before(
    numbers: Sequence[int],
    instructions: Sequence[Instruction],
    reads: Sequence[Sequence[int]],
    writes: Sequence[Sequence[int] | None],
) -> dict[int, set[int]]:
    """Which instructions must be done before each."""
    before: dict[int, set[int]] = {}
    written: dict[int, int] = {}  # slot -> what writes it last
    read: dict[int, set[int]] = {}  # slot -> what reads it since then
    wall = memory = -1  # the last instruction that nothing passes, and the last one on memory
    since: list[int] = []  # what has come since the wall
    for number in numbers:
        targets = writes[number]
        sources: Collection[int] = reads[number]
        on_registers = targets is not None and instructions[number].opcode != "ld"
        needed = {wall} if wall >= 0 else set()
        if targets is None:
            targets = tuple(reads[number])  # which of its operands it writes is not known
            if instructions[number].opcode not in _PASSED:
                needed |= set(since)
        if not on_registers and memory >= 0:
            needed.add(memory)
        for slot in sources:
            if slot in written:
                needed.add(written[slot])
        for slot in targets:
            needed |= read.get(slot, set())
            if slot in written:
                needed.add(written[slot])
        before[number] = needed - {number}
        for slot in targets:
            written[slot] = number
            read[slot] = set()
        for slot in sources:
            if slot not in targets:
                read.setdefault(slot, set()).add(number)
        since.append(number)
        if not on_registers:
            memory = number
            if writes[number] is None and instructions[number].opcode not in _PASSED:
                wall, since = number, []
    return before
