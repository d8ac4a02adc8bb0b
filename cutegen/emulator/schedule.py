"""Runs the lanes of a batch: which of them are where, barriers, exits, and limits.

Lanes wait at basic blocks; those at the earliest one go first, so that threads that parted come together again where
their ways meet. A barrier holds each block of threads until all of them are there.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

import numpy as np

from cutegen.emulator.lanes import Array, Mask, Stop, both, first
from cutegen.emulator.program import End
from cutegen.emulator.state import Lanes
from cutegen.emulator.warps import WARP

if TYPE_CHECKING:
    from cutegen.emulator.machine import Machine

_PARTS = 2  # of a block's warps with a seed, one after the other, dealt anew at every barrier


@dataclass
class _Waiting:
    """Lanes at a barrier: which it is, where they go on, and the instruction."""

    number: int
    block: int
    lanes: Array
    end: End


class Steps:
    """How many instructions each lane of `shape` has executed."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._all = 0  # by every lane that is alive
        self._most = 0  # by any one at most
        self._own: Array | None = None  # besides, by each

    def add(self, count: int, lanes: Mask, limit: int) -> Mask:
        """Lanes execute `count` more. Those of them that have executed more than `limit` then; None if none has."""
        self._most += count
        if lanes is None:
            self._all += count
        else:
            if self._own is None:
                self._own = np.zeros(self.shape, np.int64)
            np.add(self._own, count, out=self._own, where=lanes)
        if self._most <= limit:
            return None
        own = np.zeros((1, 1), np.int64) if self._own is None else self._own
        self._most = self._all + int(own.max())
        late = self._all + own > limit
        late = late if lanes is None else late & lanes
        return late if late.any() else None


class Schedule:
    """Runs the lanes of a batch of `machine` to their end."""

    def __init__(self, machine: Machine, lanes: Lanes) -> None:
        self.machine, self.lanes = machine, lanes
        self.program = machine.program
        self.waiting: list[_Waiting] = []
        self.ready: dict[int, Mask] = {}
        self.parts: list[dict[int, Mask]] = []
        self.steps = Steps(lanes.shape)

    def run(self) -> None:
        self._start({0: None})
        while True:
            while self.ready:
                number = min(self.ready)
                self._execute(number, self.ready.pop(number))
            if self.parts:
                self.ready = self.parts.pop()
            elif self.waiting:
                self._release()
            else:
                return

    def _start(self, places: dict[int, Mask]) -> None:
        """Lets lanes go on; with a seed, one random part of the warps after the other."""
        if not self.machine.seed:
            self.ready = places
            return
        threads, blocks = self.lanes.shape
        warps = -(-threads // WARP)
        parts = min(_PARTS, warps)
        part = np.repeat(self.machine.chance.permutation(warps) % parts, WARP)[:threads, None]
        for which in self.machine.in_turn(range(parts)):
            some: dict[int, Mask] = {}
            for place, mask in places.items():
                mine = both(self.lanes.active(mask), part == which)
                assert mine is not None
                if mine.any():
                    some[place] = mine
            if some:
                self.parts.append(some)
        self.ready = self.parts.pop()

    def _execute(self, number: int, mask: Mask) -> None:
        block, lanes = self.program.blocks[number], self.lanes
        index = 0
        try:
            for index, operation in enumerate(block.operations):  # noqa: B007
                operation(lanes, mask)
        except Stop as stop:
            if stop.instruction is None:
                stop.instruction = block.instructions[index]
            raise
        self._count(block.instructions, mask, block.end)
        end = block.end
        if end.kind == "fall":
            self._go(number + 1, mask)
            return
        assert end.instruction is not None or end.kind == "exit"
        taken: Mask | bool = mask
        if end.guard is not None and end.instruction is not None:
            taken = lanes.guard(end.guard, end.negated, mask, end.instruction)
        if taken is False:
            self._go(number + 1, mask)
            return
        if end.guard is not None and taken is not mask:
            assert isinstance(taken, np.ndarray)
            rest = both(lanes.active(mask), ~taken)
            assert rest is not None
            if rest.any():
                self._go(number + 1, rest)
        chosen: Mask = taken if isinstance(taken, np.ndarray) else None
        if end.kind == "branch":
            self._go(end.target, chosen)
        elif end.kind == "exit":
            self._exit(chosen)
        elif end.kind == "trap":
            here = lanes.active(chosen)
            lane = first(np.ones((1, 1), np.bool_) if here is None else here, lanes.shape)
            raise Stop("trap", "the kernel executes a trap", end.instruction, lane)
        else:
            self._arrive(end, number + 1, chosen)

    def _count(self, instructions: Sequence[object], mask: Mask, end: End) -> None:
        count = len(instructions) + 1
        share = 1.0 if mask is None else float(np.count_nonzero(mask)) / mask.size
        self.machine.instructions += int(count * prod(self.lanes.shape) * share)
        late = self.steps.add(count, self.lanes.active(mask), self.machine.limit)
        if late is not None:
            text = f"more than {self.machine.limit} instructions, more than any loop over these tensors takes"
            raise Stop("runaway", text, end.instruction, first(late, self.lanes.shape))

    def _go(self, number: int, mask: Mask) -> None:
        """Adds lanes to those that wait at a basic block."""
        if mask is not None and number in self.ready:
            other = self.ready[number]
            mask = None if other is None else other | mask
        if mask is not None and not self.machine.seed and self._everyone(mask):
            mask = None
        self.ready[number] = mask

    def _everyone(self, mask: Array) -> bool:
        alive = self.lanes.alive
        return bool(mask.all() if alive is None else (mask | ~alive).all())

    def _exit(self, mask: Mask) -> None:
        lanes = self.lanes
        gone = lanes.active(mask)
        left = np.zeros(lanes.shape, np.bool_) if gone is None else np.broadcast_to(~gone, lanes.shape)
        lanes.alive = left if lanes.alive is None else lanes.alive & left

    def _arrive(self, end: End, following: int, mask: Mask) -> None:
        lanes = self.lanes
        if mask is None and lanes.alive is None and not self.waiting:
            self._passed(None)
            self._start({following: None})
            return
        here = lanes.active(mask)
        whole = np.ones(lanes.shape, np.bool_) if here is None else np.broadcast_to(here, lanes.shape)
        self.waiting.append(_Waiting(end.barrier, following, whole, end))

    def _release(self) -> None:
        """Nothing else can run: opens the barriers that all threads of a block have reached."""
        lanes = self.lanes
        numbers = {w.number for w in self.waiting}
        opened = np.zeros((1, lanes.shape[1]), np.bool_)
        for number in numbers:
            arrived = np.zeros(lanes.shape, np.bool_)
            for waiting in self.waiting:
                if waiting.number == number:
                    arrived |= waiting.lanes
            opened |= arrived.all(axis=0, keepdims=True)
        if not opened.any():
            raise self._stuck()
        self._aligned(opened)
        self._passed(opened)
        places: dict[int, Mask] = {}
        kept = []
        for waiting in self.waiting:
            free = waiting.lanes & opened
            if free.any():
                before = places.get(waiting.block)
                places[waiting.block] = free if before is None else before | free
            rest = waiting.lanes & ~opened
            if rest.any():
                kept.append(_Waiting(waiting.number, waiting.block, rest, waiting.end))
        self.waiting = kept
        if not self.machine.seed:
            places = {p: None if m is not None and self._everyone(m) else m for p, m in places.items()}
        self._start(places)

    def _passed(self, blocks: Mask) -> None:
        self.lanes.shared.barrier(blocks)
        self.machine.epochs = self.machine.epochs + (1 if blocks is None else blocks.astype(np.int32))

    def _aligned(self, opened: Array) -> None:
        """All threads of a warp have to be at the same barrier instruction, if that is an aligned one."""
        threads = self.lanes.shape[0]
        warps = -(-threads // WARP)
        for waiting in self.waiting:
            if not waiting.end.aligned:
                continue
            padded = np.zeros((warps * WARP, self.lanes.shape[1]), np.bool_)
            padded[:threads] = waiting.lanes & opened
            some = padded.reshape(warps, WARP, -1).any(axis=1, keepdims=True)
            absent = (some & ~padded.reshape(warps, WARP, -1)).reshape(warps * WARP, -1)[:threads]
            if absent.any():
                lane = first(absent, self.lanes.shape)
                text = "this thread waits at another barrier than the other threads of its warp"
                raise Stop("barrier", text, waiting.end.instruction, lane)

    def _stuck(self) -> Stop:
        lanes = self.lanes
        waiting = self.waiting[0]
        column = int(waiting.lanes.any(axis=0).argmax())
        there = waiting.lanes[:, column]
        missing = np.ones(lanes.shape[0], np.bool_)
        for other in self.waiting:
            if other.number == waiting.number:
                missing &= ~other.lanes[:, column]
        thread = int(missing.argmax())
        exited = lanes.alive is not None and not lanes.alive[thread, column]
        count = int(np.count_nonzero(there))
        if exited:
            text = (
                f"{count} threads of the block wait at this barrier, and {int(missing.sum())} never reach it: this one "
                "has exited"
            )
            return Stop("barrier", text, waiting.end.instruction, (thread, column))
        text = f"{count} threads of the block wait at this barrier, and this one at another, forever"
        return Stop("deadlock", text, waiting.end.instruction, (thread, column))
