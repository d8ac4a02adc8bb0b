"""Boxes of tensors as operands: a tensor map among the kernel's parameters, and coordinates in its tensor."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, value_at
from cutegen.emulator.memory.placement import BASE, PARAMETERS
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_maps import ALIGN, BYTES, TensorMap, TensorMapError, read_tensor_map
from cutegen.emulator.operations.addresses import Pointer, read_pointer
from cutegen.emulator.operations.bulk_copies import Lane
from cutegen.emulator.operations.operands import Getter, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Operand, Register, TensorAddress
from cutegen.emulator.ptx.types import TYPES

BOX = 128
"""The alignment of a box in shared memory, in bytes (PTX ISA 9.1, section 5.5.7)."""


@dataclass(frozen=True)
class BoxOperand:
    """An operand `[map, {c0, c1}]`: where its tensor map is, and how to find its coordinates.

    `origins` are the slots of the registers that hold the coordinates, or -1 for constants.
    """

    instruction: Instruction
    pointer: Pointer
    coordinates: tuple[Getter, ...]
    origins: tuple[int, ...]

    def check_known(self, lanes: Lanes, mask: Mask) -> None:
        """Raises Stop for a coordinate that was never written, in a lane of the mask."""
        for slot, get in zip(self.origins, self.coordinates, strict=True):
            get(lanes)
            lanes.refuse_register(slot, mask, "a coordinate", self.instruction)

    def at(self, lanes: Lanes, lane: Lane) -> tuple[TensorMap, tuple[int, ...]]:
        """The tensor map of a lane and its coordinates, which are signed, in items.

        Raises Stop for a map that does not fit.
        """
        tensor, _ = self.map_at(lanes, lane)
        first, *others = (value_at(get(lanes).view(np.int32), lane, lanes.shape) for get in self.coordinates)
        if first % tensor.elements:
            text = f"a box from element {first} of the innermost mode on, which has {tensor.elements} in an item"
            raise Stop("tensor-map", text, self.instruction, lane)
        return tensor, (first // tensor.elements, *others)

    def map_at(self, lanes: Lanes, lane: Lane) -> tuple[TensorMap, int]:
        """The tensor map of a lane, and its address. Raises Stop for one that does not fit."""
        address, rank = self.pointer.known_at(lanes, lane, self.instruction), len(self.coordinates)
        tensor = tensor_map_at(lanes, address, lane, self.instruction)
        if tensor.rank != rank:
            text = f"the map is of a tensor of rank {tensor.rank}, and the copy is of rank {rank}"
            raise Stop("tensor-map", text, self.instruction, lane)
        if tensor.row_bytes % PIECE:
            text = f"a box of {tensor.row_bytes} bytes along its innermost mode, not a multiple of {PIECE}"
            raise Stop("tensor-map", text, self.instruction, lane)
        return tensor, address


def read_rank(reader: InstructionReader) -> int:
    """Takes the modifier with the rank of the tensor."""
    return int(reader.choice("1d", "2d", "3d", "4d", "5d")[0])


def read_box(
    reader: InstructionReader, operand: Operand, rank: int, slots: Mapping[str, int], places: Places
) -> BoxOperand:
    """An operand as a box of a tensor of that rank. Raises UnsupportedInstruction for another operand."""
    if not isinstance(operand, TensorAddress) or len(operand.coordinates) != rank:
        reader.fail(f"{rank} coordinates in a tensor were expected")
    pointer = read_pointer(reader, operand.map, "param", slots, places)
    given = [reader.source(one, TYPES["s32"]) for one in operand.coordinates]
    coordinates = tuple(getter(one, 32, slots, {}, reader.instruction) for one in given)
    origins = tuple(slots[one.name] if isinstance(one, Register) else -1 for one in given)
    return BoxOperand(reader.instruction, pointer, coordinates, origins)


def tensor_map_of(lanes: Lanes, pointer: Pointer, lane: Lane, instruction: Instruction) -> TensorMap:
    """The tensor map that a lane points to. Raises Stop unless there is one."""
    return tensor_map_at(lanes, pointer.known_at(lanes, lane, instruction), lane, instruction)


def tensor_map_at(lanes: Lanes, address: int, lane: Lane, instruction: Instruction) -> TensorMap:
    """The tensor map at an address, which a lane points to. Raises Stop unless there is one."""
    start = address - PARAMETERS
    if start % ALIGN or not 0 <= start <= len(lanes.parameters) - BYTES:
        text = "its tensor map is not among the kernel's parameters, at a multiple of 64 bytes"
        raise Stop("tensor-map", text, instruction, lane)
    try:
        return read_tensor_map(lanes.parameters[start : start + BYTES])
    except TensorMapError as problem:
        raise Stop("tensor-map", f"{problem}", instruction, lane) from problem


def shared_start(lanes: Lanes, access: SharedAccess, lane: Lane) -> int:
    """The shared address from which on a lane's access is, in the block that has it."""
    return value_at(access.rows, lane, lanes.shape) * lanes.shared.unit + BASE


def nothing() -> None:
    """The end of a copy of nothing."""
