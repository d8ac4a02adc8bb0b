"""Addresses: operands in brackets, cvta, and prefetch, which does nothing with one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.instructions.pure_op import Source
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, value_at
from cutegen.emulator.memory.placement import WINDOW
from cutegen.emulator.operations.operands import Getter, Operation, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Address, Immediate, Instruction, Operand, Register, Symbol
from cutegen.emulator.ptx.types import constant_array
from cutegen.emulator.synchronisation.bulk_groups import single


@dataclass(frozen=True, slots=True)
class Pointer:
    """An address operand: `base` finds the base in the lanes' state, and `offset` bytes are added to it.

    `slot` is that of the register that holds the base, or -1 where the base is a constant.
    """

    base: Getter
    offset: int
    slot: int

    def known_base(self, lanes: Lanes, mask: Mask, instruction: Instruction) -> Array:
        """The base of every lane. Raises Stop if it depends on what was never written, in a lane of the mask."""
        base = self.base(lanes)
        if lanes.poison:
            lanes.refuse_register(self.slot, mask, "an address", instruction)
        return base

    def known_at(self, lanes: Lanes, lane: tuple[int, int], instruction: Instruction) -> int:
        """The address that one lane has. Raises Stop if it depends on what was never written."""
        base = self.base(lanes)
        if self.slot in lanes.poison:
            lanes.refuse(lanes.poison[self.slot], single(lane, lanes.shape), "an address", instruction)
        return value_at(base, lane, lanes.shape) + self.offset


def read_pointer(
    reader: InstructionReader, operand: Operand, space: str, slots: Mapping[str, int], places: Places
) -> Pointer:
    """An operand in brackets, as an address in the state space `space` ("" for a generic address).

    Raises UnsupportedInstruction for another operand, and for the name of what is no variable in that space.
    """
    if not isinstance(operand, Address):
        reader.fail("an address was expected")
    base = operand.base
    if isinstance(base, Register):
        slot = slots[base.name]
        return Pointer(lambda lanes: lanes.get(slot), operand.offset, slot)
    if isinstance(base, Immediate):
        fixed = constant_array(base.bits, 64)
    elif base.name in places and places[base.name].variable.space == space:
        fixed = constant_array(places[base.name].address + base.offset, 64)
    else:
        reader.fail(f"{base.name} is no variable in {space or 'generic'} memory")
    return Pointer(lambda lanes: fixed, operand.offset, -1)


def address_conversion(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of cvta, which converts between the addresses of a state space and generic ones.

    Only those of shared memory differ, by `WINDOW`, of whichever block of the cluster; addresses in all other spaces
    are generic ones as they are.
    """
    reader = InstructionReader(instruction)
    kind = reader.type("u64")
    back = reader.leads("to")
    space = reader.choice("global", "const", "shared", "shared::cta", "shared::cluster", "param").partition("::")[0]
    target, operand = reader.operands(2)
    if not isinstance(target, Register) or target.width != 64:
        reader.fail("no register to write to")
    if isinstance(operand, Symbol) and not back and operand.name in places:
        if places[operand.name].variable.space != space:
            reader.fail(f"{operand.name} is no variable in {space} memory")
        source: Source = operand
    else:
        source = reader.source(operand, kind)
    get = getter(source, 64, slots, places, instruction)
    away = 0 if space != "shared" else -WINDOW if back else WINDOW
    slot, shift = slots[target.name], np.uint64(away & (2**64 - 1))
    origin = slots[source.name] if isinstance(source, Register) else -1

    def convert(lanes: Lanes, mask: Mask) -> None:
        value = get(lanes)
        lanes.put(slot, np.asarray(value) + shift, mask, lanes.poison.get(origin))

    return convert


def prefetch(instruction: Instruction) -> Operation:
    """The operation of prefetch and prefetchu, which does nothing, at any address.

    The PTX ISA 9.1, section 9.7.9.15, gives them no effect but on the caches.
    """
    reader = InstructionReader(instruction)
    if instruction.opcode == "prefetchu":
        reader.choice("L1")
    else:
        reader.flag("global")
        reader.choice("L1", "L2", "L2::evict_last", "L2::evict_normal")
    if not isinstance(reader.operands(1)[0], Address):
        reader.fail("an address was expected")
    return lambda lanes, mask: None
