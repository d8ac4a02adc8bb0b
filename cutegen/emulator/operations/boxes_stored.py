"""Stores of boxes of a tensor by the C core: those of all lanes of an instruction in one call, where all is in order.

It does what `tensor_stores` does of one lane after the other, where nobody has touched yet what they write.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.memory.near_boxes import NearMap, near_coordinates, near_map
from cutegen.emulator.memory.placement import WINDOW
from cutegen.emulator.memory.tensor_maps import TensorMap
from cutegen.emulator.native.library import Core, core
from cutegen.emulator.operations.boxes_together import ANYWHERE, MODES, can_be_told, described, note_addresses
from cutegen.emulator.operations.mbarrier_operations import SharedOperand
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_operands import BoxOperand, nothing
from cutegen.emulator.synchronisation.bulk_groups import BulkCopy, single

_ROOM = 256  # stores of one instruction
_STORED = 4 + MODES  # whole numbers that the core gives of each
_MAP, _NEXT = 4, 32  # the places, among the numbers that it is given, of what changes from call to call
_NAME = "stored boxes"  # under which lanes keep a `BoxStores`


@dataclass(frozen=True)
class _Told:
    """The core's arguments for stores by one tensor map: numbers, their address, and a box as the access to note.

    `near` is the map of the memory that is really there, if the kernel is given another one, else None.
    """

    numbers: Array
    address: int
    box: SharedAccess
    near: NearMap | None


class BoxStores:
    """The stores of boxes by the lanes of one batch."""

    def __init__(self, found: Core, lanes: Lanes) -> None:
        self._store, self._land = found.store_boxes, found.accesses["land_box"]
        arenas = lanes.access.memory.arenas
        self._table = np.array([arena.addresses().ctypes.data for arena in arenas], np.int64)
        self._lanes = np.ascontiguousarray(lanes.access.hazards.lanes, np.int64)
        self._found = np.zeros((_ROOM, _STORED), np.int64)
        self._told: dict[tuple[int, int], _Told] = {}

    def store(
        self, box: BoxOperand, origin: SharedOperand, lanes: Lanes, here: Array, tensor: TensorMap, at: int
    ) -> int:
        """Makes the stores of the lanes of a mask by the tensor map at the address `at`, one lane after the other.

        It stops before one where something is not in order, or that has another map. Returns the number of that lane,
        or of all lanes; where a warp has several lanes of the mask, that of the first.
        """
        shared, access, team = lanes.shared, lanes.access, lanes.team
        log, slots = shared.log, (origin.pointer.slot, box.pointer.slot, *box.origins)
        if lanes.poison and not lanes.clean(slots, here):
            return 0
        if access.earlier is not None and has_any(access.earlier.unknown_to(here)):
            return 0
        assert isinstance(log, SharedHistory)
        told = self._told.get((id(box), at))
        if told is None:
            told = self._told[id(box), at] = self._tell(box, origin, lanes, tensor, at)
        reading = log.pending()
        given = log.for_core(told.box, *(team.clocks.proxy_fences or ()))
        if given is None:
            return 0
        bases = [np.asarray(get(lanes)) for get in (origin.pointer.base, box.pointer.base)]
        named = [np.asarray(get(lanes)) for get in box.coordinates]
        coordinates = named if told.near is None else near_coordinates(told.near, named, here)
        if coordinates is None:
            return 0
        arrays: tuple[Array, ...] = (here, *bases, shared.data, shared.flags, self._table, self._lanes)
        arrays += (reading.count, reading.lines, self._found, *coordinates)
        count = self._store(arrays, told.address, *given)
        found, line = self._found[:count].copy(), box.instruction.line
        if shared.touched is not None:
            shared.touched += [(*one, told.box.count) for one in found[:, :3].tolist()]
            those = [(thread, block) for thread, block, _, some, *_ in found.tolist() if some]
            note_addresses(lanes, tensor, named, those)
        for number, (thread, block, row, some, *_) in enumerate(found.tolist()):
            access.written += some
            read = partial(_have_read, lanes, told.box, (thread, block), row)
            arrived = partial(self._arrived, told, found[number, _STORED - MODES :], lanes) if some else nothing
            team.bulk_groups.begin((thread, block), BulkCopy(line, read, arrived))
        following = int(told.numbers[_NEXT])
        return here.size if following < 0 else following

    def _arrived(self, told: _Told, where: Array, lanes: Lanes) -> None:
        """Notes that a box that was stored to some coordinates has arrived."""
        numbers = told.numbers.copy()
        numbers[_MAP] = lanes.access.hazards.epochs.passed.max()
        self._land((self._table, where), numbers.ctypes.data)

    def _tell(self, box: BoxOperand, origin: SharedOperand, lanes: Lanes, tensor: TensorMap, at: int) -> _Told:
        """Makes the core's arguments for stores by a tensor map."""
        shared, pointer = lanes.shared, origin.pointer
        maps, bytes_of_map = at - box.pointer.offset, np.asarray(box.pointer.base(lanes)).itemsize
        shift = pointer.offset - (0 if origin.space else WINDOW)
        places = (shift, np.asarray(pointer.base(lanes)).itemsize, 0, 0, maps, bytes_of_map, 0)
        memory = (shared.base, shared.size, shared.unit, len(self._table), _ROOM, 0)
        near = near_map(tensor, lanes.access.memory.folds)
        described_map = described(tensor if near is None else near.tensor)
        numbers = np.array((*places, *memory, *described_map, 0, -1), np.int64)
        noted = SharedAccess(ANYWHERE, tensor.bytes // shared.unit, None, box.instruction, 0, 0)
        return _Told(numbers, numbers.ctypes.data, noted, near)


def _have_read(lanes: Lanes, box: SharedAccess, lane: tuple[int, int], row: int) -> None:
    """Notes that a lane knows that its store has read a box, from a unit of its block's memory on."""
    log, units = lanes.shared.log, box.count
    assert isinstance(log, SharedHistory)
    rows, mask = np.full((1, 1), row), single(lane, lanes.shape)
    log.end_reads(SharedAccess(rows, units, mask, box.instruction, row, row + units), lane)


def box_stores(lanes: Lanes) -> BoxStores | None:
    """The stores of boxes by the core, made once for lanes; None without one, and where more is kept than it knows."""
    if _NAME not in lanes.kept:
        found = core()
        lanes.kept[_NAME] = BoxStores(found, lanes) if found is not None and can_be_told(lanes) else None
    made = lanes.kept[_NAME]
    assert made is None or isinstance(made, BoxStores)
    return made
