"""Cuts long loops short where warps wait for each other: of one that loads, say, and of those that multiply.

No moment is the head of all their loops. So their state is looked at whenever all of them wait, each at some place in a
round of its own: it has come again once all registers that are read after these places have, with the mbarriers and
the products in flight. All else is as for `Rounds`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import Mask
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.rounds import Rounds, State
from cutegen.emulator.operations.phase_waits import PhaseWait
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.waits import Wait
from cutegen.emulator.ptx.errors import UnlikeRounds
from cutegen.emulator.ptx.model import Instruction

_LONGEST = 32  # times that all wait at the same places, after which a state may come again
_MOST = 1500  # times that all wait, with no round left out

Held = tuple[Wait, int, Array]
"""A wait, the basic block from which its lanes go on, and the mask of these lanes."""


@dataclass(frozen=True)
class Passed:
    """A wait that has ended at once, but holds its lanes until all others wait, so that no warp runs ahead.

    Otherwise a loading warp would be ahead by a varying number of rounds, and a state would recur after many only.
    """

    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """Lets all lanes go on."""
        return mask

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """All of the lanes."""
        return mask

    def changes(self, lanes: Lanes, blocks: Array) -> None:
        """Nothing that could be counted."""

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """Lets them go on."""
        return True

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """Nothing of the kind: it has ended."""
        raise AssertionError("a wait that has ended")


class RoundsOfWaits(Rounds):
    """Watches the loops of all lanes of a batch, and skips rounds where the state shows how they go on."""

    def __init__(self, program: Program, lanes: Lanes) -> None:
        super().__init__(program, lanes)
        self._rests = 0
        self._masks: dict[bytes, Array] = {}
        self._read: dict[object, dict[int, Mask]] = {}

    def enter(self, number: int, mask: Mask, alone: bool) -> None:
        """Called before lanes of a mask run the basic block with that number."""
        mask = self.lanes.active(mask)
        key = b"" if mask is None else mask.tobytes()
        if mask is not None and key not in self._masks:
            self._masks[key] = np.broadcast_to(mask, self.lanes.shape)
        self._path.append((number, key))

    def rest(self, held: Sequence[Held]) -> None:
        """Called when all lanes wait. It changes their registers to those of a later round, where it knows them.

        Raises UnlikeRounds where no round could be left out for long.
        """
        self._rests += 1
        if self._rests > _MOST:
            raise UnlikeRounds("the rounds of a loop are not alike")
        if any(isinstance(wait, PhaseWait) and not wait.parity for wait, _, _ in held) or self.lanes.team.late:
            return
        key = tuple((type(wait), following, lanes.tobytes()) for wait, following, lanes in held)
        states = self._states.setdefault(key, [])
        states.append(self._state())
        del states[: -2 * _LONGEST - 1]
        for period in range(1, (len(states) - 1) // 2 + 1):
            now, once, twice = states[-1], states[-1 - period], states[-1 - 2 * period]
            if now.path - once.path != once.path - twice.path:
                continue
            growth = self._growth(self._read_after(key, held), now, once, twice)
            if growth and self._cut(growth, now, once, twice):
                self._rests = 0
                return

    def _read_after(self, key: object, held: Sequence[Held]) -> Mapping[int, Mask]:
        """The registers that lanes may read where they wait and from there on, and which lanes."""
        if key not in self._read:
            found: dict[int, Mask] = {}
            for wait, following, lanes in held:
                asked = {wait.slot} - {-1} if isinstance(wait, PhaseWait) else set()
                for slot in sorted(self._live[following] | asked):
                    before = found.get(slot)
                    found[slot] = lanes if before is None else before | lanes
            self._read[key] = found
        return self._read[key]

    def _state(self) -> State:
        team = self.lanes.team
        products = team.products
        more = [team.mbarriers.state(), products.held.copy(), products.seen.copy(), products.flying.copy()]
        if products.unknown is not None:
            more.append(products.unknown.copy())
        if team.has_tensor_memory:
            more += team.tensor_memory.snapshot()
        state = super()._state()
        return replace(state, shared=[*state.shared, *more])

    def _ran(self, path: Sequence[tuple[int, object]]) -> Mapping[int, Mask]:
        found: dict[int, Mask] = {}
        for number, key in dict.fromkeys(path):
            assert isinstance(key, bytes)
            if not key:
                found[number] = None
            elif number not in found:
                found[number] = self._masks[key]
            elif (before := found[number]) is not None:
                found[number] = before | self._masks[key]
        return found
