"""Tensor memory: 128 lanes by 512 columns of 32 bits for each block, and the columns that a block has allocated.

An address is `lane << 16 | column` (PTX ISA 9.1, section 9.7.16.1.1). A cell that nothing has been written to since its
columns were allocated means nothing.
"""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.tensor_history import GROUP, TensorHistory, TensorPart, Touch

LANES, COLUMNS = 128, 512
FEWEST = 32
"""Columns of an allocation, at least."""

EMPTY, WRITTEN, UNDEFINED = 0, 1, 2
"""The state of a cell: never written, written, and written with what is made of uninitialised memory."""

_ALL_GROUPS = np.arange(LANES // GROUP)[:, None]


class TensorMemory:
    """The tensor memory of all blocks of a batch.

    `data` and `state` have the cells, shape (blocks, lanes, columns). `allocations` has for each block the count of
    columns by the first one. `relinquished` are the blocks that allocate no more, and `changes` counts grants and
    frees. `group` is for how many blocks instructions have worked together, 0 before any has. `asked` has, for each
    block, the counts of columns for which warps wait, by their first threads in the order in which they came; `granted`
    has the first column of what such a lane has got and not yet taken.
    """

    def __init__(self, clocks: Clocks) -> None:
        blocks = clocks.shape[1]
        self.data: Array = np.zeros((blocks, LANES, COLUMNS), np.uint32)
        self.state: Array = np.zeros((blocks, LANES, COLUMNS), np.uint8)
        self.history = TensorHistory(clocks, LANES, COLUMNS)
        self.allocations: list[dict[int, int]] = [{} for _ in range(blocks)]
        self.relinquished: Array = np.zeros(blocks, np.bool_)
        self.changes = self.group = 0
        self._owned: Array = np.zeros((blocks, COLUMNS), np.bool_)
        self.asked: list[dict[int, int]] = [{} for _ in range(blocks)]
        self.granted: dict[tuple[int, int], int] = {}
        self._latest: dict[int, int] = {}  # how many columns each block has allocated last

    def grant(self, lanes: list[tuple[int, int]], count: int) -> None:
        """Allocates the same columns in the blocks of lanes that have asked for them, if they are free in all of these.

        They start at a multiple of the count.
        """
        owned = np.asarray(self._owned[[block for _, block in lanes]].any(axis=0))
        for first in range(0, COLUMNS, count):
            if not owned[first : first + count].any():
                for thread, block in lanes:
                    self._allocate(block, first, count)
                    del self.asked[block][thread]
                    self.granted[thread, block] = first
                self.changes += 1
                return

    def latest(self, block: int) -> int:
        """How many columns the block has allocated last, all if it has not yet: it may not allocate more than that."""
        return self._latest.get(block, COLUMNS)

    def _allocate(self, block: int, first: int, count: int) -> None:
        """Gives columns to a block."""
        self._owned[block, first : first + count] = True
        self.allocations[block][first] = count
        self._latest[block] = count
        self.state[block, :, first : first + count] = EMPTY
        self.history.forget(self._columns(block, first, count))

    def check_unused(self, touch: Touch, block: int, first: int) -> None:
        """Raises Stop for an access to an allocation of a block, if it has that, that is not ordered before another."""
        if first in self.allocations[block]:
            count = self.allocations[block][first]
            self.history.check_write(touch, self._columns(block, first, count))

    def free(self, block: int, first: int, blocks: list[int]) -> None:
        """Takes the columns of an allocation of a block back; from then on none of the `blocks` may touch them."""
        count = self.allocations[block].pop(first)
        self._owned[blocks, first : first + count] = False
        self.changes += 1

    def part(self, block: int, groups: Array, columns: Array, touch: Touch) -> TensorPart:
        """Cells of a block, as `TensorPart` has them. Raises Stop unless all columns are allocated."""
        low, high = int(columns.min()), int(columns.max())
        if low < 0 or high >= COLUMNS or not self._owned[block].take(columns).all():
            text = f"{touch.verb} columns {low} to {high} of tensor memory; {self.described(block)}"
            if any(first <= low and high < first + count for first, count in self.allocations[block].items()):
                text += ", and the other block of the pair has freed them"
            raise Stop("out-of-bounds", text, touch.instruction, touch.lane)
        return TensorPart(block, groups, columns)

    def described(self, block: int) -> str:
        """The allocations of a block in words."""
        found = [f"{first} to {first + count - 1}" for first, count in sorted(self.allocations[block].items())]
        return f"the block has allocated {', '.join(found) if found else 'none'}"

    def snapshot(self) -> list[Array]:
        """All that the memory holds, as arrays that do not change."""
        return [self.data.copy(), self.state.copy(), self._owned.copy()]

    @staticmethod
    def _columns(block: int, first: int, count: int) -> TensorPart:
        return TensorPart(block, _ALL_GROUPS, np.arange(first, first + count)[None, :])
