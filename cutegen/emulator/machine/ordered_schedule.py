"""Runs the lanes of a batch where more than whole blocks meet: in clusters, at mbarriers, at barriers of some warps.

Lanes go as far as they can; those that wait go on once all others wait, too. So a wait takes as long as it may, and
what its end is not held up by has happened. Where none can go on, asynchronous operations complete, and then the tries
give up that may (mbarrier.try_wait). Where that changes nothing for long, the lanes hang.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.global_races import Epochs
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.machine.orders import Order
from cutegen.emulator.machine.program import End, Program
from cutegen.emulator.machine.rounds import Rounds
from cutegen.emulator.machine.rounds_of_waits import Passed, RoundsOfWaits
from cutegen.emulator.machine.schedule import Schedule
from cutegen.emulator.operations.phase_waits import PhaseWait
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.waits import BlockWait, Wait

_TRIES = 64  # rounds in which tries give up and nothing else happens


@dataclass
class _Held:
    """Lanes that wait, and go on at the basic block `following`.

    `changes` is what the wait's `changes` was when they looked last; None: they must look. `blocks` are the numbers of
    the lanes' blocks in the batch, once they are needed.
    """

    wait: Wait
    following: int
    lanes: Array
    changes: int | None = None
    blocks: Array | None = None

    def look(self, lanes: Lanes) -> Array | None:
        """Those of the lanes that need not wait any more, or None if nothing can have changed. Raises Stop."""
        if self.blocks is None:
            self.blocks = np.flatnonzero(self.lanes.any(axis=0))
        now = self.wait.changes(lanes, self.blocks)
        if now is not None and now == self.changes:
            return None
        self.changes = now
        return self.wait.open_for(lanes, self.lanes)


class OrderedSchedule(Schedule):
    """A schedule for lanes that have a team."""

    def __init__(
        self, program: Program, lanes: Lanes, order: Order, epochs: Epochs, limit: int, joined: bool = False
    ) -> None:
        self._resting: RoundsOfWaits | None = None
        super().__init__(program, lanes, order, epochs, limit, joined)
        self._held: list[_Held] = []
        self._idle = 0  # how often tries have given up since the time went on last
        self._time = 0

    def _watch(self) -> Rounds:
        self._resting = RoundsOfWaits(self.program, self.lanes)
        return self._resting

    def _parts(self) -> Sequence[Array]:
        """The lanes in parts, in the order in which these start: blocks by their ranks, or warps of any blocks."""
        threads, blocks = self.lanes.shape
        size = self.lanes.team.size
        warps = -(-threads // WARP)
        dealt = self.order.parts_of_cluster(size, warps)
        parts = (np.repeat(part.reshape(size, warps), WARP, axis=1)[:, :threads].T for part in dealt)
        return [np.tile(part, (1, blocks // size)) for part in parts]

    def _exit(self, mask: Mask, number: int) -> None:
        """Lets the lanes of the mask exit. Raises Stop as a `Schedule` does, and for a block that exits too early."""
        gone = whole(self.lanes.active(mask), self.lanes.shape)
        super()._exit(mask, number)
        self.lanes.team.leave(gone, self.program.blocks[number].end.instruction)

    def _arrive(self, end: End, following: int, mask: Mask) -> None:
        """Brings the lanes of the mask to what they wait for, from which they go on at the basic block `following`."""
        assert end.instruction is not None
        wait: Wait = end.wait or BlockWait(end.barrier, end.threads, end.instruction)
        here = whole(self.lanes.active(mask), self.lanes.shape)
        self._note_arrival(end, here)
        through = wait.come(self.lanes, here)
        if has_any(through) and self._resting is not None and isinstance(wait, PhaseWait):
            self._held.append(_Held(Passed(end.instruction), following, through))
        elif has_any(through):
            self._go(following, through)
        if has_any(left := here & ~through):
            self._held.append(_Held(wait, following, left))

    def _waits(self) -> bool:
        """Whether any lanes wait."""
        return bool(self._held)

    def _release(self) -> None:
        """Lets all lanes go on that can. Raises Stop if there are none and never will be."""
        if self._resting is not None:
            self._resting.rest([(held.wait, held.following, held.lanes) for held in self._held])
        places = self._opened()
        while not places and self.lanes.team.deliver():
            places = self._opened()
        places = places or self._given_up()
        if self.order.in_step:
            places = {p: None if m is not None and self._everyone(m) else m for p, m in places.items()}
        self._start(places)

    def _opened(self) -> dict[int, Mask]:
        """Takes out the lanes that need not wait any more, and returns where they go on. Raises Stop for a fault."""
        places: dict[int, Mask] = {}
        kept: list[_Held] = []
        for held in self._held:
            free = held.look(self.lanes)
            if free is None or not has_any(free):
                kept.append(held)
                continue
            _add(places, held.following, free)
            held.lanes = held.lanes & ~free
            if has_any(held.lanes):
                kept.append(held)
        self._held = kept
        return places

    def _given_up(self) -> dict[int, Mask]:
        """Lets the tries among the waits give up; returns where lanes go on. Raises Stop if that changes nothing."""
        now = self.lanes.team.clocks.now
        self._idle = self._idle + 1 if now == self._time else 0
        self._time = now
        places: dict[int, Mask] = {}
        kept: list[_Held] = []
        for held in self._held:
            if self._idle < _TRIES and held.wait.give_up(self.lanes, held.lanes):
                _add(places, held.following, held.lanes)
            else:
                kept.append(held)
        if not places:
            # Who waits for a phase says what is missing; others may only wait for them
            held = min(self._held, key=lambda held: not isinstance(held.wait, PhaseWait))
            raise held.wait.hang(self.lanes, held.lanes)
        self._held = kept
        return places


def _add(places: dict[int, Mask], number: int, lanes: Array) -> None:
    """Adds lanes to those that go on at the basic block with that number."""
    before = places.get(number)
    places[number] = lanes if before is None else before | lanes
