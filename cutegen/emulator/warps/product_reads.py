"""The reads of all warps of one wgmma: where their matrices lie, as one list of units for all of them.

The four warps of a warpgroup read the same B, and a loop over the stages of a ring comes to the same places again and
again. So all that follows from the places alone is computed once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.lanes import WARP
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.shared_memory import TABOO, SharedMemory
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.product_form import by_lane
from cutegen.emulator.warps.shared_matrices import Places
from cutegen.emulator.warps.tensor_cores import FragmentPlaces

_ELEMENTS: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_KEPT = 128  # written parts of reads
_UNITS = 1 << 21  # of all reads that are kept


@dataclass(frozen=True, eq=False)
class Written:
    """The reads of those units of matrices that have been written.

    `kept` says which of `all_reads` these are, and `lost` which products are made of others, as `by_lane` has them.
    """

    all_reads: ProductReads
    kept: Array
    lost: Array

    @cached_property
    def reads(self) -> ProductReads:
        """Those of them."""
        every, kept = self.all_reads, self.kept
        starts = np.concatenate([[0], np.cumsum(kept)])[every.starts]
        return replace(
            every,
            cells=every.cells[kept],
            times=every.times[kept],
            starts=starts,
            _of_warp={},
            _written={},
            _last=[],
        )

    @cached_property
    def missing(self) -> Array:
        """Which units are not written."""
        return ~self.kept

    def elements(self, log: SharedHistory, memory: SharedMemory, instruction: Instruction) -> Array | None:
        """The bits of all elements of all units, as `ProductReads.elements`; of those that are not written, zeros."""
        found = self.reads.units(log, memory, instruction)
        if found is None:
            return None
        whole = np.zeros(len(self.kept), memory.data.dtype)
        whole[self.kept] = found
        return whole.view(self.reads.element)


@dataclass(frozen=True, eq=False)
class ProductReads:
    """The reads of some warps. All their matrices, A and B, follow each other in one list, each once.

    Where A is in registers, an empty matrix stands for it in that list, and its elements come behind those of all
    units: for one register after the other those of all warps, as their lanes hold them.

    `cells` are the units over all blocks that these have, and `times` says how many warps read each of them. `where`
    has for A and for B the elements of each matrix, by their numbers in the units' bytes, and `matrix` which of these
    each warp reads; `matrices` has both by their numbers in the list, shape (warps, 2). The cells of each matrix begin
    at one of the `starts` and end before the next. `inside` is False where some lie beyond the memory's end. `clusters`
    and `first` are the cluster and the first member of each warp.
    """

    cells: Array
    times: Array
    where: tuple[Array, Array]
    matrix: tuple[Array, Array]
    matrices: Array
    starts: Array
    inside: bool
    clusters: Array
    first: Array
    element: type[np.unsignedinteger[Any]]
    in_registers: bool = False
    _of_warp: dict[int, tuple[Array, bool]] = field(default_factory=dict)
    _written: dict[bytes, Written] = field(default_factory=dict)
    _last: list[Written] = field(default_factory=list)

    @cached_property
    def of_cell(self) -> Array:
        """The number of the matrix of each of the cells."""
        return np.repeat(np.arange(len(self.starts) - 1), np.diff(self.starts))

    @property
    def written_part(self) -> Written | None:
        """The reads of the units that had been written at the last `look`; None if all had been."""
        return self._last[0] if self._last else None

    @cached_property
    def _nothing(self) -> Array:
        return np.zeros(len(self.cells), np.bool_)

    @property
    def lost_units(self) -> Array:
        """Which units had not been written then."""
        return self._last[0].missing if self._last else self._nothing

    def look(self, memory: SharedMemory) -> bool:
        """Looks again at what has been written; returns whether all units may be read."""
        self._last.clear()
        if has_any(memory.flags.reshape(-1).take(self.cells)):
            found = self.written(memory)
            if found is None:
                return False
            self._last.append(found)
        return True

    def elements(self, log: SharedHistory, memory: SharedMemory, instruction: Instruction) -> Array | None:
        """The bits of all elements in the units, one after the other, which count as being read from now on.

        None where not all of these hold data, or one may be written still.
        """
        found = self.units(log, memory, instruction)
        return None if found is None else found.view(self.element)

    def units(self, log: SharedHistory, memory: SharedMemory, instruction: Instruction) -> Array | None:
        """The same, as the units themselves, which may be less than elements."""
        flags, data = memory.flags.reshape(-1), memory.data.reshape(-1)
        found = log.products.take(instruction, self, flags, data) if self.inside else None
        if found is None:
            if not self.inside or has_any(flags.take(self.cells)) or not log.products.surely_ordered(self):
                return None
            log.products.begin(instruction, self)
            found = memory.data.reshape(-1).take(self.cells)
        return found

    def written(self, memory: SharedMemory) -> Written | None:
        """The reads of those units that have been written, and what is made of others; None where some may not be
        read.
        """
        flags = memory.flags.reshape(-1).take(self.cells) if self.inside else None
        if flags is None or has_any(flags & TABOO):
            return None
        key = flags.tobytes()
        if key not in self._written:
            if len(self._written) >= _KEPT:
                self._written.clear()
            self._written[key] = self._only(flags == 0, memory.unit)
        return self._written[key]

    def _only(self, kept: Array, unit: int) -> Written:
        """The reads of the units that are `kept`."""
        itemsize = self.element().itemsize
        columns = lost_rows(~kept, self.where[1] * itemsize, itemsize, unit)[self.matrix[1]]
        if self.in_registers:
            rows = np.zeros(self.where[0].shape[:2], np.bool_)
        else:
            rows = lost_rows(~kept, self.where[0] * itemsize, itemsize, unit)[self.matrix[0]]
        lost = rows[:, :, None] | columns[:, None, :]
        return Written(self, kept, by_lane(lost))

    def begun(self, log: SharedHistory, memory: SharedMemory, instruction: Instruction) -> Array:
        """The same where that was looked at."""
        log.products.begin(instruction, self)
        return memory.data.reshape(-1).take(self.cells).view(self.element)

    def least(self, known: Array) -> Array:
        """The least of what the warps that read it know, a row for each matrix, from a row for each warp."""
        found = np.full((len(self.starts) - 1, known.shape[1]), np.iinfo(known.dtype).max, known.dtype)
        for numbers in self.matrices.T:
            np.minimum.at(found, numbers, known)
        return found

    def of_warp(self, number: int) -> tuple[Array, bool]:
        """The cells that a warp reads, and whether they are all different ones."""
        if number not in self._of_warp:
            one, other = (self.cells[self.starts[i] : self.starts[i + 1]] for i in self.matrices[number].tolist())
            apart = not (len(one) and len(other))
            apart = apart or int(one.max()) < int(other.min()) or int(other.max()) < int(one.min())
            cells = np.concatenate([one, other])
            self._of_warp[number] = cells, apart or len(np.unique(cells)) == len(cells)
        return self._of_warp[number]


def lost_rows(unwritten: Array, where: Array, itemsize: int, unit: int) -> Array:
    """Which rows of matrices, of whose elements the last axis of `where` has the bytes, have one that was not wholly
    written. `unwritten` says it of each of the units of so many bytes that those are in.
    """
    if unit < itemsize:
        unwritten, unit = np.asarray(unwritten.reshape(-1, itemsize // unit).any(axis=1)), itemsize
    return np.asarray(unwritten[where // unit].any(axis=-1))


def unwritten_rows(
    lanes: Lanes, places: Places, lane: tuple[int, int], block: int, itemsize: int, instruction: Instruction
) -> Array | None:
    """Which rows of a matrix in the shared memory of a block have an element that was never written; None where there
    is none. Raises Stop for places that hold no data, in the lane that starts the product.
    """
    memory, low, high = lanes.shared, places.low, places.high
    if low < 0 or high > memory.size:
        text = (
            f"{instruction.opcode} reads shared memory at bytes {low} to {high - 1}; the block has {memory.size} bytes"
        )
        raise Stop("out-of-bounds", text, instruction, lane, address=low)
    rows = places.rows(memory.unit)
    flags = memory.flags[rows, block]
    if not has_any(flags):
        return None
    taboo = (flags & TABOO) != 0
    if has_any(taboo):
        byte = int(rows[int(taboo.argmax())]) * memory.unit
        text = f"{instruction.opcode} reads byte {byte} of shared memory, where no data lie that it may read"
        raise Stop("out-of-bounds", text, instruction, lane, address=byte)
    return lost_rows(flags != 0, places.where, itemsize, memory.unit)


class _Kept:
    """The reads of products by what they follow from: the latest ones, of so many units together at most."""

    def __init__(self, most: int) -> None:
        self._most, self._units = most, 0
        self._reads: dict[object, ProductReads] = {}

    def get(self, key: object) -> ProductReads | None:
        return self._reads.get(key)

    def add(self, key: object, reads: ProductReads) -> None:
        self._reads[key] = reads
        self._units += len(reads.cells)
        while self._units > self._most:
            self._units -= len(self._reads.pop(next(iter(self._reads))).cells)


_kept = _Kept(_UNITS)


def product_reads(
    lanes: Lanes,
    warps: Array,
    of: tuple[object, ...],
    find: Callable[[], Sequence[Sequence[Places]]],
    itemsize: int,
    fragment: FragmentPlaces | None = None,
) -> ProductReads:
    """The reads of warps; `find` has the places of each one's part of A, unless that is a `fragment`, and of its B.

    That is the same for all that is equal in `of`, which is kept.
    """
    memory, team = lanes.shared, lanes.team
    key = of, itemsize, lanes.shape, team.size, memory.size, memory.unit, warps.tobytes()
    made = _kept.get(key)
    if made is None:
        made = _product_reads(lanes, warps, find(), itemsize, fragment)
        _kept.add(key, made)
    return made


def _product_reads(
    lanes: Lanes, warps: Array, places: Sequence[Sequence[Places]], itemsize: int, fragment: FragmentPlaces | None
) -> ProductReads:
    memory, clocks, blocks = lanes.shared, lanes.team.clocks, lanes.shape[1]
    cells: list[Array] = []
    times: list[int] = []
    where: tuple[list[Array], list[Array]] = ([], [])
    numbers: tuple[list[int], list[int]] = ([], [])
    columns = (warps % blocks).tolist()
    start, inside = 0, True
    if fragment is not None:
        cells, times = [np.zeros(0, np.int64)], [1]
    for side, of_side in enumerate(places, 2 - len(places)):
        known: dict[tuple[int, int], int] = {}
        behind = len(cells)
        for one, column in zip(of_side, columns, strict=True):
            number = known.setdefault((id(one), column), len(known))
            numbers[side].append(number)
            if number < len(where[side]):
                times[behind + number] += 1
                continue
            inside = inside and one.low >= 0 and one.high <= memory.size
            cells.append(one.rows(memory.unit) * blocks + column)
            where[side].append((one.where + start) // itemsize)
            start += len(one.pieces) * PIECE
            times.append(1)
    numbered = [np.asarray(of_side) for of_side in numbers]
    matrices = np.stack([numbered[0] if fragment is None else 0 * numbered[1], numbered[1] + behind], axis=1)
    if fragment is not None:
        where[0].extend(start // itemsize + _of_lanes(fragment, len(warps), itemsize))
        numbered[0] = np.arange(len(warps))
    lengths = [len(some) for some in cells]
    first, column = warps // blocks * WARP, warps % blocks
    return ProductReads(
        np.concatenate(cells),
        np.repeat(np.asarray(times, np.int32), lengths),
        (np.stack(where[0]), np.stack(where[1])),
        (numbered[0], numbered[1]),
        matrices,
        np.cumsum([0, *lengths]),
        inside,
        clocks.cluster[first, column],
        clocks.member[first, column],
        _ELEMENTS[itemsize],
        fragment is not None,
    )


def _of_lanes(fragment: FragmentPlaces, warps: int, itemsize: int) -> Array:
    """The numbers of the elements of each warp's matrix, shape (warps, rows, columns), where the registers of 32 bits
    that hold a fragment lie one after the other, each with all its lanes in all warps.
    """
    each = 4 // itemsize
    registers = fragment.row.shape[1] // each
    order = np.arange(registers * warps * WARP * each).reshape(registers, warps, WARP, each)
    return fragment.to_matrix(order.transpose(1, 2, 0, 3).reshape(warps, WARP, -1))
