"""Races for shared memory: two threads touch one unit, one of them writes, and no barrier lies between.

They are found when a block passes a barrier, from a log of all that its threads touched since the barrier before. So
it does not matter in which order the lanes happened to run. An asynchronous copy counts as a write in every such
stretch from its start to the wait for it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.lanes import WARP, Mask, both
from cutegen.emulator.native.library import AccessResult, Core, core
from cutegen.emulator.ptx.model import Instruction

_NONE = np.zeros(1, np.bool_)


@dataclass(frozen=True)
class SharedAccess:
    """An access of the lanes of a mask to shared memory: `count` units in a row, from the unit `rows` on.

    `rows` broadcasts to the lanes, shape (threads or 1, blocks or 1). All the units of all lanes lie from `low` to
    before `high`. `tensor` is what an asynchronous copy brings there, where it is one. `columns`, which broadcasts to
    the lanes, says whose memory it is, by the number of the block in the batch, where that is not the lane's own block.
    """

    rows: Array
    count: int
    mask: Mask
    instruction: Instruction
    low: int
    high: int
    tensor: str = ""
    columns: Array | None = None


class AccessLog:
    """The reads and writes of shared memory by the lanes of `shape` = (threads, blocks) since their last barrier.

    The memory of a block has `rows` units of `unit` bytes.
    """

    def __init__(self, rows: int, unit: int, shape: tuple[int, int]) -> None:
        self.rows, self.unit, self.shape = rows, unit, shape
        self.reads: list[SharedAccess] = []
        self.writes: list[SharedAccess] = []
        self._core = core()

    def read(self, access: SharedAccess) -> None:
        """Notes the reads of an access."""
        self.reads.append(access)

    def write(self, access: SharedAccess) -> None:
        """Notes the writes of an access."""
        self.writes.append(access)

    def landed(self, access: SharedAccess) -> None:
        """Does nothing: a copy in flight is among the writes of every stretch until it has landed."""

    def barrier(self, blocks: Mask, flying: Sequence[SharedAccess], gone: Mask = None) -> None:
        """Looks for races of the blocks in the mask, shape (1, blocks), which have come to a barrier; starts them anew.

        `flying` are the writes of asynchronous copies that go on after it, and `gone` the lanes that did not come to it
        because they have exited: what they did since their last barrier, this one does not order. Raises Stop for a
        race.
        """
        writes, reads = _within(self.writes, blocks), _within(self.reads, blocks)
        self.writes = [] if blocks is None else _within(self.writes, ~blocks)
        self.reads = [] if blocks is None else _within(self.reads, ~blocks)
        if writes:
            self._check(writes, reads)
        self.writes += _within(flying, blocks)
        if gone is not None and has_any(gone):
            self.writes += _within(writes, gone)
            self.reads += _within(reads, gone)

    def _check(self, writes: Sequence[SharedAccess], reads: Sequence[SharedAccess]) -> None:
        """Raises Stop if two threads of a block touch the same unit and one of them writes it."""
        ranges = _merged((w.low, w.high) for w in writes)
        reads = [r for r in reads if any(r.low < high and low < r.high for low, high in ranges)]
        alone = all(_plain(a) for a in (*writes, *reads))
        columns = 1 if alone else self.shape[1]
        if self._core is not None and self._surely_none(self._core, writes, reads, columns):
            return
        owner = np.full(self.rows * columns, -1, np.int32)
        spread = [self._spread(w, columns) for w in writes]
        for index, thread in spread:
            owner[index] = thread[:, None]
        for write, (index, thread) in zip(writes, spread, strict=True):
            bad = owner[index] != thread[:, None]
            if has_any(bad):
                raise self._race(write, index, thread, owner, bad, writes, columns, "write")
        for read in reads:
            index, thread = self._spread(read, columns)
            found = owner[index]
            bad = (found >= 0) & (found != thread[:, None])
            if has_any(bad):
                raise self._race(read, index, thread, owner, bad, writes, columns, "read")

    def _surely_none(
        self, core: Core, writes: Sequence[SharedAccess], reads: Sequence[SharedAccess], columns: int
    ) -> bool:
        """Whether the C core finds no race in the first `columns` blocks."""
        arrays: list[Array] = []
        numbers = [self.shape[0], columns, self.rows, len(writes), len(reads)]
        for access in (*writes, *reads):
            mask = _NONE if access.mask is None else np.asarray(access.mask)
            if access.rows.dtype != np.int64 or mask.dtype != np.bool_:
                return False
            arrays += (access.rows, mask)
            numbers += (access.count, access.mask is not None)
        given = np.array(numbers, np.int64)
        return core.accesses["find_races"](tuple(arrays), given.ctypes.data) == AccessResult.FINE

    def _spread(self, access: SharedAccess, columns: int) -> tuple[Array, Array]:
        """The units that each lane touches, as flat indices, shape (lanes, count); and the thread of each lane.

        Only the first `columns` blocks are looked at.
        """
        shape = (self.shape[0], columns)
        rows = np.broadcast_to(access.rows, shape)
        threads = np.broadcast_to(np.arange(shape[0])[:, None], shape)
        blocks = np.broadcast_to(np.arange(columns)[None, :], shape)
        if access.mask is None:
            rows, threads, blocks = rows.reshape(-1), threads.reshape(-1), blocks.reshape(-1)
        else:
            mask = np.broadcast_to(access.mask, shape)
            rows, threads, blocks = rows[mask], threads[mask], blocks[mask]
        return (rows[:, None] + np.arange(access.count)) * columns + blocks[:, None], threads

    def _race(
        self,
        access: SharedAccess,
        index: Array,
        thread: Array,
        owner: Array,
        bad: Array,
        writes: Sequence[SharedAccess],
        columns: int,
        verb: str,
    ) -> Stop:
        """The fault of the first lane and unit that are True in `bad`; `owner` is the thread that wrote each unit."""
        lane, unit = (int(i) for i in np.argwhere(bad)[0])
        cell = int(index[lane, unit])
        other = int(owner[cell])
        line, what = 0, ""
        for write in writes:
            cells, threads = self._spread(write, columns)
            if has_any((cells == cell) & (threads == other)[:, None]):
                line, what = write.instruction.line, f" with a part of {write.tensor}" if write.tensor else ""
        byte, me = cell // columns * self.unit, int(thread[lane])
        with_what = f" with a part of {access.tensor}" if access.tensor else ""
        explanation = (
            f"thread {me} {verb}s byte {byte} of shared memory{with_what}, which thread {other} writes{what} "
            f"(PTX line {line}), with no barrier of both between them"
        )
        witness = Witness(f"thread {other} (warp {other // WARP}) writes it here", line)
        lane_of = (me, cell % columns)
        return Stop("race", explanation, access.instruction, lane_of, address=byte, witnesses=(witness,))


def _plain(access: SharedAccess) -> bool:
    """Whether the lanes of every block do the same in an access."""
    mask = access.mask
    return access.rows.shape[1] == 1 and (mask is None or mask.ndim < 2 or mask.shape[1] == 1)


def _within(accesses: Sequence[SharedAccess], blocks: Mask) -> list[SharedAccess]:
    """The accesses cut to the lanes of a mask, which broadcasts to all of them; those with no lane left are gone."""
    if blocks is None:
        return list(accesses)
    kept = []
    for access in accesses:
        mask = both(access.mask, blocks)
        assert mask is not None
        if has_any(mask):
            kept.append(replace(access, mask=mask))
    return kept


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """Ranges [low, high) that together cover what the given ones cover, in order and with gaps between them."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(set(ranges)):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
