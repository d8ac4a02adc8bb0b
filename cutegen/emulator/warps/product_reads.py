"""What the warps of one wgmma read at once: where their matrices lie, as one list of units for all of them.

The four warps of a warpgroup read the same B, and a loop over the stages of a ring comes to the same places again and
again: what follows from the places alone is found once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import WARP
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.shared_memory import SharedMemory
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.warps.shared_matrices import Places

_ELEMENTS: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_KEPT, _LARGEST = 128, 1 << 13  # reads that are kept, each of no more than so many units


@dataclass(frozen=True, eq=False)
class ProductReads:
    """The reads of some warps. All their matrices, A and B, follow each other in one list, each once.

    `cells` are the units over all blocks that these have, `of_cell` the number of the matrix of each and `times` how
    many warps read it. `where` has for A and for B the elements of each matrix, by their numbers in the units' bytes,
    and `matrix` which of these each warp reads. `spans` are the cells of each matrix, and `inside` is False where some
    lie beyond the memory's end. `clusters` and `first` are the cluster and the first member of each warp.
    """

    cells: Array
    of_cell: Array
    times: Array
    where: tuple[Array, Array]
    matrix: tuple[Array, Array]
    spans: Sequence[slice]
    inside: bool
    clusters: Array
    first: Array
    element: type[np.unsignedinteger[Any]]
    _of_warp: dict[int, tuple[Array, bool]] = field(default_factory=dict)

    def found(self, memory: SharedMemory) -> Array | None:
        """The bits of all elements in the units, one after the other; None where not all of these hold data."""
        if memory.flags.reshape(-1).take(self.cells).any():
            return None
        return memory.data.reshape(-1).take(self.cells).view(self.element)

    def least(self, known: Array) -> Array:
        """The least of what the warps that read it know, a row for each matrix, from a row for each warp."""
        found = np.full((len(self.spans), known.shape[1]), np.iinfo(known.dtype).max, known.dtype)
        behind = len(self.where[0])
        for numbers in (self.matrix[0], self.matrix[1] + behind):
            np.minimum.at(found, numbers, known)
        return found

    def of_warp(self, number: int) -> tuple[Array, bool]:
        """The cells that a warp reads, and whether they are all different ones."""
        if number not in self._of_warp:
            a, b = int(self.matrix[0][number]), int(self.matrix[1][number]) + len(self.where[0])
            one, other = self.cells[self.spans[a]], self.cells[self.spans[b]]
            apart = int(one.max()) < int(other.min()) or int(other.max()) < int(one.min())
            cells = np.concatenate([one, other])
            self._of_warp[number] = cells, apart or len(np.unique(cells)) == len(cells)
        return self._of_warp[number]


_kept: dict[object, tuple[ProductReads, Sequence[Sequence[Places]]]] = {}


def product_reads(lanes: Lanes, warps: Array, places: Sequence[Sequence[Places]], itemsize: int) -> ProductReads:
    """The reads of warps, of which `places` has where each one's part of A lies, and each one's B."""
    memory, team = lanes.shared, lanes.team
    key = (
        itemsize,
        lanes.shape,
        team.size,
        memory.size,
        memory.unit,
        warps.tobytes(),
        *(tuple(map(id, s)) for s in places),
    )
    if key in _kept:
        return _kept[key][0]
    made = _product_reads(lanes, warps, places, itemsize)
    if len(made.cells) <= _LARGEST:
        if len(_kept) >= _KEPT:
            del _kept[next(iter(_kept))]
        _kept[key] = made, places  # which must stay, as the key has what they are known by
    return made


def _product_reads(lanes: Lanes, warps: Array, places: Sequence[Sequence[Places]], itemsize: int) -> ProductReads:
    memory, clocks, blocks = lanes.shared, lanes.team.clocks, lanes.shape[1]
    cells: list[Array] = []
    times: list[int] = []
    where: tuple[list[Array], list[Array]] = ([], [])
    numbers: tuple[list[int], list[int]] = ([], [])
    columns = (warps % blocks).tolist()
    start, inside = 0, True
    for side, of_side in enumerate(places):
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
    lengths = [len(some) for some in cells]
    ends = np.cumsum(lengths).tolist()
    first, column = warps // blocks * WARP, warps % blocks
    return ProductReads(
        np.concatenate(cells),
        np.repeat(np.arange(len(cells)), lengths),
        np.repeat(np.asarray(times, np.int32), lengths),
        (np.stack(where[0]), np.stack(where[1])),
        (np.asarray(numbers[0]), np.asarray(numbers[1])),
        [slice(end - length, end) for length, end in zip(lengths, ends, strict=True)],
        inside,
        clocks.cluster[first, column],
        clocks.member[first, column],
        _ELEMENTS[itemsize],
    )
