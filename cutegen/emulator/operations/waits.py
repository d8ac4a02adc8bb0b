"""Waits of lanes at barriers of a block or a cluster, as data of a program that has more than whole-block barriers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import first_lane
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction


class Wait(Protocol):
    """A wait at one instruction by the lanes of a mask, which has an entry for each lane."""

    @property
    def instruction(self) -> Instruction:
        """The instruction at which they wait."""

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """Lets the lanes come to it; returns those that go on at once. Raises Stop for a fault."""

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """Lets those of the lanes go on that need not wait any more, and returns them. Raises Stop for a fault."""

    def changes(self, lanes: Lanes, blocks: Array) -> int | None:
        """A number that grows with each change that lanes of some blocks could find by another look; None: they must
        look to know.
        """

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """Lets the lanes go on with what they came for undone, where that may be; returns whether it may."""

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that the lanes wait forever."""


@dataclass(frozen=True)
class BlockWait:
    """bar.sync or barrier.sync of the barrier with the number `number`, which expects `count` threads (None: all)."""

    number: int
    count: int | None
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """Lets the lanes come to it. Raises Stop for a fault."""
        barriers, alive = lanes.team.block_barriers, lanes.team.alive
        barriers.arrive(self.number, self.count, mask, alive, self.instruction, waits=True)
        return np.zeros_like(mask)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes whose barrier has opened. Raises Stop for a fault."""
        return lanes.team.block_barriers.open_for(self.number, mask, lanes.team.alive, self.instruction)

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often barriers have opened, or lanes have exited."""
        return barrier_changes(lanes)

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No lane goes on before it opens."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that a barrier does not open, with a lane that has not come or, if all have, one that waits."""
        here = first_lane(mask, lanes.shape)
        barriers = lanes.team.block_barriers
        came, expected = barriers.came(self.number, here)
        text = f"{came} threads of the block wait at barrier {self.number}"
        missing = barriers.missing(self.number, here, lanes.team.alive)
        if expected:
            text += f", which counts {expected}"
        if not has_any(missing):
            return Stop("barrier", f"{text}, and no other thread is left to come", self.instruction, here)
        return Stop(
            "deadlock", f"{text}, and this one elsewhere, forever", self.instruction, first_lane(missing, lanes.shape)
        )


@dataclass(frozen=True)
class ClusterWait:
    """barrier.cluster.wait."""

    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """Lets the lanes come to it. Raises Stop for one that has not arrived."""
        lanes.team.cluster_barriers.check_arrived(mask, self.instruction)
        return np.zeros_like(mask)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes in whose cluster all have arrived."""
        barriers = lanes.team.cluster_barriers
        opened = barriers.open_for(mask, lanes.team.alive)
        if has_any(opened):
            barriers.go_on(opened)
        return opened

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often lanes have arrived, or exited."""
        return lanes.team.cluster_barriers.arrivals + lanes.team.exits

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No lane goes on before it opens."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that some thread of the cluster never arrives, with the first such."""
        here = first_lane(mask, lanes.shape)
        missing = lanes.team.cluster_barriers.missing(here, lanes.team.alive)
        clusters = lanes.team.clocks.cluster
        text = (
            f"{int(np.count_nonzero(mask & (clusters == clusters[here])))} threads wait for the barrier of their "
            f"cluster, and {int(np.count_nonzero(missing))} never arrive, this one among them"
        )
        return Stop("deadlock", text, self.instruction, first_lane(missing, lanes.shape))


def barrier_changes(lanes: Lanes) -> int:
    """A number that grows when a barrier of a block opens, or may because lanes have exited."""
    return lanes.team.block_barriers.opened + lanes.team.exits
