"""Races for shared memory.

They are found when a barrier is passed, from a log of all that the block touched since the one before: two threads,
one unit, one of them wrote. So it does not matter in which order the lanes happened to run. An asynchronous copy counts
as a write in every such stretch from its start to its wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.lanes import Array, Mask, Stop, both
from cutegen.emulator.types import Instruction


@dataclass(frozen=True)
class Access:
    """`count` units from each of `rows` on; rows has the shape (threads or 1, blocks or 1)."""

    rows: Array
    count: int
    mask: Mask
    instruction: Instruction
    low: int
    high: int


class Log:
    """What the blocks in flight, `shape` = (threads, blocks), have read and written since their last barrier. `rows`
    units of `unit` bytes are a block's memory."""

    def __init__(self, rows: int, unit: int, shape: tuple[int, int]) -> None:
        self.rows, self.unit, self.shape = rows, unit, shape
        self.reads: list[Access] = []
        self.writes: list[Access] = []

    def barrier(self, blocks: Mask, flying: Sequence[Access]) -> None:
        """The blocks of the mask, shape (1, blocks), have passed a barrier; `flying` are writes that go on."""
        writes, reads = _within(self.writes, blocks), _within(self.reads, blocks)
        self.writes = [] if blocks is None else _within(self.writes, ~blocks)
        self.reads = [] if blocks is None else _within(self.reads, ~blocks)
        if writes:
            self._look(writes, reads)
        self.writes += _within(flying, blocks)

    def _look(self, writes: Sequence[Access], reads: Sequence[Access]) -> None:
        ranges = _merged((w.low, w.high) for w in writes)
        reads = [r for r in reads if any(r.low < high and low < r.high for low, high in ranges)]
        alone = all(_plain(a) for a in (*writes, *reads))
        columns = 1 if alone else self.shape[1]
        owner = np.full(self.rows * columns, -1, np.int32)
        spread = [self._spread(w, columns) for w in writes]
        for index, thread in spread:
            owner[index] = thread[:, None]
        for write, (index, thread) in zip(writes, spread, strict=True):
            bad = owner[index] != thread[:, None]
            if bad.any():
                raise self._race(write, index, thread, owner, bad, writes, columns, "write")
        for read in reads:
            index, thread = self._spread(read, columns)
            found = owner[index]
            bad = (found >= 0) & (found != thread[:, None])
            if bad.any():
                raise self._race(read, index, thread, owner, bad, writes, columns, "read")

    def _spread(self, access: Access, columns: int) -> tuple[Array, Array]:
        """Flat unit indices, shape (lanes, units of an access), and the lanes' threads."""
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
        access: Access,
        index: Array,
        thread: Array,
        owner: Array,
        bad: Array,
        writes: Sequence[Access],
        columns: int,
        verb: str,
    ) -> Stop:
        lane, unit = (int(i) for i in np.argwhere(bad)[0])
        cell = int(index[lane, unit])
        other = int(owner[cell])
        line = 0
        for write in writes:
            cells, threads = self._spread(write, columns)
            if ((cells == cell) & (threads == other)[:, None]).any():
                line = write.instruction.line
        byte = cell // columns * self.unit
        explanation = (
            f"thread {int(thread[lane])} {verb}s byte {byte} of shared memory, which thread {other} writes "
            f"(PTX line {line}), with no barrier between them"
        )
        return Stop("race", explanation, access.instruction, (int(thread[lane]), cell % columns), address=byte)


def _plain(access: Access) -> bool:
    """Whether every block does the same."""
    mask = access.mask
    return access.rows.shape[1] == 1 and (mask is None or mask.ndim < 2 or mask.shape[1] == 1)


def _within(accesses: Sequence[Access], blocks: Mask) -> list[Access]:
    if blocks is None:
        return list(accesses)
    kept = []
    for access in accesses:
        mask = both(access.mask, blocks)
        assert mask is not None
        if mask.any():
            kept.append(replace(access, mask=mask))
    return kept


def _merged(ranges: Iterable[tuple[int, int]]) -> list[tuple[int, int]]:
    """The ranges without those that others contain, few in number."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(set(ranges)):
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]))
        else:
            merged.append((low, high))
    return merged
