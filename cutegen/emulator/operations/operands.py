"""The common parts of operations: their type, and how they find the value of an operand in the lanes' state."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.instructions.pure_op import Source
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.placement import Place
from cutegen.emulator.operations.special_registers import SPECIALS
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.errors import UnsupportedInstruction
from cutegen.emulator.ptx.model import Immediate, Instruction, Register, Special, Symbol
from cutegen.emulator.ptx.types import STORAGE, constant_array

Operation = Callable[[Lanes, Mask], None]
"""One instruction, ready to run: it changes the state of the lanes in a mask."""

Note = Callable[[str, int], None]
"""An operation on memory tells it the state space ("global" or "shared") and its smallest access in bytes."""

Getter = Callable[[Lanes], Array]
"""Finds the raw bits of an operand in the lanes' state."""

Places = Mapping[str, Place]
"""The variables of a kernel by name, with their addresses."""


def getter(source: Source, width: int, slots: Mapping[str, int], places: Places, instruction: Instruction) -> Getter:
    """A function that finds the raw bits of `source`, `width` bits wide, in the lanes' state.

    `slots` numbers the registers by name. Raises UnsupportedInstruction for a special register that is not emulated,
    and for a symbol that is no variable in `places`.
    """
    if isinstance(source, Register):
        slot = slots[source.name]

        def register(lanes: Lanes) -> Array:
            bits = lanes.bits[slot]
            return lanes.get(slot) if bits is None else bits

        return register
    if isinstance(source, Immediate):
        fixed = constant_array(source.bits, width)
        return lambda lanes: fixed
    if isinstance(source, Special):
        name = source.name
        if name not in SPECIALS:
            raise UnsupportedInstruction(name, instruction.line, instruction.text, "special register")
        return lambda lanes: lanes.specials[name].astype(STORAGE[width], copy=False)
    assert isinstance(source, Symbol)
    if source.name not in places:
        raise UnsupportedInstruction(instruction.name, instruction.line, instruction.text, f"address of {source.name}")
    here = constant_array(places[source.name].address + source.offset, width)
    return lambda lanes: here
