"""Races for global memory: accesses that nothing orders, found from who touched each unit of a tensor last.

Two accesses are ordered only if lanes of one block make them and a barrier of that block lies between them. A lane is
known by its number over the whole grid, and a place in time by how many barriers the lane's block has passed, which is
its epoch. So it does not matter in which order the lanes happened to run.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask

# In place of a lane's number, which is not negative:
NOBODY = -1
_BLOCKS = -2  # lanes of several blocks
_NEVER = np.iinfo(np.int32).max  # an epoch before no other
_BLOCK = -3  # minus b: several lanes of block b, in the epoch that is noted with them


class Epochs:
    """How many barriers each block of a batch has passed: `passed`, an array of shape (1, blocks)."""

    def __init__(self, blocks: int) -> None:
        self.passed: Array = np.zeros((1, blocks), np.int32)

    def advance(self, blocks: Mask) -> None:
        """Notes that the blocks in the mask, shape (1, blocks), have passed one more barrier."""
        self.passed = self.passed + (1 if blocks is None else blocks.astype(np.int32))


@dataclass(frozen=True)
class Clash:
    """Two accesses to one unit of a tensor that nothing orders, at least one of them a write.

    `row` is the number of the later one among the accesses of its instruction, `unit` the number of the unit, and
    `others` says who made the earlier one, which `done` tells the kind of, and `line` is its PTX line, or 0 where lines
    are not kept.
    """

    row: int
    unit: int
    others: int
    done: Literal["wrote", "read"]
    line: int = 0

    def whom(self, threads: int) -> str:
        """Who made the earlier access, in words. A block has `threads` threads."""
        if self.others == _BLOCKS:
            return "threads of several other blocks"
        if self.others <= _BLOCK:
            return f"several threads of block {_BLOCK - self.others}"
        thread, block = self.others % threads, self.others // threads
        return f"thread {thread} of block {block}"


class TouchRecord:
    """The last writer and the last readers of each of the `size` units of a tensor.

    Accesses are given as `units`, the numbers of the units that they touch, shape (accesses, units of one access);
    `lanes`, who makes them, and `epochs`, how many barriers the blocks of those have passed, both of shape
    (accesses, 1); `threads`, how many threads a block has; and `line`, the PTX line of their instruction, which is kept
    where the record is `traced`.
    """

    def __init__(self, size: int, traced: bool = False) -> None:
        self._writer = np.full(size, NOBODY, np.int64)
        self._writer_epoch = np.zeros(size, np.int32)
        self._reader: Array | None = None  # once there is one
        self._reader_epoch = np.zeros(0, np.int32)
        self._lines: dict[str, Array] | None = None
        if traced:
            self._lines = {"wrote": np.zeros(size, np.int32), "read": np.zeros(size, np.int32)}

    def written(self, units: Array | slice = slice(None)) -> Array:
        """A mask of the units (by default all) that some lane has written."""
        return np.asarray(self._writer[units] != NOBODY)

    def write(self, units: Array, lanes: Array, epochs: Array, threads: int, line: int = 0) -> Clash | None:
        """Notes writes, or returns the first clash of one of them with another access."""
        before = self._writer[units]
        if (before != NOBODY).any():
            clash = _clash(before, self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
            if clash is not None:
                return self._told(clash)
        if self._reader is not None:
            readers = self._reader[units]
            if (readers != NOBODY).any():
                clash = _clash(readers, self._reader_epoch[units], units, lanes, epochs, threads, "read")
                if clash is not None:
                    return self._told(clash)
        self._writer[units] = lanes
        self._writer_epoch[units] = epochs
        self._keep_line("wrote", units, line)
        if (self._writer[units] != lanes).any():  # two of these very writes
            clash = _clash(self._writer[units], self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
            return None if clash is None else self._told(clash)
        return None

    def read(self, units: Array, lanes: Array, epochs: Array, threads: int, line: int = 0) -> Clash | None:
        """Notes reads, or returns the first clash of one of them with a write."""
        writer = self._writer[units]
        if (writer != NOBODY).any():
            clash = _clash(writer, self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
            if clash is not None:
                return self._told(clash)
        if self._reader is None:
            self._reader, self._reader_epoch = np.full_like(self._writer, NOBODY), np.zeros_like(self._writer_epoch)
        before = self._reader[units]
        after = np.broadcast_to(lanes, units.shape)
        if (before != NOBODY).any():
            here = lanes // threads
            same = _block(before, threads) == here
            # whoever is ordered after this reader is ordered after those of earlier epochs of its block
            alone = (before == NOBODY) | (before == lanes) | (same & (self._reader_epoch[units] < epochs))
            after = np.where(alone, lanes, np.where(same, _BLOCK - here, _BLOCKS))
        self._reader[units] = after
        self._reader_epoch[units] = epochs
        self._keep_line("read", units, line)
        kept = self._reader[units]
        several = kept != after  # another one of these very reads
        if several.any():
            block = _block(after, threads)
            near = several & (_block(kept, threads) == block)
            self._reader[units[near]] = _BLOCK - block[near]
            self._reader[units[several & ~near]] = _BLOCKS
        return None

    def _keep_line(self, done: Literal["wrote", "read"], units: Array, line: int) -> None:
        """Keeps the PTX line of what was done last to the units."""
        if self._lines is not None:
            self._lines[done][units] = line

    def _told(self, clash: Clash) -> Clash:
        """The clash with the PTX line of the earlier access, where lines are kept."""
        return clash if self._lines is None else replace(clash, line=int(self._lines[clash.done][clash.unit]))

    def detach(self, lanes: Array, epochs: Array) -> None:
        """Notes that no barrier after these orders what the lanes did since: they exited in the given epochs.

        A unit that several lanes of a block have read stays ordered.
        """
        order = np.argsort(lanes)
        lanes, epochs = lanes[order], epochs[order]
        for who, when in ((self._writer, self._writer_epoch), (self._reader, self._reader_epoch)):
            if who is None:
                continue
            place = np.searchsorted(lanes, who).clip(0, len(lanes) - 1)
            when[(lanes[place] == who) & (when == epochs[place])] = _NEVER


def _block(who: Array, threads: int) -> Array:
    """The number of the block of each one who was noted; negative for nobody and for several blocks."""
    return np.asarray(np.where(who >= 0, who // threads, _BLOCK - who))


def _clash(
    others: Array,
    their_epochs: Array,
    units: Array,
    lanes: Array,
    epochs: Array,
    threads: int,
    done: Literal["wrote", "read"],
) -> Clash | None:
    """The first access to a unit that another lane touched earlier with no barrier of their block between, or None.

    `others` and `their_epochs` say who did what is named by `done`, and when, for each of the units.
    """
    clash = (others != NOBODY) & (others != lanes)
    clash &= ~((_block(others, threads) == lanes // threads) & (their_epochs < epochs))
    if not clash.any():
        return None
    row, column = (int(i) for i in np.argwhere(clash)[0])
    return Clash(row, int(units[row, column]), int(others[row, column]), done)
