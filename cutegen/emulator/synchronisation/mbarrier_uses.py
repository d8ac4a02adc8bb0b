"""Which mbarriers the lanes of an instruction use, and which of them use the same one."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
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
    if len(uses.offsets) == 1:
        return SortedUses([(int(uses.blocks[0]), int(uses.offsets[0]))], _FIRST, [_FIRST])
    offsets, which = groups_of(uses.offsets)
    codes, numbers = groups_of(uses.blocks * len(offsets) + which)
    order = np.argsort(numbers.astype(np.uint16) if len(codes) < 1 << 16 else numbers, kind="stable")
    ends = np.searchsorted(numbers[order], np.arange(len(codes) + 1)).tolist()
    index = [order[ends[i] : ends[i + 1]] for i in range(len(codes))]
    in_turn = sorted(range(len(codes)), key=lambda i: int(index[i][0]))
    places = np.empty(len(codes), np.int64)
    places[in_turn] = np.arange(len(codes))
    keys = [(int(codes[i]) // len(offsets), int(offsets[int(codes[i]) % len(offsets)])) for i in in_turn]
    return SortedUses(keys, places[numbers], [index[i] for i in in_turn])
