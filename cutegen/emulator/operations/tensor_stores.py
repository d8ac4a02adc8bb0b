"""cp.async.bulk.tensor to global memory: stores of boxes to a tensor, which a tensor map describes.

Elements beyond the tensor's ends are not written, so that shared memory need not hold them. But the hardware writes
whole 16 bytes: where a row ends within some, what follows it in memory is overwritten (seen on an H100), which is a
fault, unless the tensor's rows are padded by bytes that are nobody's. A bulk group of the thread has the copy, which
reads its source until the wait for that.

PTX lets each thread store; machine code has one store for a warp. So the same store by several threads of a warp, at
once, is one, which the first of them has made, and different ones are a fault.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask
from cutegen.emulator.memory.runs import PIECE, store_places
from cutegen.emulator.memory.tensor_maps import TensorMap, swizzled_pieces
from cutegen.emulator.operations.boxes_stored import box_stores
from cutegen.emulator.operations.bulk_copies import Lane, begin_copy, begin_reads
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_operands import BOX, nothing, read_box, shared_start
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.warps.by_warp import by_thread, by_warp


def tensor_store_operation(reader: InstructionReader, rank: int, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of a store, whose rank and state spaces have been taken.

    Raises UnsupportedInstruction for im2col and scatter.
    """
    reader.choice("tile", default="")
    reader.choice("bulk_group")
    hinted = reader.flag("L2::cache_hint")
    target, source, *_ = reader.operands(3 if hinted else 2)
    box = read_box(reader, target, rank, slots, places)
    origin = replace(read_mbarrier(reader, source, "shared", slots, places), align=BOX)
    instruction = reader.instruction

    def store(lanes: Lanes, mask: Mask) -> None:
        here = whole(lanes.active(mask), lanes.shape)
        box.check_known(lanes, mask)
        asked: dict[tuple[int, int], tuple[TensorMap, tuple[int, ...], int]] = {}
        mine, done = here & ~_repeated(lanes, here), 0
        together = box_stores(lanes)
        if together is not None and has_any(mine):
            tensor, address = box.map_at(lanes, divmod(int(mine.argmax()), lanes.shape[1]))
            done = together.store(box, origin, lanes, mine, tensor, address) if tensor.is_plain else 0
        for number in () if done == here.size else np.flatnonzero(mine).tolist():
            if number < done:
                continue
            lane = divmod(number, lanes.shape[1])
            one = *box.at(lanes, lane), shared_start(lanes, origin.access_of(lanes, lane)[0], lane)
            first = asked.setdefault((lane[0] // WARP, lane[1]), one)
            if first is one:
                _store(lanes, lane, origin, *one)
            elif first != one:
                text = "threads of a warp store different boxes at once, and machine code makes one store of them"
                raise Stop("tensor-map", text, instruction, lane)

    def _repeated(lanes: Lanes, here: Array) -> Array:
        """The lanes of a mask whose operands are all those of the first one of their warp."""
        pointers = (box.pointer, origin.pointer)
        if not lanes.clean([pointer.slot for pointer in pointers], here):
            return np.zeros_like(here)
        first = by_warp(lanes, here).argmax(axis=1)
        alike = by_warp(lanes, here).copy()
        for get in (*box.coordinates, *(pointer.base for pointer in pointers)):
            values = by_warp(lanes, get(lanes))
            alike &= values == values[np.arange(len(values)), first][:, None]
        alike[np.arange(len(alike)), first] = False
        return by_thread(lanes, alike)

    return store


def _store(lanes: Lanes, lane: Lane, origin: SharedOperand, tensor: TensorMap, at: tuple[int, ...], start: int) -> None:
    """Copies shared memory from an address on to the box at some coordinates. Raises Stop for a fault."""
    if tensor.padding:
        raise Stop("tensor-map", "stores elements that are padded, which are loaded only", origin.instruction, lane)
    access, data, lost = begin_reads(lanes, origin, lane, tensor.bytes)
    size = tensor.size_at(at)
    addresses, inside = tensor.places(at, size)
    if not has_any(inside):
        begin_copy(lanes, lane, access, nothing)
        return
    order = swizzled_pieces(start, tensor.bytes // PIECE, tensor.swizzle, tensor.pairs)
    packed = data.reshape(-1, PIECE)[order].reshape(-1, size)
    if has_any(lost) and has_any(lost.reshape(-1, PIECE)[order].reshape(-1, size)[inside]):
        raise lanes.refusal(single(lane, lanes.shape), "what is copied to global memory", origin.instruction)
    parts = inside.reshape(-1, PIECE // size)
    cut = parts.any(axis=1) & ~parts.all(axis=1)
    if has_any(cut) and not _padded(lanes, tensor):
        beyond = int((~parts[cut]).sum(axis=1).max()) * size
        text = f"overwrites {beyond} bytes after the end of a row of its tensor: it stores whole {PIECE} bytes"
        raise Stop("tensor-map", text, origin.instruction, lane)
    landing = store_places(lanes.access, addresses[inside], size, packed[inside].reshape(-1), lane, origin.instruction)
    begin_copy(lanes, lane, access, landing)


def _padded(lanes: Lanes, tensor: TensorMap) -> bool:
    """Whether nobody has what lies between the elements of the memory that a map describes, and rows end before the
    next ones begin by whole runs of 16 bytes.
    """
    run = -(-tensor.sizes[0] * tensor.itemsize // PIECE) * PIECE
    apart = all(step >= run for step in tensor.strides[1:])
    return apart and any(a.low == tensor.address and a.tensor.spare for a in lanes.access.memory.arenas)
