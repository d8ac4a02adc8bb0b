"""cp.async.bulk.tensor: copies of boxes of a tensor, which a tensor map among the kernel's parameters describes.

As other bulk copies they move their bytes at once, and what they write is an agent's until the phase of its mbarrier
has ended. All the bytes of a box count there: what lies beyond the tensor's ends is filled with zeros.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.placement import BASE, PARAMETERS
from cutegen.emulator.memory.runs import PIECE, Landing, load_places
from cutegen.emulator.memory.tensor_maps import ALIGN, BYTES, TensorMap, TensorMapError, read_tensor_map, swizzled
from cutegen.emulator.operations.addresses import Pointer, read_pointer
from cutegen.emulator.operations.bulk_copies import Lane, write_bytes
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Getter, Note, Operation, Places, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction, Register, TensorAddress
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.synchronisation.bulk_groups import single

_COUNTED = "mbarrier::complete_tx::bytes"
_BOX = 128
"""Of which multiple a box stands in shared memory, in bytes (PTX ISA 9.1, section 5.5.7)."""


def tensor_copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of cp.async.bulk.tensor from global to shared memory.

    Raises UnsupportedInstruction for stores, im2col, gather and scatter, multicast, and pairs of blocks.
    """
    reader = InstructionReader(instruction)
    del reader.left[:3]
    rank = int(reader.choice("1d", "2d", "3d", "4d", "5d")[0])
    spaces = reader.left[:2]
    del reader.left[:2]
    if spaces not in (["shared::cluster", "global"], ["shared::cta", "global"]):
        reader.fail("these state spaces")
    reader.choice("tile", default="")
    reader.choice(_COUNTED)
    hinted = reader.flag("L2::cache_hint")
    target, source, mbarrier, *_ = reader.operands(4 if hinted else 3)
    if not isinstance(source, TensorAddress) or len(source.coordinates) != rank:
        reader.fail(f"{rank} coordinates in a tensor were expected")
    note("shared", PIECE)
    note("global", 1)
    to = replace(read_mbarrier(reader, target, spaces[0], slots, places), align=_BOX, counted=True)
    counter = replace(read_mbarrier(reader, mbarrier, spaces[0], slots, places), counted=True)
    pointer = read_pointer(reader, source.map, "param", slots, places)
    given = [reader.source(one, TYPES["s32"]) for one in source.coordinates]
    coordinates = [getter(one, 32, slots, {}, instruction) for one in given]
    origins = [slots[one.name] if isinstance(one, Register) else -1 for one in given]

    def copy(lanes: Lanes, mask: Mask) -> None:
        here = whole(lanes.active(mask), lanes.shape)
        for slot in origins:
            if slot in lanes.poison:
                lanes.refuse(lanes.poison[slot], mask, "a coordinate", instruction)
        for thread, block in zip(*np.nonzero(here), strict=True):
            lane = int(thread), int(block)
            _load(lanes, lane, to, counter, map_of(lanes, pointer, lane, instruction), _at(lanes, coordinates, lane))

    return copy


def map_of(lanes: Lanes, pointer: Pointer, lane: Lane, instruction: Instruction) -> TensorMap:
    """The tensor map that a lane points to. Raises Stop unless there is one."""
    base = pointer.known_base(lanes, single(lane, lanes.shape), instruction)
    start = int(np.broadcast_to(base, lanes.shape)[lane]) + pointer.offset - PARAMETERS
    if start % ALIGN or not 0 <= start <= len(lanes.parameters) - BYTES:
        text = "its tensor map is not among the kernel's parameters, at a multiple of 64 bytes"
        raise Stop("tensor-map", text, instruction, lane)
    try:
        found = read_tensor_map(lanes.parameters[start : start + BYTES])
    except TensorMapError as problem:
        raise Stop("tensor-map", f"{problem}", instruction, lane) from problem
    rank = int(next(m for m in instruction.modifiers if m in ("1d", "2d", "3d", "4d", "5d"))[0])
    if found.rank != rank:
        text = f"the map is of a tensor of rank {found.rank}, and the copy is of rank {rank}"
        raise Stop("tensor-map", text, instruction, lane)
    if found.box[0] * found.itemsize % PIECE:
        text = f"a box of {found.box[0] * found.itemsize} bytes along its innermost mode, no multiple of {PIECE}"
        raise Stop("tensor-map", text, instruction, lane)
    return found


def _at(lanes: Lanes, coordinates: list[Getter], lane: Lane) -> tuple[int, ...]:
    """The coordinates that a lane gives, which are signed."""
    return tuple(int(np.broadcast_to(get(lanes), lanes.shape)[lane].astype(np.int32)) for get in coordinates)


def _load(
    lanes: Lanes, lane: Lane, to: SharedOperand, counter: SharedOperand, tensor: TensorMap, at: tuple[int, ...]
) -> None:
    """Copies the box at some coordinates to shared memory. Raises Stop for a fault."""
    instruction, mask = to.instruction, single(lane, lanes.shape)
    addresses, inside = tensor.places(at)
    size = tensor.itemsize
    data, lost = np.zeros((len(addresses), size), np.uint8), np.zeros((len(addresses), size), np.bool_)
    landing: Landing = _nothing
    if inside.any():
        found, bad, landing = load_places(lanes.access, addresses[inside], size, lane, instruction)
        data[inside], lost[inside] = found.reshape(-1, size), bad.reshape(-1, size)
    start = _start_of(lanes, to, lane)
    moved, unknown = (_swizzled(part.reshape(-1), start, tensor.swizzle) for part in (data, lost))
    write_bytes(lanes, to, counter, mask, moved, unknown, lambda observer: landing())


def _nothing() -> None:
    """The end of a read of nothing."""


def _start_of(lanes: Lanes, to: SharedOperand, lane: Lane) -> int:
    """The shared address of a lane's box, in the block that has it."""
    access = to.access(lanes, single(lane, lanes.shape))[0]
    rows = np.broadcast_to(access.rows, lanes.shape)
    return int(rows[lane]) * lanes.shared.unit + BASE


def _swizzled(values: Array, start: int, swizzle: int) -> Array:
    """The values of the bytes of a box, packed, as they lie from a shared address on."""
    if not swizzle:
        return values
    pieces = values.reshape(-1, PIECE)
    found = np.empty_like(pieces)
    places = start + PIECE * np.arange(len(pieces), dtype=np.int64)
    found[(swizzled(places, swizzle) - start) // PIECE] = pieces
    return found.reshape(-1)
