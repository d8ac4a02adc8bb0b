"""Registers of 128 bits, each kept as two of 64 bits, and mov.b128, which makes them of such and takes them apart."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.operations.operands import Operation, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register, Vector
from cutegen.emulator.ptx.types import TYPES

_WIDE, _HALF = 128, 64


def high_half(name: str) -> str:
    """The name of the register with the high bits of one of 128 bits; that with the low ones has its own name."""
    return f"{name}.high"


def in_halves(registers: Mapping[str, int]) -> dict[str, int]:
    """The widths of registers by name, with two of 64 bits for each one of 128 bits."""
    found = {name: min(width, _HALF) for name, width in registers.items()}
    return found | {high_half(name): _HALF for name, width in registers.items() if width == _WIDE}


def wide_move(instruction: Instruction, slots: Mapping[str, int]) -> Operation:
    """The operation of mov.b128. Raises UnsupportedInstruction unless one operand is a pair of registers."""
    reader = InstructionReader(instruction)
    reader.choice("b128")
    target, source = reader.operands(2)
    kind = TYPES["b64"]
    if isinstance(target, Register) and target.width == _WIDE and isinstance(source, Vector):
        results = [slots[target.name], slots[high_half(target.name)]]
        given = [reader.source(item, kind) for item in source.items]
    elif isinstance(source, Register) and source.width == _WIDE and isinstance(target, Vector):
        results = [reader.result(item, kind, slots) for item in target.items]
        given = [Register(source.name, _HALF), Register(high_half(source.name), _HALF)]
    else:
        reader.fail("a register of 128 bits, and two of 64 bits, were expected")
    if not len(results) == len(given) == 2:
        reader.fail("two registers of 64 bits were expected")
    getters = [getter(one, _HALF, slots, {}, instruction) for one in given]
    origins = [slots[one.name] if isinstance(one, Register) else -1 for one in given]

    def move(lanes: Lanes, mask: Mask) -> None:
        values = [get(lanes) for get in getters]
        poison = [lanes.poison.get(slot) for slot in origins]
        for slot, value, lost in zip(results, values, poison, strict=True):
            if slot >= 0:
                lanes.put(slot, value, mask, lost)

    return move
