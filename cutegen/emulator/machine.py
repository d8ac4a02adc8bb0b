"""Runs a program: which lanes are where, barriers, exits, and limits.

Lanes wait at basic blocks; those at the earliest one go first, so that threads that parted come together again where
their ways meet. A barrier holds each block of threads until all of them are there. With a seed other than 0, warps run
in another order: between two barriers they are split at random, and one part goes as far as it can before the next
starts; and blocks are taken in another order. Races are found either way (`shared.py`, `access.py`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cutegen.emulator.access import GlobalAccess
from cutegen.emulator.lanes import Array, Mask, Stop, both, first
from cutegen.emulator.memory import GlobalMemory
from cutegen.emulator.program import End, Program
from cutegen.emulator.shared import SharedMemory
from cutegen.emulator.state import Lanes
from cutegen.emulator.warps import WARP

Triple = tuple[int, int, int]
_LANES = 8192  # at once: about what a core's second-level cache holds of a matrix product
_PARTS = 3  # of a block's warps, in a shuffled order


@dataclass
class Counters:
    """What was executed: instructions of all lanes together, and steps that were taken for many lanes at once."""

    instructions: int = 0
    steps: int = 0
    lanes: int = 0


class Machine:
    """One launch. `limit` is the most instructions that a thread may execute; raises `Stop` for the first fault."""

    def __init__(
        self,
        program: Program,
        grid: Triple,
        block: Triple,
        parameters: bytes,
        memory: GlobalMemory,
        shared: int,
        symbols: dict[str, int],
        *,
        seed: int,
        limit: int,
        lanes: int = _LANES,
    ) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.parameters, self.memory, self.symbols = parameters, memory, symbols
        self.dynamic, self.seed, self.limit = shared, seed, limit
        self.threads = prod(block)
        self.shared_size = program.dynamic_start + shared
        self.at_once = max(1, lanes // self.threads)
        self.counters = Counters()
        self.numbers: Array = np.zeros(0, np.int64)
        self._chance = np.random.default_rng(seed)

    def run(self) -> None:
        blocks = prod(self.grid)
        order = self._chance.permutation(blocks) if self.seed else np.arange(blocks)
        for start in range(0, blocks, self.at_once):
            self._batch(order[start : start + self.at_once])

    def place(self, lane: tuple[int, int]) -> tuple[Triple, Triple]:
        """Block and thread of a lane of the batch that ran last."""
        return _coordinates(int(self.numbers[lane[1]]), self.grid), _coordinates(lane[0], self.block)

    # ---------------------------------------------------------------------------------------------------- a batch

    def _batch(self, numbers: Array) -> None:
        self.numbers = numbers
        shape = (self.threads, len(numbers))
        self.epochs: Array = np.zeros((1, shape[1]), np.int32)
        shared = SharedMemory(self.shared_size, self.program.shared_unit, shape)
        ids = numbers[None, :].astype(np.int64) * self.threads + np.arange(self.threads)[:, None]
        access = GlobalAccess(self.memory, ids, self.threads, lambda: self.epochs)
        lanes = Lanes(
            list(self.program.widths), shape, shared, access, self.parameters, self._specials(numbers), self.symbols
        )
        self.counters.lanes += prod(shape)

        def underflow(kind: str, flag: int) -> None:
            lanes.underflow = True

        with np.errstate(all="ignore"), np.errstate(under="call", call=underflow):
            _Schedule(self, lanes).run()
        shared.barrier()

    def _specials(self, numbers: Array) -> dict[str, Array]:
        def fixed(value: int) -> Array:
            return np.asarray(value, np.uint32)

        thread = np.arange(self.threads, dtype=np.uint32)[:, None]
        number = numbers[None, :].astype(np.uint32)
        specials: dict[str, Array] = {}
        for axis, name in enumerate("xyz"):
            inner_t, inner_g = prod(self.block[:axis]), prod(self.grid[:axis])
            specials[f"%tid.{name}"] = thread // np.uint32(inner_t) % np.uint32(self.block[axis])
            specials[f"%ctaid.{name}"] = number // np.uint32(inner_g) % np.uint32(self.grid[axis])
            specials[f"%ntid.{name}"], specials[f"%nctaid.{name}"] = fixed(self.block[axis]), fixed(self.grid[axis])
            specials[f"%clusterid.{name}"] = specials[f"%ctaid.{name}"]
            specials[f"%nclusterid.{name}"] = specials[f"%nctaid.{name}"]
            specials[f"%cluster_ctaid.{name}"], specials[f"%cluster_nctaid.{name}"] = fixed(0), fixed(1)
            for which in (f"%tid.{name}", f"%ctaid.{name}"):
                if (self.block if "tid." in which and "cta" not in which else self.grid)[axis] == 1:
                    specials[which] = fixed(0)
        specials["%cluster_ctarank"], specials["%cluster_nctarank"] = fixed(0), fixed(1)
        lane = thread % np.uint32(WARP)
        one = np.uint32(1)
        equal = one << lane
        specials |= {
            "%laneid": lane,
            "%warpid": thread // np.uint32(WARP),
            "%nwarpid": fixed(-(-self.threads // WARP)),
            "%lanemask_eq": equal,
            "%lanemask_lt": equal - one,
            "%lanemask_le": equal - one | equal,
            "%lanemask_ge": ~(equal - one),
            "%lanemask_gt": ~(equal - one | equal),
            "%dynamic_smem_size": fixed(self.dynamic),
            "%total_smem_size": fixed(self.shared_size),
        }
        return specials


@dataclass
class _Waiting:
    """Lanes at a barrier: which it is, where they go on, and the instruction."""

    number: int
    block: int
    lanes: Array
    end: End


class _Schedule:
    def __init__(self, machine: Machine, lanes: Lanes) -> None:
        self.machine, self.lanes = machine, lanes
        self.program = machine.program
        self.waiting: list[_Waiting] = []
        self.ready: dict[int, Mask] = {}
        self.parts: list[dict[int, Mask]] = []
        self.steps = 0

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
        """Lets lanes go on; with a seed, a random part of the warps after the other."""
        if not self.machine.seed:
            self.ready = places
            return
        threads, blocks = self.lanes.shape
        warps = -(-threads // WARP)
        part = self.machine._chance.integers(0, min(_PARTS, warps), (warps, 1))
        part = np.repeat(part, WARP, axis=0)[:threads]
        for which in self.machine._chance.permutation(min(_PARTS, warps)):
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
        steps = len(instructions) + 1
        self.steps += steps
        counters = self.machine.counters
        counters.steps += steps
        share = 1.0 if mask is None else float(np.count_nonzero(mask)) / mask.size
        counters.instructions += int(steps * prod(self.lanes.shape) * share)
        if self.steps > self.machine.limit:
            here = self.lanes.active(mask)
            lane = first(np.ones((1, 1), np.bool_) if here is None else here, self.lanes.shape)
            text = f"more than {self.machine.limit} instructions, more than any loop over these tensors takes"
            raise Stop("runaway", text, end.instruction, lane)

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
        if end.threads is not None and end.threads != self.machine.threads:
            text = f"a barrier of {end.threads} of {self.machine.threads} threads is not emulated"
            raise Stop("barrier", text, end.instruction, (0, 0))
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
        """All threads of a warp have to be at the same barrier instruction."""
        threads = self.lanes.shape[0]
        warps = -(-threads // WARP)
        for waiting in self.waiting:
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


def _coordinates(number: int, extents: Triple) -> Triple:
    x, rest = number % extents[0], number // extents[0]
    return x, rest % extents[1], rest // extents[1]
