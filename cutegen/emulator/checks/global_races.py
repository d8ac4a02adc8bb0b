"""Races for global memory: accesses that nothing orders, found from who touched each unit of a tensor last.

Two accesses are ordered only if lanes of one block make them and a barrier of that block lies between them. A lane is
known by its number over the whole grid, and a place in time by how many barriers the lane's block has passed, which is
its epoch. So it does not matter in which order the lanes happened to run.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.lanes import Mask
from cutegen.emulator.native.library import AccessResult, core

# In place of a lane's number, which is not negative:
NOBODY = -1
_BLOCKS = -2  # lanes of several blocks
NEVER = np.iinfo(np.int32).max  # an epoch before no other: of an exited lane, or of a write that is in flight
_BLOCK = -3  # minus b: several lanes of block b, in the epoch that is noted with them
_CLUSTER = -(2**62)  # minus b: the same of several blocks of one cluster, whose first is b


class Epochs:
    """How many barriers each block of a batch has passed: `passed`, an array of shape (1, blocks)."""

    def __init__(self, blocks: int) -> None:
        self._passed: Array = np.zeros((1, blocks), np.int32)

    @property
    def passed(self) -> Array:
        """How many barriers each block has passed, shape (1, blocks)."""
        return self._passed

    @property
    def barriers(self) -> Array:
        """The same, or zeros where barriers are not what counts."""
        return self.passed

    def before(self, others: Array, times: Array, lanes: Array, epochs: Array, threads: int) -> Array:
        """Whether what others did in the epochs `times` is ordered before what lanes do in their `epochs`.

        Lanes are known by their numbers over the whole grid, and `others` may stand for several, as in a TouchRecord.
        """
        return by_barriers(others, times, lanes, epochs, threads)

    def first_of_cluster(self, blocks: Array) -> Array:
        """The number of the first block of each block's cluster: the block itself, where barriers are counted."""
        return blocks

    def advance(self, blocks: Mask) -> None:
        """Notes that the blocks in the mask, shape (1, blocks), have passed one more barrier."""
        self._passed = self._passed + (1 if blocks is None else blocks.astype(np.int32))


Before = Callable[[Array, Array, Array, Array, int], Array]
"""Says what is ordered, as `Epochs.before` does."""
Clusters = Callable[[Array], Array]
"""Says which blocks can be ordered with each other, as `Epochs.first_of_cluster` does."""


def by_block(blocks: Array) -> Array:
    """Each block alone."""
    return blocks


def by_barriers(others: Array, times: Array, lanes: Array, epochs: Array, threads: int) -> Array:
    """Whether barriers that all threads of a block pass together order what others did before what lanes do."""
    return np.asarray((block_of(others, threads) == lanes // threads) & (times < epochs))


class ClockEpochs(Epochs):
    """The same where more than whole blocks meet: what is ordered follows from the `clocks` of a batch.

    `numbers` are those of its blocks in the grid, and a block has `threads` threads. An epoch is a time of the clocks.
    """

    def __init__(self, clocks: Clocks, numbers: Array, threads: int) -> None:
        super().__init__(len(numbers))
        self.clocks, self.threads, self._blocks = clocks, threads, numbers
        self._order = np.argsort(numbers)
        self._numbers = numbers[self._order]

    @property
    def passed(self) -> Array:
        """The time, for each block."""
        return np.full((1, self.clocks.shape[1]), self.clocks.now, np.int32)

    @property
    def barriers(self) -> Array:
        """Zeros: a block's barriers are not counted."""
        return np.zeros((1, self.clocks.shape[1]), np.int32)

    def before(self, others: Array, times: Array, lanes: Array, epochs: Array, threads: int) -> Array:
        """Whether what others did at those times is ordered before what lanes do now."""
        lanes = np.broadcast_to(lanes, others.shape)
        mine, _ = self._column(lanes // threads)
        whole = others <= _CLUSTER
        theirs, known = self._column(np.where(whole, _CLUSTER - others, block_of(others, threads)))
        size, padded = self.clocks.size, self.clocks.padded
        known &= mine // size == theirs // size
        thread = np.where(others >= 0, others % threads, 0)
        member = np.where(known, theirs % size * padded + thread, 0)
        me, cluster = mine % size * padded + lanes % threads, mine // size
        alone = self.clocks.before(cluster, me, member, times)
        several = known & (others < 0)
        if has_any(several):
            first = (theirs % size * padded)[several]
            alone[several] = self.clocks.all_before(cluster[several], me[several], first, times[several])
        for rank in range(1, size if has_any(whole) else 1):
            first = np.full(int(whole.sum()), rank * padded)
            alone[whole] &= self.clocks.all_before(cluster[whole], me[whole], first, times[whole])
        return np.asarray(known & alone)

    def first_of_cluster(self, blocks: Array) -> Array:
        """The number of the first block of each block's cluster; of a block of another batch, itself."""
        column, known = self._column(blocks)
        return np.asarray(np.where(known, self._blocks[column - column % self.clocks.size], blocks))

    def _column(self, blocks: Array) -> tuple[Array, Array]:
        """The number in the batch of each of the blocks, and which of them are in it."""
        place = np.searchsorted(self._numbers, blocks).clip(0, len(self._numbers) - 1)
        return self._order[place], self._numbers[place] == blocks


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
        if self.others <= _CLUSTER:
            return f"threads of several blocks of the cluster of block {_CLUSTER - self.others}"
        if self.others <= _BLOCK:
            return f"several threads of block {_BLOCK - self.others}"
        thread, block = self.others % threads, self.others // threads
        return f"thread {thread} of block {block}"


class TouchRecord:
    """The last writer and the last readers of each of the `size` units of a tensor.

    Accesses are given as `units`, the numbers of the units that they touch, shape (accesses, units of one access);
    `lanes`, who makes them, and `epochs`, how many barriers the blocks of those have passed, both of shape
    (accesses, 1); `threads`, how many threads a block has; and `line`, the PTX line of their instruction, which is kept
    where the record is `traced`. `ordered` says what is ordered, by default `by_barriers`.
    """

    def __init__(self, size: int, traced: bool = False) -> None:
        self._writer = np.full(size, NOBODY, np.int64)
        self._writer_epoch = np.zeros(size, np.int32)
        self._reader: Array | None = None  # once there is one
        self._reader_epoch = np.zeros(0, np.int32)
        self._lines: dict[str, Array] | None = None
        if traced:
            self._lines = {"wrote": np.zeros(size, np.int32), "read": np.zeros(size, np.int32)}
        self._core = None if traced else core()
        self._addresses: Array | None = None

    def addresses(self) -> Array:
        """Where the writers, their epochs, the readers and their epochs are kept, for the C core; 0: nowhere."""
        if self._addresses is None:
            kept = (self._writer, self._writer_epoch)
            self._addresses = np.array([*(one.ctypes.data for one in kept), 0, 0], np.int64)
        if self._reader is not None:
            self._addresses[2:] = self._reader.ctypes.data, self._reader_epoch.ctypes.data
        return self._addresses

    def begin_reads(self) -> Array:
        """The readers, of whom it is kept from now on who they are."""
        if self._reader is None:
            self._reader, self._reader_epoch = np.full_like(self._writer, NOBODY), np.zeros_like(self._writer_epoch)
            if self._addresses is not None:
                self.addresses()
        return self._reader

    def written(self, units: Array | slice = slice(None)) -> Array:
        """A mask of the units (by default all) that some lane has written."""
        return np.asarray(self._writer[units] != NOBODY)

    def write_first(self, cells: Array, each: int, lanes: Array, epochs: Array) -> bool:
        """Notes writes of units that nobody has touched: `each` of them for each access, from `cells` times that on.

        Returns whether it has; `write` does then what is left to do. Only the C core can.
        """
        if self._core is None:
            return False
        given = np.array([len(cells), each, self._reader is not None], np.int64)
        reader = self._writer if self._reader is None else self._reader
        whom, when = (np.ascontiguousarray(one) for one in (lanes, epochs))
        if cells.dtype != np.int64 or whom.dtype != np.int64 or when.dtype != np.int32:
            return False
        arrays = np.ascontiguousarray(cells), whom, when, self._writer, self._writer_epoch, reader
        return self._core.accesses["note_first_writes"](arrays, given.ctypes.data) == AccessResult.FINE

    def write(
        self, units: Array, lanes: Array, epochs: Array, threads: int, line: int = 0, ordered: Before = by_barriers
    ) -> Clash | None:
        """Notes writes, or returns the first clash of one of them with another access."""
        before = self._writer[units]
        if has_any(before != NOBODY):
            clash = _clash(before, self._writer_epoch[units], units, lanes, epochs, threads, "wrote", ordered)
            if clash is not None:
                return self._told(clash)
        if self._reader is not None:
            readers = self._reader[units]
            if has_any(readers != NOBODY):
                clash = _clash(readers, self._reader_epoch[units], units, lanes, epochs, threads, "read", ordered)
                if clash is not None:
                    return self._told(clash)
        self._writer[units] = lanes
        self._writer_epoch[units] = epochs
        self._keep_line("wrote", units, line)
        if has_any(self._writer[units] != lanes):  # two of these very writes
            clash = _clash(
                self._writer[units], self._writer_epoch[units], units, lanes, epochs, threads, "wrote", ordered
            )
            return None if clash is None else self._told(clash)
        return None

    def read(
        self,
        units: Array,
        lanes: Array,
        epochs: Array,
        threads: int,
        line: int = 0,
        ordered: Before = by_barriers,
        clusters: Clusters = by_block,
    ) -> Clash | None:
        """Notes reads, or returns the first clash of one of them with a write."""
        writer = self._writer[units]
        if has_any(writer != NOBODY):
            clash = _clash(writer, self._writer_epoch[units], units, lanes, epochs, threads, "wrote", ordered)
            if clash is not None:
                return self._told(clash)
        reader = self.begin_reads()
        before = reader[units]
        after = np.broadcast_to(lanes, units.shape)
        if has_any(before != NOBODY):
            here = lanes // threads
            same = block_of(before, threads) == here
            # whoever is ordered after this reader is ordered after those that are ordered before it
            alone = (before == NOBODY) | (before == lanes)
            alone |= ordered(before, self._reader_epoch[units], lanes, epochs, threads)
            after = np.where(alone, lanes, np.where(same, _BLOCK - here, _several(before, here, threads, clusters)))
        reader[units] = after
        self._reader_epoch[units] = epochs
        self._keep_line("read", units, line)
        kept = reader[units]
        several = kept != after  # another one of these very reads
        if has_any(several):
            block = block_of(after, threads)
            near = several & (block_of(kept, threads) == block)
            reader[units[near]] = _BLOCK - block[near]
            far = several & ~near
            reader[units[far]] = _several(kept, block, threads, clusters)[far]
        return None

    def landed(self, units: Array, epoch: int) -> None:
        """Notes that writes of units that were in flight, in the epoch NEVER, have arrived in that epoch."""
        epochs = self._writer_epoch[units]
        self._writer_epoch[units] = np.where(epochs == NEVER, epoch, epochs)

    def check(self, units: Array, lanes: Array, epochs: Array, threads: int, ordered: Before) -> Clash | None:
        """The first clash of reads that are not kept with a write, or None."""
        writer = self._writer[units]
        if not has_any(writer != NOBODY):
            return None
        clash = _clash(writer, self._writer_epoch[units], units, lanes, epochs, threads, "wrote", ordered)
        return None if clash is None else self._told(clash)

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
            when[(lanes[place] == who) & (when == epochs[place])] = NEVER


def _several(one: Array, blocks: Array, threads: int, clusters: Clusters) -> Array:
    """Who is noted for units that one who was noted and lanes of another block have read: a cluster, or several."""
    first = np.where(one <= _CLUSTER, _CLUSTER - one, block_of(one, threads))
    mine = clusters(np.broadcast_to(blocks, one.shape))
    together = (one != NOBODY) & (one != _BLOCKS) & (clusters(first) == mine)
    return np.where(together, _CLUSTER - mine, _BLOCKS)


def block_of(who: Array, threads: int) -> Array:
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
    ordered: Before,
) -> Clash | None:
    """The first access to a unit that another lane touched earlier that is not ordered before, or None.

    `others` and `their_epochs` say who did what is named by `done`, and when, for each of the units.
    """
    clash = (others != NOBODY) & ((others != lanes) | (their_epochs == NEVER))
    clash &= ~ordered(others, their_epochs, lanes, epochs, threads)
    if not has_any(clash):
        return None
    row, column = (int(i) for i in np.argwhere(clash)[0])
    return Clash(row, int(units[row, column]), int(others[row, column]), done)
