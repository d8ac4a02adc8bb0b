"""tcgen05.alloc, dealloc and relinquish_alloc_permit: columns of tensor memory that a warp allocates for its block.

PTX ISA 9.1, section 9.7.16.7. The address is written to shared memory by an ordinary store, here of the warp's first
thread. An allocation waits until there is room, which only another warp's dealloc can make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.tensor_history import Touch
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import store_shared
from cutegen.emulator.memory.tensor_memory import COLUMNS, FEWEST
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.warps.by_warp import first_lane_of, taking_part, whole_warps
from cutegen.emulator.warps.product_waits import threads_of
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_group, read_number_operand

_ADDRESS = 4  # bytes of an address in tensor memory


@dataclass(frozen=True)
class AllocationWait:
    """tcgen05.alloc of `count` columns, whose address goes to shared memory at `to`."""

    to: SharedOperand
    count: ThreadOperand
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps for which there is room. Raises Stop for a count that no warp may ask for."""
        warps = whole_warps(lanes, mask, self.instruction)
        memory = lanes.team.tensor_memory
        for warp, count in zip(warps.tolist(), self.count.of_warps(lanes, mask, warps), strict=True):
            lane = first_lane_of(lanes, warp)
            if count not in range(FEWEST, COLUMNS + 1) or count & (count - 1):
                text = f"allocates {count} columns of tensor memory, where a power of two from {FEWEST} to {COLUMNS} "
                raise Stop("tcgen05", f"{text}is needed", self.instruction, lane)
            if memory.relinquished[lane[1]]:
                text = "allocates tensor memory, after a tcgen05.relinquish_alloc_permit of the block"
                raise Stop("tcgen05", text, self.instruction, lane)
            if count > memory.latest(lane[1]):
                text = f"allocates {count} columns of tensor memory, after {memory.latest(lane[1])}: a block must not "
                raise Stop("tcgen05", text + "allocate more than it has before", self.instruction, lane)
        return self._open(lanes, mask, warps)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps for which there is room now."""
        return self._open(lanes, mask, np.flatnonzero(taking_part(lanes, mask).any(axis=1)))

    def _open(self, lanes: Lanes, mask: Array, warps: Array) -> Array:
        """Allocates for those of the warps that find room, and returns their lanes."""
        memory, through = lanes.team.tensor_memory, []
        for warp, count in zip(warps.tolist(), self.count.of_warps(lanes, mask, warps), strict=True):
            lane = first_lane_of(lanes, warp)
            first = memory.room(lane[1], count)
            if first is None:
                continue
            access = self.to.access(lanes, single(lane, lanes.shape))[0]
            lanes.shared.check_free(access, "writes")
            lanes.shared.log.write(access)
            store_shared(lanes.shared, access, np.array([first], "<u4").view(np.uint8), np.zeros(_ADDRESS, np.bool_))
            memory.allocate(lane[1], first, count)
            through.append(warp)
        return threads_of(lanes, np.asarray(through)) if through else np.zeros_like(mask)

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often columns were freed."""
        return lanes.team.tensor_memory.frees

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No warp goes on without its columns."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that there is never room."""
        warps = np.flatnonzero(taking_part(lanes, mask).any(axis=1))[:1]
        lane, (count,) = first_lane_of(lanes, int(warps[0])), self.count.of_warps(lanes, mask, warps)
        text = f"waits forever for {count} of the {COLUMNS} columns of tensor memory: "
        return Stop("deadlock", text + lanes.team.tensor_memory.described(lane[1]), self.instruction, lane)


def read_allocation(reader: InstructionReader, slots: Mapping[str, int], places: Places, note: Note) -> AllocationWait:
    """Reads tcgen05.alloc. Raises UnsupportedInstruction for other forms."""
    reader.choice("alloc")
    read_group(reader)
    _read_aligned(reader)
    space = reader.choice("shared::cta", default="")
    reader.type("b32")
    target, count = reader.operands(2)
    note("shared", _ADDRESS)
    to = replace(read_mbarrier(reader, target, space, slots, places), size=_ADDRESS, align=_ADDRESS)
    return AllocationWait(to, read_number_operand(reader, count, "u32", slots), reader.instruction)


def deallocation(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of tcgen05.dealloc, whose first modifier has been taken."""
    instruction = reader.instruction
    read_group(reader)
    _read_aligned(reader)
    reader.type("b32")
    address, count = (read_number_operand(reader, one, "b32", slots) for one in reader.operands(2))

    def deallocate(lanes: Lanes, mask: Mask) -> None:
        warps, memory = whole_warps(lanes, mask, instruction), lanes.team.tensor_memory
        given = (operand.of_warps(lanes, mask, warps) for operand in (address, count))
        for warp, first, columns in zip(warps.tolist(), *given, strict=True):
            lane = first_lane_of(lanes, warp)
            if memory.allocations[lane[1]].get(first) != columns:
                text = f"frees {columns} columns of tensor memory at address {first:#x}; {memory.described(lane[1])}"
                raise Stop("tcgen05", text, instruction, lane)
            touch = Touch(instruction, lane, int(lanes.team.clocks.member[lane]), "frees")
            memory.free(touch, lane[1], first, columns)

    return deallocate


def relinquishment(reader: InstructionReader) -> Operation:
    """The operation of tcgen05.relinquish_alloc_permit, whose first modifier has been taken."""
    instruction = reader.instruction
    read_group(reader)
    _read_aligned(reader)
    reader.operands(0)

    def relinquish(lanes: Lanes, mask: Mask) -> None:
        warps = whole_warps(lanes, mask, instruction)
        lanes.team.tensor_memory.relinquished[warps % lanes.shape[1]] = True

    return relinquish


def _read_aligned(reader: InstructionReader) -> None:
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
