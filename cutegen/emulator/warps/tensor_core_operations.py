"""The instructions of tcgen05 by their first modifier: those of alloc and dealloc wait, the others do not."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.tensor_allocations import (
    AllocationWait,
    DeallocationWait,
    read_allocation,
    read_deallocation,
    relinquishment,
)
from cutegen.emulator.warps.tensor_commits import commitment
from cutegen.emulator.warps.tensor_memory_copies import tensor_memory_copy
from cutegen.emulator.warps.tensor_memory_moves import tensor_fence, tensor_move, tensor_wait
from cutegen.emulator.warps.tensor_products import tensor_product


def tensor_core_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of a tcgen05 instruction that does not wait. Raises UnsupportedInstruction for unknown forms."""
    reader = InstructionReader(instruction)
    what = instruction.modifiers[0] if instruction.modifiers else ""
    if what in ("ld", "st"):
        return tensor_move(reader, slots)
    if what.startswith("wait::"):
        return tensor_wait(reader)
    if what.startswith("fence::"):
        return tensor_fence(reader)
    what = reader.choice("mma", "cp", "commit", "relinquish_alloc_permit")
    if what == "mma":
        return tensor_product(reader, slots, note)
    if what == "cp":
        return tensor_memory_copy(reader, slots, note)
    return commitment(reader, slots, places) if what == "commit" else relinquishment(reader)


def tensor_core_wait(
    instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note
) -> AllocationWait | DeallocationWait | None:
    """The wait of a tcgen05 instruction, or None for one that does not wait. Raises UnsupportedInstruction."""
    reader = InstructionReader(instruction)
    if instruction.modifiers[:1] == ("alloc",):
        return read_allocation(reader, slots, places, note)
    return read_deallocation(reader, slots) if instruction.modifiers[:1] == ("dealloc",) else None
