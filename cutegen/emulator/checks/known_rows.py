"""What the members of clusters know, as rows of times, of which members that know the same share one.

After a barrier all of its threads know the same of others. Kept thread by thread that is a matrix for each cluster
which grows with the square of its threads: 64 MiB for 16 blocks of 256 of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

_FIRST = 16  # rows that there is room for at first


class KnownRows:
    """Rows of `width` times, int32, and `holders`: arrays of any shape with the numbers of the rows that are in use.

    Row 0 is all zeros, as holders are at first. A row is never changed: who learns gets another one.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: Array = np.zeros((_FIRST, width), np.int32)
        self._count = 1
        self._holders: list[Array] = []

    def holder(self, shape: Sequence[int]) -> Array:
        """A new holder. Its entries change when rows get other numbers."""
        made = np.zeros(shape, np.int32)
        self._holders.append(made)
        return made

    def widen(self, columns: int) -> None:
        """Adds columns of zeros."""
        self.width += columns
        self._rows = np.concatenate([self._rows, np.zeros((len(self._rows), columns), np.int32)], axis=1)

    def of(self, numbers: Array) -> Array:
        """A copy of the rows with these numbers, one for each."""
        return np.array(self._rows[numbers])

    def largest(self, numbers: Array) -> Array:
        """The largest time in each column of the rows with these numbers, shape (1, width)."""
        return np.asarray(self._rows[self._distinct(numbers)].max(axis=0, keepdims=True))

    def times(self, numbers: Array, columns: Array) -> Array:
        """The time in one column of each of some rows; both arguments broadcast to the shape of the result."""
        return np.asarray(self._rows.reshape(-1).take(numbers.astype(np.int64) * self.width + columns))

    def changed(self, holder: Array, where: tuple[Array, ...], change: Callable[[Array], None]) -> None:
        """Lets some entries of a holder have the rows that `change` makes of theirs, in place, each distinct one once.

        `where` has the indices of the entries.
        """
        distinct = self._distinct(holder[where])
        if self._count + len(distinct) > len(self._rows):
            self._make_room(len(distinct))
            distinct = self._distinct(holder[where])
        rows = self._rows[distinct]
        change(rows)
        new = np.flatnonzero((rows != self._rows[distinct]).any(axis=1))
        if not len(new):
            return
        numbers = np.arange(self._count)
        numbers[distinct[new]] = self._count + np.arange(len(new))
        holder[where] = numbers[holder[where]]
        self._rows[self._count : self._count + len(new)] = rows[new]
        self._count += len(new)

    def replaced(self, holder: Array, where: tuple[Array, ...], rows: Array) -> None:
        """Lets each of some entries of a holder have a row of its own, of which those that are alike become one."""
        distinct, numbers = np.unique(rows, axis=0, return_inverse=True)
        if self._count + len(distinct) > len(self._rows):
            self._make_room(len(distinct))
        self._rows[self._count : self._count + len(distinct)] = distinct
        holder[where] = self._count + numbers.reshape(-1)
        self._count += len(distinct)

    def _distinct(self, numbers: Array) -> Array:
        """The numbers without repetitions, in rising order."""
        used = np.zeros(self._count, np.bool_)
        used[numbers] = True
        return np.flatnonzero(used)

    def _make_room(self, more: int) -> None:
        """Forgets the rows that nobody holds, and makes room for that many more."""
        used = np.zeros(self._count, np.bool_)
        used[0] = True
        for holder in self._holders:
            used[holder] = True
        kept = np.flatnonzero(used)
        numbers = np.cumsum(used) - 1
        for holder in self._holders:
            holder[...] = numbers[holder]
        room = len(self._rows)
        while room < 2 * (len(kept) + more):
            room *= 2
        rows = np.zeros((room, self.width), np.int32)
        rows[: len(kept)] = self._rows[kept]
        self._rows, self._count = rows, len(kept)
