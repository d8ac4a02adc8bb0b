"""What asynchronous copies have begun to read from global memory and may still read, until they arrive."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.lanes import Array, Mask


class Reading:
    """How many copies still read each of a tensor's `size` units, and which."""

    def __init__(self, size: int) -> None:
        self._count = np.zeros(size, np.int32)
        self._line = np.zeros(size, np.int32)

    def begin(self, units: Array, line: int) -> None:
        """Copies of that line read the units from now on."""
        np.add.at(self._count, units, 1)
        self._line[units] = line

    def end(self, units: Array) -> None:
        """They have been read."""
        np.subtract.at(self._count, units, 1)

    def busy(self, units: Array) -> Array:
        """True for those that are still read."""
        return np.asarray(self._count[units] > 0)

    def line(self, unit: int) -> int:
        """The PTX line of the last copy that began to read it."""
        return int(self._line[unit])


@dataclass(frozen=True)
class Flight:
    """A copy by the lanes of a batch that are numbered in `lanes`: what each of them reads, shape (lanes, units)."""

    reading: Reading
    units: Array
    lanes: Array

    def land(self, mask: Mask) -> None:
        """The copies of the lanes in the mask, which has the shape of the batch, arrive."""
        self.reading.end(self.units if mask is None else self.units[mask.reshape(-1)[self.lanes]])
