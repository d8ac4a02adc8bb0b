"""Runs a program: all blocks of a launch, in batches of lanes, each of which a `Schedule` runs to its end."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.earlier_grids import EarlierGrids
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.global_races import ClockEpochs, Epochs
from cutegen.emulator.checks.journal import watch
from cutegen.emulator.checks.origins import Origins
from cutegen.emulator.lanes import WARP
from cutegen.emulator.machine.ordered_schedule import OrderedSchedule
from cutegen.emulator.machine.orders import Order
from cutegen.emulator.machine.program import Program
from cutegen.emulator.machine.schedule import Schedule
from cutegen.emulator.memory.arenas import GlobalMemory
from cutegen.emulator.memory.global_access import GlobalAccess
from cutegen.emulator.memory.local_memory import LocalMemory
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.operations.special_registers import special_values
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.synchronisation.cluster_pool import ClusterPool
from cutegen.emulator.synchronisation.team import Team

Triple = tuple[int, int, int]
_LANES = 32768  # at once, among which the time that a call of Python takes is shared
_SHARED = 1 << 21  # bytes of all blocks, where it is kept who has touched each of them


class Machine:
    """One launch of a program, in the order that `seed` stands for.

    `parameters` are the bytes of the parameter space, `shared` those of dynamic shared memory of a block. `limit` is
    the most instructions that a thread may execute, and `lanes` about how many threads run at once, by default as many
    as are fast. `blocks` are the numbers of the blocks that run, by default all. `cluster` are the sizes of a cluster
    in blocks, which divide those of `grid`; `blocks` has whole clusters. `early` says that the launch may start before
    those ahead of it have ended. Short arms of branches are `joined` to what is around them, for which the run may
    raise Undecided. `instructions` counts what was executed, over all threads.

    Where the machine is `traced`, the run goes on after something depends on what was never written: `first` is the
    first such fault, with where its value comes from, and `origin` the name of the tensor that it comes from, or empty.
    """

    def __init__(
        self,
        program: Program,
        grid: Triple,
        block: Triple,
        parameters: bytes,
        memory: GlobalMemory,
        shared: int,
        *,
        seed: int,
        limit: int,
        lanes: int | None = None,
        traced: bool = False,
        blocks: Sequence[int] | None = None,
        cluster: Triple = (1, 1, 1),
        early: bool = False,
        joined: bool = False,
    ) -> None:
        self.program, self.grid, self.block = program, grid, block
        self.parameters, self.memory = parameters, memory
        self.dynamic, self.limit = shared, limit
        self.order = Order(seed)
        self.threads = prod(block)
        self.cluster, self.size = cluster, prod(cluster)
        self.ordered = program.ordered or self.size > 1 or counts_some(program, self.threads)
        self.at_once = max(1, (lanes or _LANES) // (self.threads * self.size))
        if self.ordered:
            own = program.placement.dynamic + shared
            self.at_once = max(1, min(self.at_once, _SHARED // max(1, own * self.size)))
        self.instructions = 0
        self._numbers: Array = np.zeros(0, np.int64)
        self.traced = traced
        self.chosen, self.early, self.joined = blocks, early, joined
        self.first: Stop | None = None
        self.origin = ""

    def run(self) -> None:
        """Runs all blocks, or those that were chosen. Raises Stop for the first fault."""
        if self.program.cancels:
            self._run_some()
            return
        if self.size == 1:
            chosen = np.arange(prod(self.grid)) if self.chosen is None else np.asarray(self.chosen)
            for numbers in self.order.groups(chosen, self.at_once):
                self._run_batch(numbers)
            return
        clusters = clusters_of(self.grid, self.cluster, self.chosen)
        for some in self.order.groups(np.arange(len(clusters)), self.at_once):
            self._run_batch(clusters[some].reshape(-1))

    def _run_some(self) -> None:
        """Runs clusters, which cancel others and do their work, until none is left."""
        clusters = clusters_of(self.grid, self.cluster, self.chosen)
        first = [_coordinates(number, self.grid) for number in clusters[:, 0].tolist()]
        pool = ClusterPool(clusters, first, self.order.chance)
        while not pool.is_empty:
            self._run_batch(pool.start(self.at_once), pool)

    def coordinates(self, lane: tuple[int, int]) -> tuple[Triple, Triple]:
        """The block and the thread, both (x, y, z), of a lane (thread, block) of the batch that ran last."""
        return _coordinates(int(self._numbers[lane[1]]), self.grid), _coordinates(lane[0], self.block)

    def numbered(self, lane: int) -> tuple[Triple, Triple]:
        """The block and the thread, both (x, y, z), of the lane with that number over the whole grid."""
        return _coordinates(lane // self.threads, self.grid), _coordinates(lane % self.threads, self.block)

    def _run_batch(self, numbers: Array, pool: ClusterPool | None = None) -> None:
        """Runs the blocks with these numbers side by side, which may cancel clusters of the pool, if there is one.

        Raises Stop for the first fault.
        """
        self._numbers = numbers
        shape = (self.threads, len(numbers))
        team = Team(shape, self.size, self.order.chance, pool) if self.ordered else None
        epochs = Epochs(len(numbers)) if team is None else ClockEpochs(team.clocks, numbers, self.threads)
        placement = self.program.placement
        size, variables = placement.dynamic + self.dynamic, placement.shared(self.dynamic)
        clocks = None if team is None else team.clocks
        shared = SharedMemory(size, self.program.shared_unit, shape, variables, clocks, placement.base)
        ids = numbers[None, :].astype(np.int64) * self.threads + np.arange(self.threads)[:, None]
        if self.memory.journal is not None:
            watch(shared.log, self.memory.journal, ids)
        earlier = EarlierGrids(shape, epochs, _first_wait(self.program)) if self.early else None
        access = GlobalAccess(self.memory, ids, self.threads, epochs, earlier)
        specials = special_values(numbers, self.grid, self.block, self.cluster, placement.static, self.dynamic)
        local = LocalMemory(placement.local, shape)
        lanes = Lanes(list(self.program.widths), shape, shared, local, access, self.parameters, specials, team)
        if self.traced:
            lanes.origins = shared.origins = access.origins = Origins(self.program.slots, shape, epochs)
            local.trace(lanes.origins)
        kind = Schedule if team is None else OrderedSchedule
        schedule = kind(self.program, lanes, self.order, epochs, self.limit, self.joined)

        def underflow(kind: str, flag: int) -> None:
            lanes.underflow = True

        try:
            with np.errstate(all="ignore"), np.errstate(under="call", call=underflow):
                schedule.run()
        finally:
            self.instructions += schedule.instructions
            if lanes.origins is not None and lanes.origins.first is not None and self.first is None:
                self.first, self.origin = lanes.origins.first, lanes.origins.tensor
                if self.first.lane is not None:
                    self.first.at = self.coordinates(self.first.lane)
        shared.barrier()


def clusters_of(grid: Triple, cluster: Triple, chosen: Sequence[int] | None = None) -> Array:
    """The numbers of the blocks of each cluster of a grid, in the order of their ranks: one row a cluster.

    They are all clusters, or those that the blocks `chosen` belong to.
    """
    (gx, gy, _), (cx, cy, cz) = grid, cluster
    numbers = np.arange(prod(grid)) if chosen is None else np.asarray(chosen, np.int64)
    x, y, z = numbers % gx // cx * cx, numbers // gx % gy // cy * cy, numbers // (gx * gy) // cz * cz
    first = np.unique(x + gx * (y + gy * z))
    rank = np.arange(cx * cy * cz)
    members: Array = first[:, None] + (rank % cx + gx * (rank // cx % cy + gy * (rank // (cx * cy))))
    return members


def counts_some(program: Program, threads: int) -> bool:
    """Whether a barrier of the program counts other than all warps of a block of that many threads."""
    all_of_them = -(-threads // WARP) * WARP
    return any(block.end.threads not in (None, all_of_them) for block in program.blocks)


def _first_wait(program: Program) -> int:
    """The PTX line of the first griddepcontrol.wait of a program, or 0 if it has none."""
    waits = (i.line for i in program.kernel.instructions if i.name == "griddepcontrol.wait")
    return next(waits, 0)


def _coordinates(number: int, extents: Triple) -> Triple:
    """The (x, y, z) of a number that counts along x first."""
    x, rest = number % extents[0], number // extents[0]
    return x, rest % extents[1], rest // extents[1]
