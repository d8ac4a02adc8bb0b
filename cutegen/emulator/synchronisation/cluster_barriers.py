"""The barrier of a cluster: barrier.cluster.arrive, and barrier.cluster.wait, which goes on when all have arrived."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.told import Told
from cutegen.emulator.lanes import first_lane, groups_of
from cutegen.emulator.ptx.model import Instruction


class ClusterBarriers:
    """The barrier of each cluster of a batch. A thread's arrivals and waits take turns, arrival first."""

    def __init__(self, clocks: Clocks) -> None:
        self.clocks = clocks
        self.arrived: Array = np.zeros(clocks.shape, np.int32)
        """How often each lane has arrived."""
        self.arrivals = 0
        """How often any lanes have arrived."""
        self._passed: Array = np.zeros(clocks.shape, np.int32)
        # What the arrivals of the last two phases of each cluster have told, by the parity of the phase
        self._told: dict[tuple[int, int], tuple[int, Told]] = {}

    def arrive(self, lanes: Array, instruction: Instruction, *, relaxed: bool) -> None:
        """Lets the lanes of a mask arrive. Raises Stop for one that has arrived and not waited."""
        twice = lanes & (self.arrived > self._passed)
        if has_any(twice):
            text = "this thread arrives at the barrier of the cluster again, without having waited for it"
            raise Stop("barrier", text, instruction, first_lane(twice, self.clocks.shape))
        self.clocks.tick()
        codes, groups = groups_of(self.arrived[lanes] * self.clocks.clusters + self.clocks.cluster[lanes])
        told = self.clocks.told_by_groups(lanes, groups, len(codes), relaxed=relaxed)
        for code, one in zip(codes.tolist(), told, strict=True):
            phase, cluster = divmod(code, self.clocks.clusters)
            before, earlier = self._told.get((cluster, phase % 2), (phase, None))
            self._told[cluster, phase % 2] = phase, one.and_what(earlier) if before == phase else one
        self.arrived = self.arrived + lanes
        self.arrivals += 1

    def check_arrived(self, lanes: Array, instruction: Instruction) -> None:
        """Raises Stop for a lane of a mask that comes to wait and has not arrived."""
        early = lanes & (self.arrived == self._passed)
        if has_any(early):
            text = "this thread waits for the barrier of the cluster, at which it has not arrived"
            raise Stop("barrier", text, instruction, first_lane(early, self.clocks.shape))

    def open_for(self, lanes: Array, alive: Array) -> Array:
        """The lanes of a mask that need not wait: all threads of the cluster that are `alive` have arrived."""
        return np.asarray(lanes & (self._least(alive) >= self.arrived))

    def missing(self, lane: tuple[int, int], alive: Array) -> Array:
        """The lanes of the cluster for whose arrival a lane waits."""
        same = self.clocks.cluster == self.clocks.cluster[lane]
        return np.asarray(same & alive & (self.arrived < self.arrived[lane]))

    def go_on(self, lanes: Array) -> None:
        """Lets the lanes of a mask go on after the barrier: they know what all have told that arrived."""
        codes, groups = groups_of((self.arrived[lanes] - 1) * self.clocks.clusters + self.clocks.cluster[lanes])
        some = (divmod(code, self.clocks.clusters) for code in codes.tolist())
        self.clocks.learn_by_groups(lanes, groups, [self._told[cluster, phase % 2][1] for phase, cluster in some])
        self._passed = np.where(lanes, self.arrived, self._passed)

    def _least(self, alive: Array) -> Array:
        """How often all threads of each lane's cluster have arrived that are alive, shape (1, blocks)."""
        counts = np.where(alive, self.arrived, np.iinfo(np.int32).max).min(axis=0)
        least = counts.reshape(-1, self.clocks.size).min(axis=1)
        return np.asarray(np.repeat(least, self.clocks.size)[None, :])
