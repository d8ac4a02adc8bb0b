"""Who touched what, in the order of a run: what changed places between two runs whose results differ.

It is kept only in second runs of a launch, once two orders of blocks and warps have given different results. What the
lanes load and store is noted, and where cp.async begins to write; not what bulk copies and products touch.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import AccessLog, SharedAccess
from cutegen.emulator.lanes import spread

_MOST = 1 << 21  # touches of a unit, of which it would take too much memory to keep more
_LINES, _TIMES = 1 << 20, 1 << 18  # of PTX, and how often a lane executes one of them
_SHARED, _ROWS = 1 << 52, 1 << 20  # where the numbers of units of shared memory begin, and how many a block has

_Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Touch:
    """One access of a lane, by its number over the whole grid: at which PTX line, and whether it writes."""

    lane: int
    line: int
    writes: bool


@dataclass(frozen=True)
class Swapped:
    """Two accesses to one unit: `first` comes before `second` in one run, and after it in the other one."""

    first: Touch
    second: Touch


class Journal:
    """All touches of a run, in their order."""

    def __init__(self) -> None:
        self._cells: list[_Numbers] = []
        self._keys: list[_Numbers] = []
        self._writes: list[bool] = []
        self._times: dict[int, dict[int, int]] = {}  # by PTX line and lane, how often it was executed
        self._count = 0

    def note(self, cells: Array, lanes: Array, line: int, *, writes: bool) -> None:
        """Notes that lanes of the whole grid touch units, shape (lanes, units of each), at a PTX line."""
        self._count += cells.size
        if self._count > _MOST:
            return
        lanes = lanes.reshape(-1).astype(np.int64)
        times = self._times.setdefault(line, {})
        often = np.asarray([times.get(lane, 0) for lane in lanes.tolist()], np.int64)
        times.update(zip(lanes.tolist(), (often + 1).tolist(), strict=True))
        keys = (lanes * _LINES + line) * _TIMES + often
        self._cells.append(np.asarray(cells, np.int64).reshape(-1))
        self._keys.append(np.repeat(keys, cells.shape[1]))
        self._writes.append(writes)

    def touches(self) -> tuple[_Numbers, _Numbers, NDArray[np.bool_], _Numbers]:
        """The touches by units, each unit's in order: the unit, which access it is, whether it writes, and when."""
        cells, keys = (np.concatenate(each or [np.zeros(0, np.int64)]) for each in (self._cells, self._keys))
        writes = np.repeat(np.asarray(self._writes, np.bool_), [len(each) for each in self._cells])
        order = np.argsort(cells, kind="stable")
        return cells[order], keys[order], writes[order], order


def watch(log: AccessLog | SharedHistory, journal: Journal, lanes: Array) -> None:
    """Has a log of shared memory note in a journal, too, what lanes read and write.

    `lanes` are the numbers of the batch's lanes over the whole grid, shape (threads, blocks).
    """
    shape = (lanes.shape[0], lanes.shape[1])

    def noting(own: Callable[[SharedAccess], None], writes: bool) -> Callable[[SharedAccess], None]:
        def note(access: SharedAccess) -> None:
            own(access)
            keep = np.ones(shape, np.bool_) if access.mask is None else spread(access.mask, shape)
            owners = np.arange(shape[1])[None, :] if access.columns is None else access.columns
            blocks = lanes[0][spread(owners, shape)[keep]].reshape(-1, 1)  # told by their first lanes
            rows = spread(access.rows, shape)[keep].reshape(-1, 1) + np.arange(access.count)
            journal.note(_SHARED + blocks * _ROWS + rows, lanes[keep], access.instruction.line, writes=writes)

        return note

    vars(log).update(read=noting(log.read, False), write=noting(log.write, True))


def swapped(one: Journal, other: Journal) -> Swapped | None:
    """The first access in a run that comes after another write of a unit than in the other run, and that write.

    None where there is none, or where there was too much to keep.
    """
    if max(one._count, other._count) > _MOST:
        return None
    runs = [(*journal.touches(),) for journal in (one, other)]
    before = [_writers(cells, keys, writes) for cells, keys, writes, _ in runs]
    pairs = [_together(keys, cells) for cells, keys, *_ in runs]
    _, mine, theirs = np.intersect1d(pairs[0], pairs[1], return_indices=True)
    differ = before[0][mine] != before[1][theirs]
    if not has_any(differ):
        return None
    mine, theirs = mine[differ], theirs[differ]
    at = int(np.argmin(runs[0][3][mine]))
    here, there = int(mine[at]), int(theirs[at])
    cells, keys, writes, _ = runs[0]
    touch = _touch(int(keys[here]), bool(writes[here]))
    first, second = int(before[0][here]), int(before[1][there])
    for writer, run, place in ((first, runs[1], there), (second, runs[0], here)):
        later = (run[0] == cells[here]) & (run[1] == writer)
        if writer >= 0 and has_any(later[place:]):
            found = _touch(writer, True)
            return Swapped(found, touch) if writer == first else Swapped(touch, found)
    if first < 0 or second < 0:
        return None
    return Swapped(_touch(second, True), _touch(first, True))


def _writers(cells: _Numbers, keys: _Numbers, writes: NDArray[np.bool_]) -> _Numbers:
    """Which access has written the unit last before each touch; -1 for none."""
    if not len(cells):
        return keys
    places = np.arange(len(cells))
    last = np.maximum.accumulate(np.where(writes, places, -1))
    before = np.concatenate([[-1], last[:-1]])
    first = np.concatenate([[True], cells[1:] != cells[:-1]])
    start = np.maximum.accumulate(np.where(first, places, 0))
    return np.where(before >= start, keys[before], -1)


def _together(keys: _Numbers, cells: _Numbers) -> NDArray[np.void]:
    """An entry for each access to a unit, which can be sorted."""
    made = np.empty(len(keys), [("key", np.int64), ("cell", np.int64)])
    made["key"], made["cell"] = keys, cells
    return made


def _touch(key: int, writes: bool) -> Touch:
    rest = key // _TIMES
    return Touch(rest // _LINES, rest % _LINES, writes)
