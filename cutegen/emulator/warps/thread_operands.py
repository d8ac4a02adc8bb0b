"""Operands of tcgen05 that are numbers: addresses in tensor memory, descriptors, masks and predicates.

A single thread gives them, or all threads of a warp give the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, value_at
from cutegen.emulator.operations.operands import Getter, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Address, Immediate, Instruction, Operand, Register
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.warps.by_warp import same_in_warps


@dataclass(frozen=True)
class ThreadOperand:
    """A number that threads give: `get` finds it, and `offset` is added.

    `slot` is that of its register, or -1 for a constant.
    """

    get: Getter
    slot: int
    instruction: Instruction
    offset: int = 0

    def check_known(self, lanes: Lanes, mask: Mask) -> None:
        """Raises Stop for a lane of the mask in which it depends on what was never written."""
        self.get(lanes)
        if self.slot in lanes.poison:
            lanes.refuse_register(self.slot, mask, f"an operand of {self.instruction.name}", self.instruction)

    def at(self, lanes: Lanes, lane: tuple[int, int]) -> int:
        """The number that one lane gives."""
        return value_at(self.get(lanes), lane, lanes.shape) + self.offset

    def of_warps(self, lanes: Lanes, mask: Mask, warps: Array) -> list[int]:
        """The number that each of the warps gives. Raises Stop for lanes of a warp that differ, or do not know it."""
        self.check_known(lanes, mask)
        found = same_in_warps(lanes, self.get(lanes), warps, self.instruction, "tcgen05")
        return [int(value) + self.offset for value in found]


def read_number_operand(
    reader: InstructionReader, operand: Operand, kind: str, slots: Mapping[str, int]
) -> ThreadOperand:
    """An operand as a number of a type of bits or a predicate."""
    source = reader.source(operand, TYPES[kind])
    slot = slots[source.name] if isinstance(source, Register) else -1
    return ThreadOperand(getter(source, TYPES[kind].width, slots, {}, reader.instruction), slot, reader.instruction)


def read_tensor_address(reader: InstructionReader, operand: Operand, slots: Mapping[str, int]) -> ThreadOperand:
    """An operand in brackets as an address in tensor memory."""
    if not isinstance(operand, Address) or not isinstance(operand.base, Register | Immediate):
        reader.fail("an address in tensor memory was expected")
    base = operand.base
    if isinstance(base, Immediate):
        base = Immediate(base.bits & 0xFFFFFFFF, 32)
    elif base.width != 32:
        reader.fail(f"an address in tensor memory of {base.width} bits")
    slot = slots[base.name] if isinstance(base, Register) else -1
    return ThreadOperand(getter(base, 32, slots, {}, reader.instruction), slot, reader.instruction, operand.offset)
