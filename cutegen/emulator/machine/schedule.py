"""Runs the lanes of a batch to their end: which of them are at which basic block, barriers, exits, and limits.

Lanes wait at basic blocks. Those at the earliest block go first (`block_turns`), so that threads that parted come
together again where their ways meet. A barrier holds the threads of a block until all of them are there that have not
exited (PTX ISA 9.1, sections of barrier and exit: it waits for non-exited threads, and what only exited ones hold up is
released). What a thread did that exited since the barrier before, no barrier orders.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.global_races import Epochs
from cutegen.emulator.lanes import WARP, Mask, both, first_lane, spread
from cutegen.emulator.machine.apart import ThreadsApart, warps_of
from cutegen.emulator.machine.block_turns import turns_of
from cutegen.emulator.machine.either_way import EitherWay
from cutegen.emulator.machine.joined_blocks import Arm
from cutegen.emulator.machine.native_steps import How, native_steps
from cutegen.emulator.machine.orders import Order
from cutegen.emulator.machine.program import End, Program
from cutegen.emulator.machine.rounds import Rounds
from cutegen.emulator.machine.steps import Steps
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.errors import UnlikeRounds

_SHARES = 64  # masks of which the share of the lanes is kept


@dataclass
class _Waiting:
    """Lanes that wait at the barrier with the number `number`, and go on at the basic block `following`.

    `end` is the end of the basic block that brought them there.
    """

    number: int
    following: int
    lanes: Array
    end: End


class Schedule:
    """Runs the lanes of a batch, in `order`, until all of them have exited.

    `joined` says that short arms of branches run with what is around them, and that Undecided may be raised.
    `epochs` counts the barriers that each block passes. `limit` is the most instructions that a thread may execute;
    `instructions` counts what all threads together have executed.
    """

    def __init__(
        self, program: Program, lanes: Lanes, order: Order, epochs: Epochs, limit: int, joined: bool = False
    ) -> None:
        self.program, self.lanes, self.order, self.epochs, self.limit = program, lanes, order, epochs, limit
        self.instructions = 0
        self._waiting: list[_Waiting] = []
        self._ready: dict[int, Mask] = {}  # basic block -> the lanes that wait there
        turns = turns_of(program)
        self._turn = None if turns is None else turns.__getitem__
        self._later: list[dict[int, Mask]] = []  # parts that have not started, the next one last
        self._steps, self._all_lanes = Steps(lanes.shape), prod(lanes.shape)
        self._shares: dict[int, tuple[Array, float]] = {}
        self._rounds = self._watch() if lanes.access.memory.alike_elsewhere else None
        self._native = native_steps(program) if lanes.origins is None else None
        self._how: How = "watched" if self._rounds is not None else "joined" if joined else "alone"
        self._either_way = EitherWay(program, lanes, limit, self._native)
        self._apart = ThreadsApart(program, lanes.shape)
        self._gone = np.zeros(lanes.shape, np.bool_)  # lanes that had exited when their block last passed a barrier

    def _watch(self) -> Rounds:
        """Makes the watcher that cuts loops short."""
        return Rounds(self.program, self.lanes)

    def run(self) -> None:
        """Runs until all lanes have exited. Raises Stop for the first fault."""
        self._start({0: None})
        while True:
            while self._ready:
                number = min(self._ready, key=self._turn)
                self._execute(number, self._ready.pop(number))
            if self._later:
                self._ready = self._later.pop()
            elif self._waits():
                self._release()
            else:
                return

    def _waits(self) -> bool:
        """Whether any lanes wait at a barrier."""
        return bool(self._waiting)

    def _start(self, places: dict[int, Mask]) -> None:
        """Lets lanes go on: all in step, or one part of the warps of each block after the other, as `order` has them.

        `places` gives the lanes that go on at each basic block.
        """
        if self.order.in_step:
            self._ready = places
            return
        for part in reversed(self._parts()):
            some: dict[int, Mask] = {}
            for place, mask in places.items():
                mine = both(self.lanes.active(mask), part)
                assert mine is not None
                if has_any(mine):
                    some[place] = mine
            if some:
                self._later.append(some)
        self._ready = self._later.pop()

    def _parts(self) -> Sequence[Array]:
        """The lanes in parts, as masks that broadcast to them, in the order in which these start."""
        threads = self.lanes.shape[0]
        dealt = self.order.parts(-(-threads // WARP))
        return [np.repeat(warps, WARP)[:threads, None] for warps in dealt]

    def _execute(self, number: int, mask: Mask) -> None:
        """Runs the lanes of the mask through the basic block with that number, and those that are joined to it, and
        sends them on from the end of the last.
        """
        block, lanes = self.program.blocks[number], self.lanes
        if mask is not None:
            mask = lanes.known(mask)
        if self._rounds is not None:
            self._rounds.enter(number, mask, not (self._ready or self._later or self._waiting))
        index, instructions, count = 0, block.instructions, len(block.instructions) + 1
        arms: Sequence[Arm] = ()
        try:
            if lanes.origins is not None:
                for index, operation in block.single_steps:
                    lanes.origins.run(operation, instructions[index], lanes, mask)
            else:
                steps = block.steps
                if self._native is not None and (self._rounds is None or self._rounds.comes_again(number)):
                    run = self._native.of(number, self._how)
                    steps, instructions, number = run.steps, run.instructions, run.last
                    count, arms = run.count, run.arms
                for index, operation in steps:  # noqa: B007
                    operation(lanes, mask)
        except Stop as stop:
            if stop.instruction is None:
                stop.instruction = instructions[index]
            raise
        end = self.program.blocks[number].end
        self._count(count, arms, mask, end)
        if end.kind == "fall":
            self._go(number + 1, mask)
            return
        assert end.instruction is not None or end.kind == "exit"
        if end.guard is not None and (undecided := lanes.undecided(end.guard, mask)) is not None:
            self._go_either_way(number, undecided)
            left = lanes.without(mask, undecided)
            if left is False:
                return
            mask = left
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
            if has_any(rest):
                self._go(number + 1, rest)
        chosen: Mask = taken if isinstance(taken, np.ndarray) else None
        if end.kind == "branch":
            self._go(end.target, chosen)
        elif end.kind == "exit":
            self._exit(chosen, number)
        elif end.kind == "trap":
            here = lanes.active(chosen)
            lane = first_lane(np.ones((1, 1), np.bool_) if here is None else here, lanes.shape)
            raise Stop("trap", "the kernel executes a trap", end.instruction, lane)
        else:
            self._arrive(end, number + 1, chosen)

    def _go_either_way(self, number: int, lanes: Array) -> None:
        """Sends on lanes whose way from the end of a basic block depends on what was never written.

        Raises Stop if the way makes a difference, as `EitherWay` says.
        """
        join = self._either_way.try_both(number, lanes)
        if join == len(self.program.blocks):
            self._exit(lanes, number)
        else:
            self._go(join, lanes)

    def _count(self, count: int, arms: Sequence[Arm], mask: Mask, end: End) -> None:
        """Counts so many instructions, the end of a basic block included, and those of arms.

        Raises Stop for a lane that has executed too many, UnlikeRounds where loops should have been cut short.
        """
        done = count * self._all_lanes
        self.instructions += done if mask is None else int(done * self._share(mask))
        for arm in arms:
            count += arm.count  # at most
            if arm.latest is not False:
                more = arm.count * self._all_lanes
                self.instructions += more if arm.latest is None else int(more * self._share(arm.latest))
        late = self._steps.add(count, self.lanes.active(mask), self.limit)
        if late is not None and self._rounds is not None:
            raise UnlikeRounds("a loop takes too many rounds, which are not alike")
        if late is not None:
            text = f"more than {self.limit} instructions, more than any loop over these tensors takes"
            raise Stop("runaway", text, end.instruction, first_lane(late, self.lanes.shape))

    def _share(self, mask: Array) -> float:
        """Which share of the lanes a mask has; masks come again and again."""
        found = self._shares.get(id(mask))
        if found is None:
            if len(self._shares) >= _SHARES:
                self._shares.clear()
            found = self._shares[id(mask)] = mask, float(np.count_nonzero(mask)) / mask.size
        return found[1]

    def _go(self, number: int, mask: Mask) -> None:
        """Adds the lanes of the mask to those that wait at the basic block with that number."""
        if mask is not None and number in self._ready:
            other = self._ready[number]
            mask = None if other is None else other | mask
        if mask is not None and self.order.in_step and self._everyone(mask):
            mask = None
        self._ready[number] = mask

    def _everyone(self, mask: Array) -> bool:
        """Whether the mask has every lane that is alive."""
        alive = self.lanes.alive
        return bool(mask.all() if alive is None else (mask | ~alive).all())

    def _exit(self, mask: Mask, number: int) -> None:
        """Lets the lanes of the mask exit, at the end of the basic block with that number.

        Raises Stop for a lane that others of its warp wait for at an aligned barrier.
        """
        lanes = self.lanes
        gone = lanes.active(mask)
        left = np.zeros(lanes.shape, np.bool_) if gone is None else spread(~gone, lanes.shape)
        lanes.alive = left if lanes.alive is None else lanes.alive & left
        if gone is not None:
            at = self.program.blocks[number].end.instruction
            self._apart.exit(spread(gone, lanes.shape), lanes.alive, number, at)
            lanes.left = self._apart.left

    def _arrive(self, end: End, following: int, mask: Mask) -> None:
        """Brings the lanes of the mask to a barrier, from which they go on at the basic block `following`."""
        lanes = self.lanes
        if mask is None and lanes.alive is None and not self._waiting:
            self._passed(None)
            self._start({following: None})
            return
        here = lanes.active(mask)
        whole = np.ones(lanes.shape, np.bool_) if here is None else spread(here, lanes.shape)
        self._note_arrival(end, whole)
        self._waiting.append(_Waiting(end.barrier, following, whole, end))

    def _note_arrival(self, end: End, here: Array) -> None:
        """Notes which lanes of a mask come to a barrier. Raises Stop for an aligned one, and a warp that has parted."""
        if end.aligned:
            assert end.instruction is not None
            self._apart.come(here, self.lanes.alive, self._ready, end.instruction)
        else:
            self._apart.arrive(here)

    def _release(self) -> None:
        """Opens each barrier that all threads of a block have reached, but for those that have exited.

        It is called when no lane can go on otherwise. Raises Stop if there is no such barrier, and as `_check_aligned`
        does.
        """
        lanes = self.lanes
        numbers = {w.number for w in self._waiting}
        opened = np.zeros((1, lanes.shape[1]), np.bool_)
        for number in numbers:
            arrived = np.zeros(lanes.shape, np.bool_)
            for waiting in self._waiting:
                if waiting.number == number:
                    arrived |= waiting.lanes
            counted = any(w.number == number and w.end.threads is not None for w in self._waiting)
            opened |= self._complete(arrived, counted)
        if not has_any(opened):
            raise self._stuck()
        self._check_aligned(opened)
        self._passed(opened)
        places: dict[int, Mask] = {}
        kept = []
        for waiting in self._waiting:
            free = waiting.lanes & opened
            if has_any(free):
                before = places.get(waiting.following)
                places[waiting.following] = free if before is None else before | free
            rest = waiting.lanes & ~opened
            if has_any(rest):
                kept.append(_Waiting(waiting.number, waiting.following, rest, waiting.end))
        self._waiting = kept
        if self.order.in_step:
            places = {p: None if m is not None and self._everyone(m) else m for p, m in places.items()}
        self._start(places)

    def _complete(self, arrived: Array, counted: bool) -> Array:
        """The blocks, shape (1, blocks), without a thread that a barrier still waits for.

        `arrived` are the lanes that have come to it. Where it is `counted`, which is to say that it names a number of
        threads, a warp that has exited whole is missing from that number.
        """
        if self.lanes.alive is None:
            return np.asarray(arrived.all(axis=0, keepdims=True))
        gone = ~spread(self.lanes.alive, self.lanes.shape)
        if counted:
            gone = gone & warps_of(arrived)
        return np.asarray((arrived | gone).all(axis=0, keepdims=True) & arrived.any(axis=0, keepdims=True))

    def _passed(self, blocks: Mask) -> None:
        """Notes that the blocks in the mask, shape (1, blocks), have passed a barrier. Raises Stop for a race."""
        gone = None if self.lanes.alive is None else ~self.lanes.alive
        if gone is not None:
            gone = spread(gone if blocks is None else gone & blocks, self.lanes.shape)
            self.lanes.access.detach(gone & ~self._gone)
            self._gone |= gone
        self.lanes.shared.barrier(blocks, gone)
        self.epochs.advance(blocks)

    def _check_aligned(self, opened: Array) -> None:
        """Raises Stop if some threads of a warp wait at an aligned barrier instruction and others at another one.

        `opened`, shape (1, blocks), says whose barriers are looked at.
        """
        for waiting in self._waiting:
            if not waiting.end.aligned:
                continue
            here = waiting.lanes & opened
            absent = both(self.lanes.alive, warps_of(here) & ~here)
            if absent is not None and has_any(absent):
                lane = first_lane(absent, self.lanes.shape)
                text = "this thread waits at another barrier than the other threads of its warp"
                raise Stop("barrier", text, waiting.end.instruction, lane)

    def _stuck(self) -> Stop:
        """The fault of a barrier that never opens: a counted warp has exited, or a thread waits at another barrier."""
        lanes = self.lanes
        waiting = self._waiting[0]
        column = int(waiting.lanes.any(axis=0).argmax())
        there = waiting.lanes[:, column]
        missing = np.ones(lanes.shape[0], np.bool_)
        for other in self._waiting:
            if other.number == waiting.number:
                missing &= ~other.lanes[:, column]
        thread = int(missing.argmax())
        count = int(np.count_nonzero(there))
        if lanes.alive is not None:
            alive = spread(lanes.alive, lanes.shape)[:, column]
            if not has_any(missing & alive):
                text = (
                    f"{count} threads of the block wait at this barrier, which counts {waiting.end.threads}, and "
                    f"{int(missing.sum())} have exited, this one among them, so that the count is never reached"
                )
                return Stop("barrier", text, waiting.end.instruction, (thread, column))
            thread = int((missing & alive).argmax())
        text = f"{count} threads of the block wait at this barrier, and this one at another, forever"
        return Stop("deadlock", text, waiting.end.instruction, (thread, column))
