"""Races for global memory: who touched each unit of a tensor last.

Two lanes are ordered only if they are of one block and a barrier of it lies between what they do. A lane is known by
its number over the whole grid, its place in time by how many barriers its block has passed, its epoch. So it does not
matter in which order the lanes happened to run.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import numpy as np

from cutegen.emulator.lanes import Array

NOBODY = -1
_BLOCKS = -2  # lanes of several blocks
_BLOCK = -3  # minus b: several lanes of block b, in the epoch that is noted with them


@dataclass(frozen=True)
class Clash:
    """Access number `row` of an instruction, to a `unit` that others have touched unordered."""

    row: int
    unit: int
    others: int
    done: Literal["wrote", "read"]

    def whom(self, threads: int) -> str:
        """Who they are, in words; `threads` of a block."""
        if self.others == _BLOCKS:
            return "threads of several other blocks"
        if self.others <= _BLOCK:
            return f"several threads of block {_BLOCK - self.others}"
        return f"thread {self.others % threads} of block {self.others // threads}"


class Touched:
    """The last writer and the last readers of each of `size` units.

    Accesses come as `units`, shape (accesses, units of one), the `lanes` that make them and their `epochs`, both of
    shape (accesses, 1); `threads` is how many a block has.
    """

    def __init__(self, size: int) -> None:
        self._writer = np.full(size, NOBODY, np.int64)
        self._writer_epoch = np.zeros(size, np.int32)
        self._reader: Array | None = None  # once there is one
        self._reader_epoch = np.zeros(0, np.int32)

    def written(self, units: Array | slice = slice(None)) -> Array:
        """True for those units, by default all, that somebody has written."""
        return np.asarray(self._writer[units] != NOBODY)

    def write(self, units: Array, lanes: Array, epochs: Array, threads: int) -> Clash | None:
        """Notes the writes, unless one of them clashes."""
        before = self._writer[units]
        if (before != NOBODY).any():
            clash = _clash(before, self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
            if clash is not None:
                return clash
        if self._reader is not None:
            readers = self._reader[units]
            if (readers != NOBODY).any():
                clash = _clash(readers, self._reader_epoch[units], units, lanes, epochs, threads, "read")
                if clash is not None:
                    return clash
        self._writer[units] = lanes
        self._writer_epoch[units] = epochs
        if (self._writer[units] != lanes).any():  # two of these very writes
            return _clash(self._writer[units], self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
        return None

    def read(self, units: Array, lanes: Array, epochs: Array, threads: int) -> Clash | None:
        """Notes the reads, unless one of them clashes."""
        writer = self._writer[units]
        if (writer != NOBODY).any():
            clash = _clash(writer, self._writer_epoch[units], units, lanes, epochs, threads, "wrote")
            if clash is not None:
                return clash
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
        kept = self._reader[units]
        several = kept != after  # another one of these very reads
        if several.any():
            block = _block(after, threads)
            near = several & (_block(kept, threads) == block)
            self._reader[units[near]] = _BLOCK - block[near]
            self._reader[units[several & ~near]] = _BLOCKS
        return None


def _block(who: Array, threads: int) -> Array:
    """The block that a noted toucher is of; negative for nobody and for several blocks."""
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
    """The first unit that another lane touched with no barrier of its block between."""
    clash = (others != NOBODY) & (others != lanes)
    clash &= ~((_block(others, threads) == lanes // threads) & (their_epochs < epochs))
    if not clash.any():
        return None
    row, column = (int(i) for i in np.argwhere(clash)[0])
    return Clash(row, int(units[row, column]), int(others[row, column]), done)
