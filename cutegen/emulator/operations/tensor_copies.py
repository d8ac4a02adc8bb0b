"""cp.async.bulk.tensor to shared memory: loads of boxes of a tensor, which a tensor map describes.

As other bulk copies they move their bytes at once, and what they write is an agent's until the phase of its mbarrier
has ended. All the bytes of a box count there: what lies beyond the tensor's ends is filled with zeros. A multicast
writes to several blocks of the cluster, at the same place in each, and counts at an mbarrier of each. With cta_group::2
that may be one of either block of a pair: the one that the mbarrier's address names, or, for each block of a multicast,
that with the same parity of its pair.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import PIECE, Landing, load_places
from cutegen.emulator.memory.tensor_maps import TensorMap, swizzled_pieces
from cutegen.emulator.operations.boxes_together import BoxLoad, box_loads
from cutegen.emulator.operations.bulk_copies import Lane, target_of, write_bytes
from cutegen.emulator.operations.mbarrier_operations import read_mbarrier
from cutegen.emulator.operations.multicasts import read_multicast
from cutegen.emulator.operations.operands import Note, Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_operands import BOX, nothing, read_box, read_rank, shared_start
from cutegen.emulator.operations.tensor_stores import tensor_store_operation
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.mbarrier_uses import Uses

_COUNTED = "mbarrier::complete_tx::bytes"
_WORD = 4  # bytes, of which padded items are whole multiples


def tensor_copy_operation(instruction: Instruction, slots: Mapping[str, int], places: Places, note: Note) -> Operation:
    """The operation of cp.async.bulk.tensor.

    Raises UnsupportedInstruction for im2col, gather and scatter.
    """
    reader = InstructionReader(instruction)
    del reader.left[:3]
    rank = read_rank(reader)
    spaces = reader.left[:2]
    del reader.left[:2]
    note("shared", PIECE)
    note("global", 1)
    if spaces == ["global", "shared::cta"]:
        return tensor_store_operation(reader, rank, slots, places)
    if spaces not in (["shared::cluster", "global"], ["shared::cta", "global"]):
        reader.fail("these state spaces")
    reader.choice("tile", default="")
    reader.choice(_COUNTED)
    pairs = reader.choice("cta_group::1", "cta_group::2", default="") == "cta_group::2"
    several = spaces[0] == "shared::cluster" and reader.flag("multicast::cluster")
    hinted = reader.flag("L2::cache_hint")
    target, source, mbarrier, *more = reader.operands(3 + several + hinted)
    to = replace(read_mbarrier(reader, target, spaces[0], slots, places), align=BOX, counted=True)
    counter = replace(read_mbarrier(reader, mbarrier, spaces[0], slots, places), counted=True)
    box = read_box(reader, source, rank, slots, places)
    multicast = read_multicast(reader, more[0], slots) if several else None
    of_size = cache(to.of_size)  # where boxes of so many bytes come
    all_of_them = BoxLoad(to, counter, box, multicast)

    def copy(lanes: Lanes, mask: Mask) -> None:
        here = whole(lanes.active(mask), lanes.shape)
        box.check_known(lanes, mask)
        together, done = None if pairs else box_loads(lanes), 0
        if together is not None and has_any(here):
            tensor, address = box.map_at(lanes, divmod(int(here.argmax()), lanes.shape[1]))
            done = together.load(all_of_them, lanes, here, tensor, address) if tensor.is_plain else 0
        for number in () if done == here.size else np.flatnonzero(here).tolist():
            if number < done:
                continue
            lane = divmod(number, lanes.shape[1])
            tensor, at = box.at(lanes, lane)
            targets = [target_of(lanes, of_size(tensor.bytes), counter, lane, tensor.bytes)]
            counts = targets[0][1]
            if multicast is not None:
                targets = multicast.targets(lanes, lane, *targets[0])
            if pairs:
                targets = [_counted_in_pair(lanes, lane, one, counts) for one in targets]
            _load(lanes, lane, targets, tensor, at)

    return copy


def _counted_in_pair(
    lanes: Lanes, lane: Lane, target: tuple[SharedAccess, Uses], counts: Uses
) -> tuple[SharedAccess, Uses]:
    """A target of a copy with the mbarrier of its pair that has the parity of the block that `counts`.

    Raises Stop for an mbarrier in neither block of the pair, if the copy is no multicast.
    """
    access, uses = target
    data = lane[1] if access.columns is None else int(access.columns.reshape(-1)[0])
    named = int(counts.blocks[0])
    if uses is counts and named // 2 != data // 2:
        size = lanes.team.size
        text = f"writes shared memory of the block of rank {data % size} in the cluster, and its mbarrier lies in that "
        text += f"of rank {named % size}: both must be in one pair of blocks"
        raise Stop("cluster", text, access.instruction, lane)
    return access, Uses(uses.lanes, uses.offsets, np.full(1, data & ~1 | named & 1), access.instruction)


def _load(
    lanes: Lanes, lane: Lane, targets: Sequence[tuple[SharedAccess, Uses]], tensor: TensorMap, at: tuple[int, ...]
) -> None:
    """Copies the box at some coordinates to places in shared memory. Raises Stop for a fault."""
    instruction = targets[0][0].instruction
    size, addresses, inside = _parts(tensor, at)
    landing: Landing = nothing
    if inside.all():
        data, lost, landing = load_places(lanes.access, addresses, size, lane, instruction)
    else:
        data, lost = np.zeros((len(addresses), size), np.uint8), np.zeros((len(addresses), size), np.bool_)
        if has_any(inside):
            found, bad, landing = load_places(lanes.access, addresses[inside], size, lane, instruction)
            data[inside], lost[inside] = found.reshape(-1, size), bad.reshape(-1, size)
    start = shared_start(lanes, targets[0][0], lane)
    moved = _in_memory(data, start, tensor)
    unknown = _in_memory(lost, start, tensor) if has_any(lost) else np.zeros(len(moved), np.bool_)
    left = [len(targets)]

    def seen(observer: Lane) -> None:
        left[0] -= 1
        if not left[0]:  # all blocks have it, so that nothing reads the tensor any more
            landing()

    for access, uses in targets:
        write_bytes(lanes, access, uses, moved, unknown, seen, tensor.counted)


def _parts(tensor: TensorMap, at: tuple[int, ...]) -> tuple[int, Array, Array]:
    """The parts in which the box at some coordinates is read: the bytes of each, the addresses, and which there are."""
    if not tensor.padding:
        size = tensor.size_at(at)
        return size, *tensor.places(at, size)
    addresses, inside = tensor.places(at)
    each = np.arange(0, tensor.itemsize, _WORD)
    return _WORD, (addresses[:, None] + each).reshape(-1), np.repeat(inside, len(each))


def _in_memory(values: Array, start: int, tensor: TensorMap) -> Array:
    """The values of the bytes of a box's items as they lie from a shared address on; padding has zeros."""
    if tensor.padding:
        items = values.reshape(-1, tensor.itemsize)
        values = np.concatenate([items, np.zeros((len(items), tensor.padding), values.dtype)], axis=1)
    pieces = values.reshape(-1, PIECE)
    found = np.empty_like(pieces)
    found[swizzled_pieces(start, len(pieces), tensor.swizzle, tensor.pairs)] = pieces
    return found.reshape(-1)
