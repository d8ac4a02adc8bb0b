"""Which units of a memory asynchronous operations may still read, from their start until they arrive, or have read."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, with_rows
from cutegen.emulator.lanes import Mask

_ROOM = 16  # rows that are made at once: they take no memory before they are used, but to copy them does


class PendingReads:
    """How many copies may still read each of the `size` units of a tensor, and the PTX line of the last of them."""

    def __init__(self, size: int) -> None:
        self.count: Array = np.zeros(size, np.int32)
        self.lines: Array = np.zeros(size, np.int32)

    def begin(self, units: Array | slice, line: int, distinct: bool = False) -> None:
        """Notes that copies at that PTX line read the units from now on, which may be known to be `distinct`."""
        if distinct or isinstance(units, slice) or _rising(units):
            self.count[units] += 1
        else:
            np.add.at(self.count, units, 1)
        self.lines[units] = line

    def begin_several(self, units: Array, line: int, times: Array) -> None:
        """Notes that at that PTX line so many copies as `times` says read each of the units from now on."""
        np.add.at(self.count, units, times)
        self.lines[units] = line

    def end(self, units: Array | slice, distinct: bool = False) -> None:
        """Notes that copies which have begun to read the units have arrived."""
        if distinct or isinstance(units, slice) or _rising(units):
            self.count[units] -= 1
        else:
            np.subtract.at(self.count, units, 1)

    def busy(self, units: Array) -> Array:
        """A mask of those units that copies may still read."""
        return np.asarray(self.count[units] > 0)

    def line(self, unit: int) -> int:
        """The PTX line of the last copy that began to read the unit."""
        return int(self.lines[unit])


def _rising(units: Array) -> bool:
    """Whether each unit comes after the one before, so that all are different ones."""
    flat = units.reshape(-1)
    return bool((flat[1:] > flat[:-1]).all())


class AgentReads:
    """When each of some `agents` has read each of the `size` units last: a row of `times` for each, 0 for never."""

    def __init__(self, size: int) -> None:
        self.agents: Array = np.zeros(0, np.int64)
        self._times: Array = np.zeros((0, size), np.int32)  # there is room for more
        self._rows: dict[int, int] = {}

    @property
    def times(self) -> Array:
        return self._times[: len(self.agents)]

    def row(self, agent: int) -> int:
        """The number of an agent's row."""
        found = self._rows.get(agent)
        if found is None:
            found = self._rows[agent] = len(self.agents)
            self.agents = np.append(self.agents, agent)
            if found == len(self._times):
                self._times = with_rows(self._times, max(_ROOM, found))
        return found


@dataclass(frozen=True)
class Flight:
    """The reads in flight of asynchronous copies: the lanes with the numbers `lanes` in the batch read `units`.

    `units` has the shape (lanes, units of one copy).
    """

    reading: PendingReads
    units: Array
    lanes: Array

    def begin(self, line: int) -> None:
        """Notes that the copies, which are at that PTX line, read from now on."""
        self.reading.begin(self.units, line)

    def of(self, some: Array | slice) -> Flight:
        """Some of the copies."""
        return Flight(self.reading, self.units[some], self.lanes[some])

    def land(self, mask: Mask) -> None:
        """Notes that the copies of the lanes in the mask, which has the shape of the batch, have arrived."""
        self.reading.end(self.units if mask is None else self.units[mask.reshape(-1)[self.lanes]])
