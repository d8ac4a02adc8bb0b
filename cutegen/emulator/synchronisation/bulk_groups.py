"""Groups of bulk copies from shared memory, which a thread commits and waits for (cp.async.bulk's bulk groups)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

Lane = tuple[int, int]


@dataclass
class BulkCopy:
    """A copy at the PTX line `line`: what says that it has read its source, if that is not known, and has arrived."""

    line: int
    has_read: Callable[[], None] | None
    has_arrived: Callable[[], None]


class BulkGroups:
    """The bulk groups of all lanes of a batch; only those of lanes that have started a copy are kept."""

    def __init__(self) -> None:
        self._open: dict[Lane, list[BulkCopy]] = {}
        self._groups: dict[Lane, list[list[BulkCopy]]] = {}

    def begin(self, lane: Lane, copy: BulkCopy) -> None:
        """Adds a copy of a lane that no group has yet."""
        self._open.setdefault(lane, []).append(copy)
        self._groups.setdefault(lane, [])

    def commit(self, lanes: Array) -> None:
        """Puts the copies of the lanes of a mask that no group has yet into a new group of each of them."""
        for lane in self._open:
            if lanes[lane]:
                self._groups[lane].append(self._open[lane])
                self._open[lane] = []

    def wait(self, left: int, lanes: Array, *, read: bool) -> None:
        """Waits in the lanes of a mask for all but the last `left` groups: that they have arrived, or only `read`."""
        for lane, groups in self._groups.items():
            if not lanes[lane]:
                continue
            done = groups[: max(0, len(groups) - left)]
            for copy in (copy for group in done for copy in group):
                if copy.has_read is not None:
                    copy.has_read()
                    copy.has_read = None
                if not read:
                    copy.has_arrived()
            if not read:
                del groups[: len(done)]

    def reading(self, lanes: Array) -> tuple[Lane, int] | None:
        """The first lane of a mask with a copy that may still read its source, and the PTX line of the copy."""
        for lane, groups in self._groups.items():
            if lanes[lane]:
                for copy in (copy for group in (*groups, self._open[lane]) for copy in group):
                    if copy.has_read is not None:
                        return lane, copy.line
        return None


def single(lane: Lane | tuple[Array, Array], shape: tuple[int, int]) -> Array:
    """The mask of one lane, or of those with some numbers of threads and blocks."""
    mask = np.zeros(shape, np.bool_)
    mask[lane] = True
    return mask
