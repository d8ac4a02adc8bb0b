"""Threads of a warp that go on apart from others that have come to an aligned barrier, or have exited before.

All threads of a warp must execute an aligned barrier together. A thread is excused that has exited, or does nothing any
more but exit: an early return. It is a fault where it does something else, and exits without coming to the barrier,
whichever of the two happens first here.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.lanes import WARP, Mask, first_lane, spread
from cutegen.emulator.machine.program import Block, Program
from cutegen.emulator.machine.regions import successors
from cutegen.emulator.ptx.model import Instruction


class ThreadsApart:
    """The lanes that have not come to an aligned barrier where others of their warp are. `shape` is (threads, blocks).

    `left` are the lanes that have exited after work of their own, while others of their warp went on; None: no lane.
    """

    def __init__(self, program: Program, shape: tuple[int, int]) -> None:
        self.blocks, self.shape = program.blocks, shape
        self.left: Mask = None
        self._leaving = leaving(program)
        self._owed: dict[int, tuple[Instruction, Array]] = {}  # by the PTX line of the barrier

    def come(self, here: Array, alive: Mask, ready: Mapping[int, Mask], instruction: Instruction) -> None:
        """Notes that the lanes of a mask come to an aligned barrier; `ready` has the lanes at each basic block.

        Raises Stop for a warp with a lane that has exited.
        """
        self.arrive(here)
        warps = warps_of(here)
        if self.left is not None and has_any(left := warps & self.left):
            text = "this thread has exited after work of its own, and never came to this barrier, which needs its warp"
            raise Stop("barrier", text, instruction, first_lane(left, self.shape))
        absent = warps & ~here
        if alive is not None:
            absent &= alive
        if not has_any(absent):
            return
        for number, lanes in ready.items():
            if number in self._leaving and lanes is not None:
                absent &= ~lanes
        before = self._owed.get(instruction.line)
        self._owed[instruction.line] = instruction, absent if before is None else before[1] | absent

    def arrive(self, here: Array) -> None:
        """Notes that the lanes of a mask come to any barrier."""
        for line, (instruction, lanes) in list(self._owed.items()):
            if has_any(left := lanes & ~here):
                self._owed[line] = instruction, left
            else:
                del self._owed[line]

    def exit(self, gone: Array, alive: Array, number: int, at: Instruction | None) -> None:
        """Notes that the lanes of a mask exit at the end of the basic block with that number, `alive` those left.

        Raises Stop for a lane without which others wait at an aligned barrier.
        """
        for instruction, lanes in self._owed.values():
            if has_any(missing := lanes & gone):
                text = "this thread exits without coming to this barrier, which needs all threads of its warp"
                witnesses = () if at is None else (Witness("it exits here", at.line),)
                raise Stop("barrier", text, instruction, first_lane(missing, self.shape), witnesses=witnesses)
        some = gone & warps_of(alive)
        if has_any(some) and self._works(number):
            self.left = some if self.left is None else self.left | some

    def _works(self, number: int) -> bool:
        """Whether the lanes that exit at the end of a basic block have done something since they parted from others."""
        while True:
            block = self.blocks[number]
            if block.end.guard is not None:
                return False
            if _does_something(block):
                return True
            before = [i for i in range(len(self.blocks)) if number in successors(self.blocks, i)]
            if len(before) != 1 or before[0] == number:
                return False
            (number,) = before


def leaving(program: Program) -> frozenset[int]:
    """The numbers of the basic blocks from which lanes do nothing but write registers, read memory, and exit."""
    known = program.kept.get("leaving")
    if isinstance(known, frozenset):
        return known
    blocks, over = program.blocks, len(program.blocks)
    after = [successors(blocks, i) for i in range(over)]
    found = {i for i, block in enumerate(blocks) if not _does_something(block)} | {over}
    changed = True
    while changed:
        stay = {i for i in found if i == over or found.issuperset(after[i])}
        changed, found = len(stay) < len(found), stay
    program.kept["leaving"] = made = frozenset(found)
    return made


def _does_something(block: Block) -> bool:
    """Whether a basic block does more than write registers and read memory."""
    return None in block.writes or block.end.kind in ("barrier", "wait", "trap")


def warps_of(lanes: Array) -> Array:
    """All lanes of the warps that have a lane in a mask of shape (threads, blocks)."""
    threads, blocks = lanes.shape
    warps = -(-threads // WARP)
    padded = lanes
    if threads % WARP:
        padded = np.zeros((warps * WARP, blocks), np.bool_)
        padded[:threads] = lanes
    some = np.asarray(padded.reshape(warps, WARP, blocks).any(axis=1, keepdims=True))
    return spread(some, (warps, WARP, blocks)).reshape(warps * WARP, blocks)[:threads]
