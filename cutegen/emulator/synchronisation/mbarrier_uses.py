"""Which mbarriers the lanes of an instruction use, and which of them use the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.lanes import groups_of
from cutegen.emulator.ptx.model import Instruction

_FIRST = np.zeros(1, np.int64)


@dataclass(frozen=True)
class Uses:
    """Which mbarriers the lanes of a mask use: their `offsets` and `blocks`, an entry for each lane of the mask."""

    lanes: Array
    offsets: Array
    blocks: Array
    instruction: Instruction

    def lane(self, index: int) -> tuple[int, int]:
        """The lane of an entry."""
        thread, block = divmod(int(self.places[index]), self.lanes.shape[1])
        return thread, block

    @cached_property
    def places(self) -> Array:
        """The number of each entry's lane among all lanes."""
        return np.flatnonzero(self.lanes)


@dataclass(frozen=True)
class SortedUses:
    """Uses by mbarriers: `keys` are the block and offset of each, in the order of their first uses.

    `numbers` has the number of each entry's mbarrier among these, and `index` the entries of each of them.
    """

    keys: list[tuple[int, int]]
    numbers: Array
    index: list[Array]


def sort_uses(uses: Uses) -> SortedUses:
    """Which entries use the same mbarrier."""
    count = len(uses.offsets)
    if count == 1:
        return SortedUses([(int(uses.blocks[0]), int(uses.offsets[0]))], _FIRST, [_FIRST])
    if (alike := _sort_alike(uses)) is not None:
        return alike
    offsets, which = groups_of(uses.offsets)
    codes, numbers = groups_of(uses.blocks if len(offsets) == 1 else uses.blocks * len(offsets) + which)
    if len(codes) == count:  # each entry has one of its own
        every = np.arange(count)
        return SortedUses([*zip(uses.blocks.tolist(), uses.offsets.tolist(), strict=True)], every, [*every[:, None]])
    kind = np.uint8 if len(codes) <= 1 << 8 else np.uint16 if len(codes) <= 1 << 16 else np.int64
    order = np.argsort(numbers.astype(kind), kind="stable")
    ends = np.cumsum(np.bincount(numbers)).tolist()
    index = [order[start:end] for start, end in zip([0, *ends], ends, strict=False)]
    firsts = [int(entries[0]) for entries in index]
    if (in_turn := sorted(range(len(codes)), key=firsts.__getitem__)) != [*range(len(codes))]:
        places = np.empty(len(codes), np.int64)
        places[in_turn] = np.arange(len(codes))
        numbers, index = places[numbers], [index[i] for i in in_turn]
    firsts.sort()
    keys = [*zip(uses.blocks[firsts].tolist(), uses.offsets[firsts].tolist(), strict=True)]
    return SortedUses(keys, numbers, index)


def _sort_alike(uses: Uses) -> SortedUses | None:
    """`sort_uses` where all threads use the same mbarriers, one in each block, as most do; else None."""
    count, wide = len(uses.offsets), uses.lanes.shape[1]
    rows, row = count // wide, uses.blocks[:wide]
    if count % wide or has_any(uses.offsets != uses.offsets[0]) or len({*row.tolist()}) < wide:
        return None
    if has_any(uses.blocks.reshape(rows, wide) != row):
        return None
    offset = int(uses.offsets[0])
    numbers = np.arange(count).reshape(rows, wide)
    keys = [(block, offset) for block in row.tolist()]
    return SortedUses(keys, numbers.reshape(-1) % wide, [*numbers.T.copy()])
