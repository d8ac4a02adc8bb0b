"""All that the blocks of a batch share where more than whole blocks meet: clocks, barriers, and who may reach whom."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.lanes import first_lane, groups_of, spread
from cutegen.emulator.memory.tensor_memory import TensorMemory
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.block_barriers import BlockBarriers
from cutegen.emulator.synchronisation.bulk_groups import BulkGroups
from cutegen.emulator.synchronisation.cluster_barriers import ClusterBarriers
from cutegen.emulator.synchronisation.cluster_pool import ClusterPool
from cutegen.emulator.synchronisation.issued_operations import IssuedOperations
from cutegen.emulator.synchronisation.mbarriers import Mbarriers
from cutegen.emulator.synchronisation.product_groups import ProductGroups
from cutegen.emulator.synchronisation.register_pool import RegisterPool

_LATE = 0.5  # of what is sent

Delivery = Callable[[], None]
"""Completes an asynchronous operation."""


class Team:
    """The state shared by the lanes of a batch of `shape` = (threads, blocks), whose clusters have `size` blocks each.

    `alive` are the lanes that have not exited, and `gone` the blocks whose lanes have all exited, shape (blocks,).
    `exits` counts the times that lanes have exited. `failed` has the lanes whose last try of a wait failed, by the
    identity of the wait. `chance` decides which asynchronous writes arrive late; without it, none does. `pool` has the
    clusters that have not started, where the kernel may cancel some.
    """

    def __init__(
        self,
        shape: tuple[int, int],
        size: int,
        chance: np.random.Generator | None = None,
        pool: ClusterPool | None = None,
    ) -> None:
        self.shape, self.size, self.pool = shape, size, pool
        self.clocks = Clocks(shape, size)
        self.cluster_barriers = ClusterBarriers(self.clocks)
        self.block_barriers = BlockBarriers(self.clocks)
        self.mbarriers = Mbarriers(self.clocks)
        self.bulk_groups = BulkGroups()
        self.products = ProductGroups(shape)
        self.issued = IssuedOperations(self.clocks)
        self.registers = RegisterPool(shape)
        self._product_agents: dict[int, int] = {}  # by the number of a warpgroup
        self.failed: dict[int, Array] = {}
        self._chance = chance
        self._under_way: list[Delivery] = []
        self.alive: Array = np.ones(shape, np.bool_)
        self.exits = 0
        self.gone: Array = np.zeros(shape[1], np.bool_)
        # When, and at which PTX line, each member of a cluster has touched the memory of each rank last
        self.visits = np.zeros((2, self.clocks.clusters, self.clocks.members, size), np.int32)
        self._farewells: dict[int, Array] = {}  # block -> what its threads knew when they exited

    def product_agent(self, warpgroup: int) -> int:
        """The number of the agent that reads for the products of a warpgroup, in the block of rank 0."""
        if warpgroup not in self._product_agents:
            self._product_agents[warpgroup] = self.clocks.add_agents()
        return self._product_agents[warpgroup]

    @cached_property
    def tensor_memory(self) -> TensorMemory:
        """The tensor memory of the blocks, made where something uses it."""
        return TensorMemory(self.clocks)

    @property
    def has_tensor_memory(self) -> bool:
        """Whether something has used tensor memory."""
        return "tensor_memory" in self.__dict__

    def columns(self, lanes: Array, rank: Array, instruction: Instruction) -> Array:
        """The number in the batch of the block with that rank in the cluster of each lane of a mask.

        `rank` broadcasts to the lanes; entries of lanes outside of the mask mean nothing. Raises Stop for a rank that
        no block of the cluster has.
        """
        shape = self.shape
        bad = lanes & (spread(rank, shape) >= self.size)
        if has_any(bad):
            lane = first_lane(bad, shape)
            found = int(spread(rank, shape)[lane])
            text = f"an address in the shared memory of rank {found}: the cluster has {self.size} blocks"
            raise Stop("cluster", text, instruction, lane)
        first = np.arange(shape[1]) // self.size * self.size
        return np.asarray(first[None, :] + np.where(lanes, rank, 0))

    def visit(self, lanes: Array, columns: Array, instruction: Instruction, *, counted: bool = False) -> None:
        """Notes that lanes of a mask touch the shared memory of the blocks `columns`, or start what touches it.

        These blocks must not exit before they know of it, unless it is `counted`: then they wait for a phase of an
        mbarrier. Raises Stop where that is not the lane's own block, and is not known to have started, or may have
        exited.
        """
        away = lanes & (columns != np.arange(self.shape[1])[None, :])
        if not has_any(away):
            return
        whose = spread(columns, self.shape)[away]
        unknown = ~self.clocks.has_run(away, whose % self.size)
        for bad, text in (
            (self.gone[whose], "which has exited"),
            (unknown, "which is not known to have started: no barrier of the cluster lies between that and this"),
        ):
            if has_any(bad):
                at = int(bad.argmax())
                threads, blocks = np.nonzero(away)
                lane = int(threads[at]), int(blocks[at])
                text = f"touches shared memory of the block of rank {whose[at] % self.size} in the cluster, {text}"
                raise Stop("cluster", text, instruction, lane)
        if counted:
            return
        where = self.clocks.cluster[away], self.clocks.member[away], whose % self.size
        self.visits[0][where], self.visits[1][where] = self.clocks.now, instruction.line

    def send(self, count: int, deliver: Callable[[Sequence[int]], None]) -> None:
        """Starts `count` operations, which `deliver` completes, by their numbers.

        It completes some at once, together, and each of the others once nothing else can happen.
        """
        late = [False] * count if self._chance is None else (self._chance.random(count) < _LATE).tolist()
        self._under_way += (partial(deliver, (number,)) for number in range(count) if late[number])
        if now := [number for number in range(count) if not late[number]]:
            deliver(now)

    def tosses(self) -> bool:
        """Whether something happens now that may or may not; without chance it never does."""
        return self._chance is not None and bool(self._chance.random() < _LATE)

    @property
    def in_order(self) -> bool:
        """Whether asynchronous writes arrive as soon as they are sent."""
        return self._chance is None

    @property
    def late(self) -> bool:
        """Whether deliveries are under way."""
        return bool(self._under_way)

    def deliver(self) -> bool:
        """Makes one of the deliveries that are under way; returns whether there was one."""
        if not self._under_way or self._chance is None:
            return False
        self._under_way.pop(int(self._chance.integers(len(self._under_way))))()
        return True

    def leave(self, lanes: Array, instruction: Instruction | None) -> None:
        """Lets the lanes of a mask exit. Raises Stop for a block all of which has, and whose memory may be in use."""
        self.alive = self.alive & ~lanes
        self.exits += 1
        if (reading := self.bulk_groups.reading(lanes)) is not None:
            text = (
                f"exits while its bulk copy (PTX line {reading[1]}) may still read shared memory: no wait_group for it"
            )
            raise Stop("in-flight", text, instruction, reading[0], witnesses=(Witness("started here", reading[1]),))
        blocks, groups = groups_of(np.nonzero(lanes)[1])
        rows = self.clocks.rows_by_groups(lanes, groups, len(blocks)) if len(blocks) else ()
        for block, known in zip(blocks.tolist(), rows, strict=True):
            if block in self._farewells:
                before = self._farewells[block]
                known[: len(before)] = np.maximum(known[: len(before)], before)
            self._farewells[block] = known
            if not has_any(self.alive[:, block]):
                self.gone[block] = True
                self._check_unused(block, known, instruction)

    def _check_unused(self, block: int, known: Array, instruction: Instruction | None) -> None:
        """Raises Stop if a peer's last access to a block's memory is not before what its threads knew at their exit."""
        cluster, rank = block // self.size, block % self.size
        times, lines = self.visits[:, cluster, :, rank]
        late = (times > 0) & (times >= known[: self.clocks.members])
        if has_any(late):
            member = int(late.argmax())
            lane = self.clocks.lane(cluster, member)
            other, line = member // self.clocks.padded, int(lines[member])
            text = (
                f"thread {lane[0]} of the block of rank {other} touches shared memory of the block of rank {rank} (PTX "
                f"line {line}), which exits here and may have done so before"
            )
            raise Stop("cluster", text, instruction, (0, block), witnesses=(Witness("touched here", line),))
        self._check_tensor_cores(block, known, instruction)
        for agent, time, line in self.mbarriers.writes_to(block):
            if time >= known[agent]:
                text = (
                    f"the block of rank {rank} exits, while an asynchronous operation (PTX line {line}) may still "
                    "write its shared memory: no thread of it has waited for the phase of its mbarrier"
                )
                raise Stop("in-flight", text, instruction, (0, block), witnesses=(Witness("started here", line),))

    def _check_tensor_cores(self, block: int, known: Array, instruction: Instruction | None) -> None:
        """Raises Stop for a block that exits with columns of tensor memory, or under operations that may use memory."""
        if not self.has_tensor_memory:
            return
        if columns := sum(self.tensor_memory.allocations[block].values()):
            text = f"the block exits with {columns} columns of tensor memory that no tcgen05.dealloc has freed: "
            text += self.tensor_memory.described(block)
            raise Stop("tcgen05", text, instruction, (0, block))
        for agent, time, line in self.issued.touching(block):
            if time >= known[agent]:
                text = f"the block exits, while a tensor core operation (PTX line {line}) may still use its memory: no "
                text += "thread of it has waited for the mbarrier of a tcgen05.commit behind it"
                raise Stop("in-flight", text, instruction, (0, block), witnesses=(Witness("started here", line),))
