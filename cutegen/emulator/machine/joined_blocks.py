"""Basic blocks that are run as one: the short arms of branches as instructions under a guard.

Code that touches some elements of a row only has a branch for each element, over the few instructions that do so. Run
one after the other, such blocks take many short calls, each for all lanes. Joined, what they compute in registers is a
segment of the C core or two, and only what else they do looks at the guard.

An arm is a basic block that its lanes leave to the place where the others go at once. A register that nothing reads
after the arm is private: it may hold anything in lanes that do not take the arm. So what computes it runs for all
lanes, and never leaves poison.

It is no fault where the way of a lane depends on what was never written, if that makes no difference. What an arm that
only computes has written means nothing in such a lane afterwards. No other arm is run as its instructions then:
`Undecided` is raised, and the launch runs again, block by block.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from operator import is_
from typing import Any

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask
from cutegen.emulator.machine.program import Block, End, Program
from cutegen.emulator.machine.regions import successors
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Guard, Instruction
from cutegen.emulator.ptx.types import constant_array

_LONGEST = 24  # instructions of an arm: where no lane takes a longer one, a branch over it costs less


class Undecided(Exception):
    """Raised where it depends on what was never written which lanes take an arm that does more than compute."""


@dataclass(frozen=True)
class Part:
    """A basic block among those that are joined, with its number, and the end of the one before if it is an arm."""

    number: int
    block: Block
    over: End | None = None


def parts_from(program: Program, number: int, before: Sequence[Collection[int]]) -> list[Part]:
    """The basic blocks that are joined from that with the number on; `before` has, for each one, those that lead to it.

    Lanes come to the others from these alone.
    """
    blocks = program.blocks
    found = [Part(number, blocks[number])]
    while True:
        at = found[-1].number
        end = blocks[at].end
        if end.kind == "fall" and before[at + 1] == {at}:
            found.append(Part(at + 1, blocks[at + 1]))
        elif _is_over_an_arm(blocks, at, before):
            found += [Part(at + 1, blocks[at + 1], end), Part(at + 2, blocks[at + 2])]
        else:
            return found


def leading_to(program: Program) -> list[set[int]]:
    """For each basic block the numbers of those that lead to it; -1 is where threads begin."""
    found: list[set[int]] = [set() for _ in range(len(program.blocks) + 1)]
    found[0].add(-1)
    for number in range(len(program.blocks)):
        for following in successors(program.blocks, number):
            found[following].add(number)
    return found


def _is_over_an_arm(blocks: Sequence[Block], at: int, before: Sequence[Collection[int]]) -> bool:
    """Whether a basic block ends with a branch over an arm."""
    end = blocks[at].end
    if end.kind != "branch" or end.guard is None or end.target != at + 2 or at + 2 >= len(blocks):
        return False
    arm = blocks[at + 1]
    return (
        (arm.end.kind, before[at + 1], before[at + 2]) == ("fall", {at}, {at, at + 1})
        and len(arm.instructions) <= _LONGEST
        and not any(instruction.guard for instruction in arm.instructions)
        and not any(
            end.guard in (reads if writes is None else writes)
            for reads, writes in zip(arm.reads, arm.writes, strict=True)
        )
    )


class Arm:
    """Which lanes take an arm of `count` instructions: those that do not take the branch `over` it.

    `instruction` is the branch and `slot` that of its predicate; `latest` are the lanes that took the arm last, and
    `undecided` those that may have, as it depends on what was never written, None where there were none. Only arms that
    are `pure`, whose instructions do nothing but compute, may have such.
    """

    def __init__(self, over: End, count: int, pure: bool) -> None:
        assert over.guard is not None and over.instruction is not None
        self.count, self.pure = count, pure
        self.slot, self._negated, self.instruction = over.guard, not over.negated, over.instruction
        self.undecided: Mask = None
        self._of: tuple[object, ...] = ()
        self._found: tuple[Any, Mask] = None, None

    def under_guard(self, instruction: Instruction) -> Instruction:
        """An instruction of the arm with its guard."""
        assert self.instruction.guard is not None
        return replace(instruction, guard=Guard(self.instruction.guard.register, self._negated))

    @property
    def latest(self) -> Any:
        return self._found[0]

    def of(self, lanes: Lanes, mask: Mask) -> tuple[Any, Mask]:
        """The lanes of the mask that are sure to take it, as `Lanes.guard` tells them, and the others, if they are
        some. Raises Undecided.
        """
        value, poison = lanes.bits[self.slot], lanes.poison.get(self.slot)
        now = value, poison, mask, lanes.alive
        if value is not None and len(self._of) == len(now) and all(map(is_, now, self._of)):
            return self._found
        undecided = lanes.undecided(self.slot, mask) if value is None or poison is not None else None
        if undecided is not None and not self.pure:
            raise Undecided
        self._of, self.undecided = now, undecided
        sure = mask if undecided is None else lanes.without(mask, undecided)
        self._found = (False, None) if sure is False else self._among(lanes, sure, mask)
        return self._found

    def _among(self, lanes: Lanes, sure: Mask, mask: Mask) -> tuple[Any, Mask]:
        """Those lanes of the mask that take it and the others; of those that are `sure` it is known."""
        inner = lanes.guard(self.slot, self._negated, sure, self.instruction)
        if inner is mask or inner is False:
            return inner, None
        inner = lanes.known(inner)
        return inner, None if mask is None else lanes.known(mask & ~inner)


class Look:
    """Finds the lanes that take an arm, and nothing else about it."""

    def __init__(self, arm: Arm) -> None:
        self._arm = arm

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        self._arm.of(lanes, mask)


class InArm:
    """The operation of an instruction of an arm, which runs in those lanes only.

    `private` are the slots of those registers that it writes and the arm alone reads, with their widths, `fresh` says
    that it reads none of these. `shared` are the slots of the others that it writes.
    """

    def __init__(
        self, arm: Arm, operation: Operation, private: Sequence[tuple[int, int]], fresh: bool, shared: Sequence[int]
    ) -> None:
        self._arm, self._operation, self._fresh, self._shared = arm, operation, fresh, shared
        self._private: list[tuple[int, int, Array]] = [
            (slot, width, constant_array(0, width)) for slot, width in private
        ]

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        inner, others = self._arm.of(lanes, mask)
        self._run(lanes, mask, inner, others)
        if self._arm.undecided is not None and self._shared:
            lanes.lose(self._shared, self._arm.undecided)

    def _run(self, lanes: Lanes, mask: Mask, inner: Any, others: Mask) -> None:
        """Runs it in the lanes `inner` of the mask, which are not the `others`."""
        if inner is mask:
            self._operation(lanes, mask)
            return
        if inner is False:
            for slot, _, nothing in self._private:
                lanes.put(slot, nothing, mask)
            return
        if mask is None and self._fresh:
            for slot, _, _ in self._private:
                lanes.bits[slot] = lanes.wide[slot] = None
                lanes.poison.pop(slot, None)
        self._operation(lanes, inner)
        for slot, width, _ in self._private:
            poison = lanes.poison.get(slot)
            if poison is None:
                continue
            left = None
            if mask is not None:
                assert others is not None
                left = lanes.poison_left(poison, others, width)
            elif poison is not lanes.outside(inner, width):
                left = lanes.poison_left(poison, lanes.known(~inner), width)
            if left is None:
                del lanes.poison[slot]
            else:
                lanes.poison[slot] = left
