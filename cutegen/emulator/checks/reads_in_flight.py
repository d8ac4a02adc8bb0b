"""Which units of a tensor asynchronous copies may still read, from their start until they arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.lanes import Mask


class PendingReads:
    """How many copies may still read each of the `size` units of a tensor, and the PTX line of the last of them."""

    def __init__(self, size: int) -> None:
        self._count = np.zeros(size, np.int32)
        self._line = np.zeros(size, np.int32)

    def begin(self, units: Array, line: int, distinct: bool = False) -> None:
        """Notes that copies at that PTX line read the units from now on, which may be known to be `distinct`."""
        if distinct:
            self._count[units] += 1
        else:
            np.add.at(self._count, units, 1)
        self._line[units] = line

    def begin_several(self, units: Array, line: int, times: Array) -> None:
        """Notes that at that PTX line so many copies as `times` says read each of the units from now on."""
        np.add.at(self._count, units, times)
        self._line[units] = line

    def end(self, units: Array, distinct: bool = False) -> None:
        """Notes that copies which have begun to read the units have arrived."""
        if distinct:
            self._count[units] -= 1
        else:
            np.subtract.at(self._count, units, 1)

    def busy(self, units: Array) -> Array:
        """A mask of those units that copies may still read."""
        return np.asarray(self._count[units] > 0)

    def line(self, unit: int) -> int:
        """The PTX line of the last copy that began to read the unit."""
        return int(self._line[unit])


@dataclass(frozen=True)
class Flight:
    """What asynchronous copies still read: those of the lanes with the numbers `lanes` in the batch read `units`.

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
