"""clusterlaunchcontrol: tries to cancel clusters of the launch that have not started, and what came of them.

The answer of a try is 16 bytes, whose layout PTX leaves open: here the first 8 have the coordinates of the cluster's
first block in 21 bits each, and a one in the last bit if the try has not failed. The async proxy writes them. After a
failure the coordinates mean nothing; to read them is no fault, as compilers do so before they look at it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.operations.bulk_copies import Lane, write_bytes
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register, Vector
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier_uses import Uses

_ANSWER = 16  # bytes
_BITS = 21  # of a coordinate
_DONE = np.uint64(1 << 63)


def cluster_launch_operation(
    instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note
) -> Operation:
    """The operation of a clusterlaunchcontrol instruction. Raises UnsupportedInstruction for unknown forms."""
    reader = InstructionReader(instruction)
    if reader.choice("try_cancel", "query_cancel") == "query_cancel":
        return _query(reader, slots)
    reader.choice("async")
    space = reader.choice("shared::cta", default="")
    reader.choice("mbarrier::complete_tx::bytes")
    everywhere = reader.flag("multicast::cluster::all")
    reader.choice("b128")
    target, mbarrier = reader.operands(2)
    note("shared", 8)
    to = replace(read_mbarrier(reader, target, space, slots, places), size=_ANSWER, align=_ANSWER, counted=True)
    counter = replace(read_mbarrier(reader, mbarrier, space, slots, places), counted=True)
    return Try(to, counter, everywhere)


@dataclass(frozen=True)
class Try:
    """A try to cancel a cluster, whose answer goes to shared memory at `to` and is counted at `counter`: of the block,
    or at the same places of all blocks of its cluster, if it goes `everywhere`.
    """

    to: SharedOperand
    counter: SharedOperand
    everywhere: bool

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
            self._try(lanes, (thread, block))

    def _try(self, lanes: Lanes, lane: Lane) -> None:
        team, instruction, here = lanes.team, self.to.instruction, single(lane, lanes.shape)
        assert team.pool is not None
        cluster = lane[1] // team.size
        if cluster in team.pool.refused:
            text = "tries to cancel a cluster after a try of its cluster has failed, which is undefined"
            raise Stop("cluster", text, instruction, lane)
        found, answer = team.pool.cancel(), np.zeros(2, np.uint64)
        if found is not None:
            answer[0] = _DONE | np.uint64(sum(one << _BITS * i for i, one in enumerate(found)))
        access, uses = self.to.access(lanes, here)[0], self.counter.uses(lanes, here)
        for block in range(cluster * team.size, (cluster + 1) * team.size) if self.everywhere else [lane[1]]:
            columns = np.full((1, 1), block)
            team.visit(here, columns, instruction, counted=True)
            there = Uses(uses.lanes, uses.offsets, columns[0], instruction)
            data, lost = answer.view(np.uint8), np.zeros(_ANSWER, np.bool_)
            write_bytes(lanes, replace(access, columns=columns), there, data, lost, lambda seen: None)


def _query(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of query_cancel: whether a try has cancelled a cluster, or coordinates of its first block."""
    what = reader.choice("is_canceled", "get_first_ctaid", *(f"get_first_ctaid::{axis}" for axis in "xyz"))
    reader.choice("b128")
    several = what == "get_first_ctaid" and reader.flag("v4")
    kind = TYPES[reader.choice("pred") if what == "is_canceled" else reader.choice("b32")]
    target, handle = reader.operands(2)
    if not isinstance(handle, Register) or handle.width != 128:
        reader.fail("an answer in a register of 128 bits was expected")
    items = target.items if several and isinstance(target, Vector) else (target,)
    if len(items) != (4 if several else 1) or what == "get_first_ctaid" and not several:
        reader.fail("four results were expected")
    results = [reader.result(item, kind, slots) for item in items]
    slot = slots[handle.name]
    if what == "is_canceled":
        return _Success(slot, results[0])
    axes = [0, 1, 2] if several else ["xyz".index(what[-1])]
    return _Coordinates(slot, tuple(zip(results, axes, strict=False)))


@dataclass(frozen=True)
class _Success:
    """Whether the try whose answer is in the slot `handle` has cancelled a cluster."""

    handle: int
    target: int

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        answer, poison = lanes.get(self.handle), lanes.poison.get(self.handle)
        lost = None if poison is None else poisoned_lanes(poison)
        done = (answer & _DONE) != 0
        lanes.put(self.target, done, mask, lost)
        pool = lanes.team.pool
        failed = ~done if lost is None else ~done & ~lost
        seen = whole(lanes.active(mask), lanes.shape) & spread(failed, lanes.shape)
        if pool is not None and has_any(seen):
            pool.refused.update((np.flatnonzero(seen.any(axis=0)) // lanes.team.size).tolist())


@dataclass(frozen=True)
class _Coordinates:
    """Coordinates from the answer in the slot `handle`: for each of the `targets`, its slot and the axis."""

    handle: int
    targets: tuple[tuple[int, int], ...]

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        answer, poison = lanes.get(self.handle), lanes.poison.get(self.handle)
        lost: Array = (answer & _DONE) == 0
        if poison is not None:
            lost = lost | poisoned_lanes(poison)
        for slot, axis in self.targets:
            if slot >= 0:
                found = (answer >> np.uint64(_BITS * axis) & np.uint64((1 << _BITS) - 1)).astype(np.uint32)
                lanes.put(slot, found, mask, lost if has_any(lost) else None)
