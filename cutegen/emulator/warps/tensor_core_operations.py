"""The instructions of tcgen05 that do not wait, by their first modifier."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.tensor_allocations import deallocation, relinquishment
from cutegen.emulator.warps.tensor_commits import commitment
from cutegen.emulator.warps.tensor_memory_moves import tensor_fence, tensor_move, tensor_wait
from cutegen.emulator.warps.tensor_products import tensor_product


def tensor_core_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of a tcgen05 instruction other than alloc. Raises UnsupportedInstruction for unknown forms."""
    reader = InstructionReader(instruction)
    what = instruction.modifiers[0] if instruction.modifiers else ""
    if what in ("ld", "st"):
        return tensor_move(reader, slots)
    if what.startswith("wait::"):
        return tensor_wait(reader)
    if what.startswith("fence::"):
        return tensor_fence(reader)
    what = reader.choice("mma", "commit", "dealloc", "relinquish_alloc_permit")
    if what == "mma":
        return tensor_product(reader, slots, note)
    if what == "commit":
        return commitment(reader, slots, places)
    return deallocation(reader, slots) if what == "dealloc" else relinquishment(reader)
