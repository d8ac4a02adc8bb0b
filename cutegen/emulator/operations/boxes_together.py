"""Loads of boxes of a tensor by the C core: those of all lanes of an instruction in one call, where all is in order.

It does what `tensor_copies` does of one lane after the other. All that it notes happens at one time, which is as if one
copy came after the other: each of them counts at an mbarrier of its own, and no two write the same.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache, partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.memory.near_boxes import NearMap, near_coordinates, near_map
from cutegen.emulator.memory.placement import WINDOW
from cutegen.emulator.memory.tensor_maps import TensorMap
from cutegen.emulator.native.library import Core, core
from cutegen.emulator.operations.deliveries import Write, send_writes
from cutegen.emulator.operations.mbarrier_operations import SharedOperand
from cutegen.emulator.operations.multicasts import Multicast
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_operands import BoxOperand
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier import Arrival
from cutegen.emulator.synchronisation.mbarrier_uses import Uses

Lane = tuple[int, int]

_ROOM = 256  # copies of one instruction
MODES = 5  # that the core has room for
_BOXED = 6  # whole numbers that it gives of each copy
# Places, among the numbers that it is given, of what changes from call to call; that of the arena follows
_ARRIVES, _NEXT = 12, 32
ANYWHERE = np.zeros((1, 1), np.int64)
_NAME = "boxes"  # under which lanes keep a `BoxLoads`


@dataclass(frozen=True)
class BoxLoad:
    """A load of a box of a tensor: where it comes, which mbarrier counts it, and which blocks get it, if several may.

    `slots` are those of all registers that it reads.
    """

    to: SharedOperand
    counter: SharedOperand
    box: BoxOperand
    multicast: Multicast | None
    slots: tuple[int, ...] = field(init=False)

    def __post_init__(self) -> None:
        own = (self.to.pointer.slot, self.counter.pointer.slot, self.box.pointer.slot, *self.box.origins)
        own += () if self.multicast is None else (self.multicast.slot,)
        object.__setattr__(self, "slots", tuple(dict.fromkeys(slot for slot in own if slot >= 0)))

    @property
    def instruction(self) -> Instruction:
        return self.box.instruction


@dataclass(frozen=True)
class _Told:
    """The core's arguments for loads by one tensor map: numbers, their address, and a box as the access to note.

    `near` is the map of the memory that is really there, if the kernel is given another one, else None.
    """

    numbers: Array
    address: int
    box: SharedAccess
    bytes: int
    near: NearMap | None


class BoxLoads:
    """The loads of boxes by the lanes of one batch."""

    def __init__(self, found: Core, lanes: Lanes) -> None:
        self._load = found.load_boxes
        self._arenas = lanes.access.memory.arenas
        self._table = np.array([arena.addresses().ctypes.data for arena in self._arenas], np.int64)
        self._found = np.zeros((_ROOM, _BOXED), np.int64)
        self._told: dict[tuple[int, int], _Told] = {}

    def load(self, load: BoxLoad, lanes: Lanes, here: Array, tensor: TensorMap, at: int) -> int:
        """Makes the copies of the lanes of a mask by the tensor map at the address `at`, one lane after the other.

        It stops before one where something is not in order, or that has another map. Returns the number of that lane,
        or of all lanes.
        """
        shared, access, team = lanes.shared, lanes.access, lanes.team
        log, table = shared.log, team.mbarriers.table
        if table is None or (lanes.poison and not lanes.clean(load.slots, here)):
            return 0
        if access.earlier is not None and has_any(access.earlier.unknown_to(here)):
            return 0
        assert isinstance(log, SharedHistory)
        told = self._told.get((id(load), at))
        if told is None:
            told = self._told[id(load), at] = self._tell(load, lanes, tensor, at)
        multicast, named = load.multicast, [np.asarray(get(lanes)) for get in load.box.coordinates]
        coordinates = named if told.near is None else near_coordinates(told.near, named, here)
        if coordinates is None:
            return 0
        targets, counters = np.asarray(load.to.pointer.base(lanes)), np.asarray(load.counter.pointer.base(lanes))
        maps = np.asarray(load.box.pointer.base(lanes))
        ranks = targets if multicast is None else np.asarray(multicast.mask(lanes))
        arrays: tuple[Array, ...] = (here, targets, counters, maps, ranks, shared.data, shared.flags, shared.dirty)
        arrays += (self._table, *table.arrays, team.gone, self._found, *coordinates)
        told.numbers[_ARRIVES], told.numbers[_NEXT] = team.in_order, 0
        while True:
            given = log.for_core(told.box, *(team.clocks.proxy_fences or ()))
            count = 0 if given is None else self._load(arrays, told.address, *given)
            following, arena = told.numbers[_NEXT:].tolist()
            if not count:
                return int(following)
            if arena >= 0:
                access.latest = self._arenas[arena].name
            found = self._found[:count].tolist()
            if shared.touched is not None:
                shared.touched += [(*one, told.bytes) for one in found]
                note_addresses(lanes, tensor, named, {(thread, block): None for thread, block, *_ in found})
            self._send(load, lanes, told, found)
            if following < 0:
                return here.size

    def _send(self, load: BoxLoad, lanes: Lanes, told: _Told, found: list[list[int]]) -> None:
        """Counts copies that were made, or sends them if they may arrive late."""
        if lanes.team.in_order:
            numbers = [number for *_, number, _ in found]
            lanes.team.mbarriers.written(numbers, told.bytes, load.instruction.line)
        else:
            send_writes(lanes, [self._write(load, lanes, told, *one[:-1]) for one in found])

    @staticmethod
    def _write(
        load: BoxLoad, lanes: Lanes, told: _Told, thread: int, block: int, column: int, row: int, number: int
    ) -> Write:
        """A copy that was made, as one that has started."""
        mask, columns, units = single((thread, block), lanes.shape), np.full((1, 1), column), told.box.count
        access = SharedAccess(np.full((1, 1), row), units, mask, load.instruction, row, row + units, columns=columns)
        table = lanes.team.mbarriers.table
        assert table is not None
        offset = table.at(number).offset
        uses = Uses(mask, np.full(1, offset), columns[0], load.instruction)
        return Write(access, uses, np.zeros(1, np.int64), Arrival(column, offset, told.bytes))

    def _tell(self, load: BoxLoad, lanes: Lanes, tensor: TensorMap, at: int) -> _Told:
        """Makes the core's arguments for loads by a tensor map."""
        shared = lanes.shared
        places: list[int] = []
        for one in (load.to, load.counter):
            shift = one.pointer.offset - (0 if one.space else WINDOW)
            places += (shift, np.asarray(one.pointer.base(lanes)).itemsize)
        maps = np.asarray(load.box.pointer.base(lanes)).itemsize
        ranks = 0 if load.multicast is None else np.asarray(load.multicast.mask(lanes)).itemsize
        memory = (shared.base, shared.size, shared.unit, len(self._arenas), _ROOM, 0)
        near = near_map(tensor, lanes.access.memory.folds)
        described_map = described(tensor if near is None else near.tensor)
        about = (*places, at - load.box.pointer.offset, maps, ranks, *memory, *described_map, 0, -1)
        numbers = np.array(about, np.int64)
        box = SharedAccess(ANYWHERE, tensor.bytes // shared.unit, None, load.instruction, 0, 0)
        return _Told(numbers, numbers.ctypes.data, box, tensor.bytes, near)


@lru_cache(maxsize=64)
def described(tensor: TensorMap) -> tuple[int, ...]:
    """The core's numbers for a tensor map: address, itemsize, swizzle and rank, then sizes, strides and box by mode."""
    modes = [(*some, *[1] * (MODES - len(some))) for some in (tensor.sizes, tensor.strides, tensor.box)]
    return (tensor.address, tensor.itemsize, tensor.swizzle, tensor.rank, *modes[0], *modes[1], *modes[2])


def note_addresses(lanes: Lanes, tensor: TensorMap, coordinates: Sequence[Array], some: Iterable[Lane]) -> None:
    """Notes the addresses of boxes that lanes have copied, where somebody wants to know them."""
    watched = lanes.access.memory.watched
    if watched is not None:
        each = [np.broadcast_to(one, lanes.shape).view(np.int32) for one in coordinates]
        watched += [partial(tensor.addresses, tuple(int(one[lane]) for one in each)) for lane in some]


def box_loads(lanes: Lanes) -> BoxLoads | None:
    """The loads of boxes by the core, made once for lanes; None without one, and where more is kept than it knows."""
    if _NAME not in lanes.kept:
        found = core()
        lanes.kept[_NAME] = BoxLoads(found, lanes) if found is not None and can_be_told(lanes) else None
    made = lanes.kept[_NAME]
    assert made is None or isinstance(made, BoxLoads)
    return made


def can_be_told(lanes: Lanes) -> bool:
    """Whether the core knows all that is kept of the accesses of lanes."""
    memory, log = lanes.access.memory, lanes.shared.log
    if not isinstance(log, SharedHistory) or not log.has_core or lanes.team.mbarriers.table is None:
        return False
    return not (memory.traced or memory.journal is not None or lanes.origins is not None)
