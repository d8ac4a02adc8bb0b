"""How many instructions each lane has executed, so that a loop without end is found."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.lanes import Mask

_PENDING = 64  # masks


class Steps:
    """How many instructions each lane of `shape` = (threads, blocks) has executed."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._all = 0  # instructions of every lane that is alive
        self._most = 0  # an upper bound of what any lane has executed
        self._own: Array | None = None  # besides those of `_all`, the instructions of each lane
        self._pending: dict[int, tuple[Array, int]] = {}  # id of a mask -> it, and what is to be added in its lanes

    def add(self, count: int, lanes: Mask, limit: int) -> Mask:
        """Counts `count` more instructions for the lanes of a mask.

        Returns the mask of those among them that have now executed more than `limit`, or None if none has.
        """
        self._most += count
        if lanes is None:
            self._all += count
        else:
            mask, before = self._pending.get(id(lanes), (lanes, 0))
            self._pending[id(lanes)] = mask, before + count
        if self._most <= limit and len(self._pending) < _PENDING:
            return None
        for mask, before in self._pending.values():
            if self._own is None:
                self._own = np.zeros(self.shape, np.int64)
            np.add(self._own, before, out=self._own, where=mask)
        self._pending.clear()
        if self._most <= limit:
            return None
        own = np.zeros((1, 1), np.int64) if self._own is None else self._own
        self._most = self._all + int(own.max())
        late = self._all + own > limit
        late = late if lanes is None else late & lanes
        return late if has_any(late) else None
