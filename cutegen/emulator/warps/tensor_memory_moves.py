"""tcgen05.ld and st, between tensor memory and the registers of a warp, and their waits and fences.

A warp reaches the quarter of the lanes that its number in the block modulo 4 gives. Registers have what ld reads at
once: a use of the register waits for it (PTX ISA 9.1, section 9.7.16.6.4.5), so that wait::ld is not asked for. What st
writes counts as being written until the warp's wait::st.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.poison import poisoned_lanes
from cutegen.emulator.checks.tensor_history import GROUP, TensorPart, Touch
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.memory.tensor_memory import LANES, UNDEFINED, WRITTEN, TensorMemory
from cutegen.emulator.operations.operands import Getter, Operation, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction, Operand, Register, Vector
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.warps.by_warp import by_thread_of_several, by_warp, first_lane_of, whole_warps
from cutegen.emulator.warps.tensor_places import SHAPES, CellPlaces, move_places
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_tensor_address

_QUARTER = LANES // 4
_LOW = 0xFFFF  # the low half of a cell


@dataclass(frozen=True)
class Move:
    """A tcgen05.ld or st of a shape at an address, of cells at the `places`.

    If it is `packed`, a register has the low halves of a cell and of that in the next column.
    """

    shape: str
    address: ThreadOperand
    places: CellPlaces
    packed: bool
    instruction: Instruction

    def part(self, lanes: Lanes, memory: TensorMemory, touch: Touch, address: int) -> tuple[TensorPart, Array, Array]:
        """The part of tensor memory that a warp moves, and the lane and column of each register in each thread.

        Raises Stop for lanes that the warp does not reach, and for columns that are not allocated.
        """
        row, column = address >> 16, address & 0xFFFF
        warp = touch.lane[0] // WARP
        first = warp % 4 * _QUARTER
        if row // _QUARTER * _QUARTER != first:
            text = f"{touch.verb} tensor memory from lane {row} on: warp {warp} reaches lanes {first} to "
            text += f"{first + _QUARTER - 1}, as its number modulo 4 says"
            raise Stop("tcgen05", text, self.instruction, touch.lane)
        if row % (_QUARTER if self.shape == "32x32b" else GROUP):
            text = f"a move of shape {self.shape} from lane {row} of tensor memory on"
            raise Stop("misaligned", text, self.instruction, touch.lane)
        places, every = self.places, self.places.every_column
        if self.packed:
            every = np.concatenate([every, every + 1], axis=1)
        part = memory.part(touch.lane[1], places.groups + row // GROUP, every + column, touch)
        return part, places.lanes + row, places.columns + column

    def get(self, cells: Array, rows: Array, columns: Array) -> Array:
        """The contents of registers, from the cells of a block."""
        found: Array = cells[rows, columns]
        return found & _LOW | (cells[rows, columns + 1] & _LOW) << 16 if self.packed else found

    def put(self, cells: Array, rows: Array, columns: Array, values: Array) -> None:
        """Puts the contents of registers into the cells of a block."""
        cells[rows, columns] = values & _LOW if self.packed else values
        if self.packed:
            cells[rows, columns + 1] = values >> 16

    def states(self, states: Array, rows: Array, columns: Array) -> Array:
        """The states of the cells of registers: of two, one that is not `WRITTEN`, if one is not."""
        found = states[rows, columns]
        return np.where(found == WRITTEN, states[rows, columns + 1], found) if self.packed else found

    def put_states(self, states: Array, rows: Array, columns: Array, given: Array) -> None:
        """Puts the states of registers into those of the cells of a block."""
        for more in range(1 + self.packed):
            states[rows, columns + more] = given


def tensor_move(reader: InstructionReader, slots: Mapping[str, int]) -> Operation:
    """The operation of tcgen05.ld or st. Raises UnsupportedInstruction for reductions and other forms."""
    loads = reader.choice("ld", "st") == "ld"
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    shape = reader.choice(*SHAPES)
    each, most = SHAPES[shape]
    repeated = re.fullmatch(r"x(\d+)", reader.left[0]) if reader.left else None
    count = int(repeated[1]) if repeated else 0
    if count & (count - 1) or not 1 <= count <= most:
        reader.fail(f"a repetition of {count}, which must be a power of two up to {most}")
    del reader.left[0]
    packed = reader.flag("pack::16b" if loads else "unpack::16b")
    reader.type("b32")
    halves = shape == "16x32bx2"
    if packed and halves:
        reader.fail("packing of this shape")
    operands = list(reader.operands(2 + halves))
    registers = operands.pop(0 if loads else -1)
    offset = operands[1] if halves else Immediate(0, None)
    if not isinstance(offset, Immediate) or offset.width is not None:
        reader.fail("an offset that is no constant")
    items = registers.items if isinstance(registers, Vector) else (registers,)
    if len(items) != each * count:
        reader.fail(f"{len(items)} registers, {each * count} were expected")
    places = move_places(shape, count, offset.bits, 1 + packed)
    move = Move(shape, read_tensor_address(reader, operands[0], slots), places, packed, reader.instruction)
    return _load(reader, move, items, slots) if loads else _store(reader, move, items, slots)


def _load(reader: InstructionReader, move: Move, items: tuple[Operand, ...], slots: Mapping[str, int]) -> Operation:
    targets = [reader.result(item, TYPES["b32"], slots) for item in items]
    instruction = move.instruction

    def load(lanes: Lanes, mask: Mask) -> None:
        warps, memory = whole_warps(lanes, mask, instruction), lanes.team.tensor_memory
        shape = len(targets), -(-lanes.shape[0] // WARP) * lanes.shape[1], WARP
        found, lost = np.zeros(shape, np.uint32), np.zeros(shape, np.bool_)
        for warp, address in zip(warps.tolist(), move.address.of_warps(lanes, mask, warps), strict=True):
            touch = _touch(lanes, warp, instruction, "reads")
            part, rows, columns = move.part(lanes, memory, touch, address)
            memory.history.check_read(touch, part)
            memory.history.note_read(touch, part)
            found[:, warp] = move.get(memory.data[part.block], rows, columns)
            lost[:, warp] = move.states(memory.state[part.block], rows, columns) != WRITTEN
        bad = has_any(lost)
        if bad and lanes.origins is not None:
            some_lost = by_thread_of_several(lanes, lost).any(axis=0)
            lanes.origins.load(np.where(some_lost, _unwritten(lanes, instruction), 0))
        values = by_thread_of_several(lanes, found)
        poison = by_thread_of_several(lanes, lost) if bad else np.zeros(len(targets))
        for slot, value, some in zip(targets, values, poison, strict=True):
            if slot >= 0:
                lanes.put(slot, value, mask, some if bad and has_any(some) else None)

    return load


def _unwritten(lanes: Lanes, instruction: Instruction) -> Array:
    """The marks of an origin: cells of tensor memory that mean nothing."""
    assert lanes.origins is not None
    text = "tensor memory, which was never written or was computed from uninitialised memory"
    return lanes.origins.add(instruction, lambda lane: text, text)


def _store(reader: InstructionReader, move: Move, items: tuple[Operand, ...], slots: Mapping[str, int]) -> Operation:
    sources = [reader.source(item, TYPES["b32"]) for item in items]
    getters: list[Getter] = [getter(one, 32, slots, {}, move.instruction) for one in sources]
    origins = [slots[one.name] if isinstance(one, Register) else -1 for one in sources]
    instruction = move.instruction

    def store(lanes: Lanes, mask: Mask) -> None:
        warps, memory = whole_warps(lanes, mask, instruction), lanes.team.tensor_memory
        values = np.stack([by_warp(lanes, np.asarray(get(lanes))) for get in getters])
        states = np.stack([by_warp(lanes, _states(lanes, slot)) for slot in origins])
        for warp, address in zip(warps.tolist(), move.address.of_warps(lanes, mask, warps), strict=True):
            touch = _touch(lanes, warp, instruction, "writes")
            part, rows, columns = move.part(lanes, memory, touch, address)
            memory.history.check_write(touch, part)
            memory.history.note_write(touch, part, lands=True)
            move.put(memory.data[part.block], rows, columns, values[:, warp])
            move.put_states(memory.state[part.block], rows, columns, states[:, warp])

    return store


def _states(lanes: Lanes, slot: int) -> Array:
    """The state of cells that a register is stored to, in each lane."""
    if slot not in lanes.poison:
        return np.full((1, 1), WRITTEN, np.uint8)
    return np.where(poisoned_lanes(lanes.poison[slot]), np.uint8(UNDEFINED), np.uint8(WRITTEN))


def tensor_wait(reader: InstructionReader) -> Operation:
    """The operation of tcgen05.wait::ld or wait::st."""
    instruction = reader.instruction
    stores = reader.choice("wait::ld", "wait::st") == "wait::st"
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    reader.operands(0)

    def wait(lanes: Lanes, mask: Mask) -> None:
        for warp in whole_warps(lanes, mask, instruction).tolist():
            if stores:
                lane = first_lane_of(lanes, warp)
                lanes.team.tensor_memory.history.land(lane, int(lanes.team.clocks.member[lane]))

    return wait


def tensor_fence(reader: InstructionReader) -> Operation:
    """The operation of tcgen05.fence, which does nothing.

    What it orders, barriers and mbarriers order here: each release and acquire is taken to have it beside it.
    """
    reader.choice("fence::before_thread_sync", "fence::after_thread_sync")
    reader.operands(0)
    return lambda lanes, mask: None


def _touch(lanes: Lanes, warp: int, instruction: Instruction, verb: str) -> Touch:
    """An access by a warp, which its first lane stands for."""
    lane = first_lane_of(lanes, warp)
    return Touch(instruction, lane, int(lanes.team.clocks.member[lane]), "reads" if verb == "reads" else "writes")
