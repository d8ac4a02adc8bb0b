"""tcgen05.alloc, dealloc and relinquish_alloc_permit: columns of tensor memory that a warp allocates for its block.

PTX ISA 9.1, section 9.7.16.7. The address is written to shared memory by an ordinary store, here of the warp's first
thread. An allocation waits until there is room, which only another warp's dealloc can make. For a pair of blocks a warp
of each of them allocates, and both get the same columns once both have come.
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
from cutegen.emulator.warps.tensor_pairs import blocks_of, read_group
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_number_operand

_ADDRESS = 4  # bytes of an address in tensor memory


@dataclass(frozen=True)
class AllocationWait:
    """tcgen05.alloc of `count` columns for so many blocks as `group` says, whose address goes to shared memory `to`."""

    to: SharedOperand
    count: ThreadOperand
    group: int
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps for which there is room. Raises Stop for a count that no warp may ask for."""
        warps = whole_warps(lanes, mask, self.instruction)
        memory = lanes.team.tensor_memory
        for warp, count in zip(warps.tolist(), self.count.of_warps(lanes, mask, warps), strict=True):
            lane = first_lane_of(lanes, warp)
            block = lane[1]
            blocks_of(lanes, lane, self.group, self.instruction)
            if count not in range(FEWEST, COLUMNS + 1) or count & (count - 1):
                text = f"allocates {count} columns of tensor memory, where a power of two from {FEWEST} to {COLUMNS} "
                raise Stop("tcgen05", f"{text}is needed", self.instruction, lane)
            if memory.relinquished[block]:
                text = "allocates tensor memory, after a tcgen05.relinquish_alloc_permit of the block"
                raise Stop("tcgen05", text, self.instruction, lane)
            if count > memory.latest(block):
                text = f"allocates {count} columns of tensor memory, after {memory.latest(block)}: a block must not "
                raise Stop("tcgen05", text + "allocate more than it has before", self.instruction, lane)
            memory.asked[block][lane[0]] = count
            self._check_alike(lanes, lane, count)
        return self._open(lanes, warps, mask)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps for which there is room now."""
        return self._open(lanes, np.flatnonzero(taking_part(lanes, mask).any(axis=1)), mask)

    def _check_alike(self, lanes: Lanes, lane: tuple[int, int], count: int) -> None:
        """Raises Stop where the other block of a pair asks for other counts."""
        others = lanes.team.tensor_memory.asked[lane[1] ^ 1].values() if self.group == 2 else ()
        if any(other != count for other in others):
            text = f"allocates {count} columns of tensor memory, and the other block of the pair {max(others)}"
            raise Stop("tcgen05", text, self.instruction, lane)

    def _open(self, lanes: Lanes, warps: Array, mask: Array) -> Array:
        """Allocates for those of the warps that find room, and returns their lanes."""
        memory, through = lanes.team.tensor_memory, []
        for warp in warps.tolist():
            lane = first_lane_of(lanes, warp)
            thread, block = lane
            if lane not in memory.granted:
                peers = [(one, block ^ 1) for one in memory.asked[block ^ 1]][:1] if self.group == 2 else []
                if len(peers) == self.group - 1:
                    memory.grant([lane, *peers], memory.asked[block][thread])
            if lane not in memory.granted:
                continue
            access = self.to.access(lanes, single(lane, lanes.shape))[0]
            lanes.shared.check_free(access, "writes")
            lanes.shared.log.write(access)
            address = np.array([memory.granted.pop(lane)], "<u4").view(np.uint8)
            store_shared(lanes.shared, access, address, np.zeros(_ADDRESS, np.bool_))
            through.append(warp)
        return threads_of(lanes, np.asarray(through)) if through else np.zeros_like(mask)

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often columns were freed, or granted."""
        return lanes.team.tensor_memory.changes

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No warp goes on without its columns."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that there is never room, or that the other block of a pair never allocates."""
        warp = int(np.flatnonzero(taking_part(lanes, mask).any(axis=1))[0])
        lane, memory = first_lane_of(lanes, warp), lanes.team.tensor_memory
        text = f"waits forever for {memory.asked[lane[1]][lane[0]]} of the {COLUMNS} columns of tensor memory: "
        if self.group == 2 and not memory.asked[lane[1] ^ 1]:
            return Stop("deadlock", f"{text}the other block of the pair never allocates", self.instruction, lane)
        return Stop("deadlock", text + memory.described(lane[1]), self.instruction, lane)


def read_allocation(reader: InstructionReader, slots: Mapping[str, int], places: Places, note: Note) -> AllocationWait:
    """Reads tcgen05.alloc. Raises UnsupportedInstruction for other forms."""
    reader.choice("alloc")
    group = read_group(reader)
    _read_aligned(reader)
    space = reader.choice("shared::cta", default="")
    reader.type("b32")
    target, count = reader.operands(2)
    note("shared", _ADDRESS)
    to = replace(read_mbarrier(reader, target, space, slots, places), size=_ADDRESS, align=_ADDRESS)
    return AllocationWait(to, read_number_operand(reader, count, "u32", slots), group, reader.instruction)


@dataclass(frozen=True)
class DeallocationWait:
    """tcgen05.dealloc of `count` columns from an `address` on, for so many blocks as `group` says.

    Whether it waits for that of the other block of a pair, PTX leaves open: here it does, or not. So the first of both
    must be ordered after all that either block does with the columns.
    """

    address: ThreadOperand
    count: ThreadOperand
    group: int
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps that do not wait. Raises Stop for columns that are not allocated so, or are in use."""
        warps, memory = whole_warps(lanes, mask, self.instruction), lanes.team.tensor_memory
        given = (operand.of_warps(lanes, mask, warps) for operand in (self.address, self.count))
        through = []
        for warp, first, columns in zip(warps.tolist(), *given, strict=True):
            lane = first_lane_of(lanes, warp)
            if memory.allocations[lane[1]].get(first) != columns:
                text = f"frees {columns} columns of tensor memory at address {first:#x}; {memory.described(lane[1])}"
                raise Stop("tcgen05", text, self.instruction, lane)
            touch = Touch(self.instruction, lane, int(lanes.team.clocks.member[lane]), "frees")
            blocks = blocks_of(lanes, lane, self.group, self.instruction, leaves=True)
            for block in blocks:
                memory.check_unused(touch, block, first)
            memory.free(lane[1], first, blocks)
            if self.group == 1 or not lanes.team.tosses() or first not in memory.allocations[lane[1] ^ 1]:
                through.append(warp)
        return threads_of(lanes, np.asarray(through)) if through else np.zeros_like(mask)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes of warps whose peers have freed the same columns."""
        warps, memory = np.flatnonzero(taking_part(lanes, mask).any(axis=1)), lanes.team.tensor_memory
        firsts = self.address.of_warps(lanes, mask, warps)
        through = [
            warp
            for warp, first in zip(warps.tolist(), firsts, strict=True)
            if first not in memory.allocations[warp % lanes.shape[1] ^ 1]
        ]
        return threads_of(lanes, np.asarray(through)) if through else np.zeros_like(mask)

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often columns were freed, or granted."""
        return lanes.team.tensor_memory.changes

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No warp goes on that waits for its peer."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that the other block of the pair never frees the columns."""
        warp = int(np.flatnonzero(taking_part(lanes, mask).any(axis=1))[0])
        text = "waits forever for the tcgen05.dealloc of the other block of the pair, which it may or may not wait for"
        return Stop("deadlock", text, self.instruction, first_lane_of(lanes, warp))


def read_deallocation(reader: InstructionReader, slots: Mapping[str, int]) -> DeallocationWait:
    """Reads tcgen05.dealloc. Raises UnsupportedInstruction for other forms."""
    reader.choice("dealloc")
    group = read_group(reader)
    _read_aligned(reader)
    reader.type("b32")
    address, count = (read_number_operand(reader, one, "b32", slots) for one in reader.operands(2))
    return DeallocationWait(address, count, group, reader.instruction)


def relinquishment(reader: InstructionReader) -> Operation:
    """The operation of tcgen05.relinquish_alloc_permit, whose first modifier has been taken."""
    instruction, group = reader.instruction, read_group(reader)
    _read_aligned(reader)
    reader.operands(0)

    def relinquish(lanes: Lanes, mask: Mask) -> None:
        warps = whole_warps(lanes, mask, instruction)
        for warp in warps.tolist():
            blocks_of(lanes, first_lane_of(lanes, warp), group, instruction, leaves=True)
        lanes.team.tensor_memory.relinquished[warps % lanes.shape[1]] = True

    return relinquish


def _read_aligned(reader: InstructionReader) -> None:
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
