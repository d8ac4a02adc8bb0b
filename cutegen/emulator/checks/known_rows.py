"""The knowledge of the members of clusters, as rows of times; members that know the same share one row.

After a barrier all of its threads know the same of others. Kept thread by thread, that would be a matrix for each
cluster that grows with the square of its threads: 64 MiB for 16 blocks of 256 threads.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

_FIRST = 16  # rows that there is room for at first


class KnownRows:
    """Rows of `width` times, int32, and `holders`: arrays of any shape with the numbers of the rows that are in use.

    Row 0 is all zeros, as holders are at first. A row is never changed: who learns gets another one. `count` rows are
    in use, or were.
    """

    def __init__(self, width: int) -> None:
        self.width = width
        self._rows: Array = np.zeros((_FIRST, width), np.int32)
        self.count = 1
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

    def all(self) -> Array:
        """All rows as they are. Only the C core writes to them, to rows that it has taken."""
        return self._rows

    def of(self, numbers: Array, columns: slice = slice(None)) -> Array:
        """A copy of the rows with these numbers, one for each, or of some of their columns."""
        return np.array(self._rows[numbers, columns])

    def largest(self, numbers: Array, groups: Array, count: int) -> Array:
        """The largest time in each column of the rows of each of `count` groups, shape (count, width).

        `groups` says which of them each of the numbers is in, one at least in each.
        """
        group, rows = self._pairs(numbers, groups, count)
        if len(rows) == count:
            return np.array(self._rows[rows])
        ends = np.searchsorted(group, np.arange(count + 1)).tolist()
        return np.stack([self._rows[rows[ends[i] : ends[i + 1]]].max(axis=0) for i in range(count)])

    def times(self, numbers: Array, columns: Array) -> Array:
        """The time in one column of each of some rows; both arguments broadcast to the shape of the result."""
        return np.asarray(self._rows.reshape(-1).take(numbers.astype(np.int64) * self.width + columns))

    def time(self, number: int, column: int) -> int:
        """The time in one column of one row."""
        return int(self._rows[number, column])

    def learn(self, holder: Array, places: Array, groups: Array, more: Array) -> None:
        """Lets some entries of a holder have the larger ones of the times in their rows, and those of their group.

        `places` has the flat indices of the entries, `groups` the number of each one's group, and `more` a row for each
        group.
        """
        held = holder.reshape(-1)
        group, rows = self._pairs(held[places], groups, len(more))
        if self.count + len(rows) > len(self._rows):
            self.make_room(len(rows))
            group, rows = self._pairs(held[places], groups, len(more))
        known = self._rows[rows]
        joined = np.maximum(known, more[group])
        new = np.flatnonzero((joined != known).any(axis=1))
        if not len(new):
            return
        # Those that know nothing but the given times share a row
        alike = (joined[new] == more[group[new]]).all(axis=1)
        first = np.zeros(len(more), np.int64)
        first[group[new[alike][::-1]]] = new[alike][::-1]
        kept = new[~alike | (first[group[new]] == new)]
        self._rows[self.count : self.count + len(kept)] = joined[kept]
        changed = np.array(rows)
        changed[kept] = self.count + np.arange(len(kept))
        changed[new[alike]] = changed[first[group[new[alike]]]]
        table = np.zeros(len(more) * self.count, np.int64)
        table[group * self.count + rows] = changed
        held[places] = table[groups * self.count + held[places]]
        self.count += len(kept)

    def _pairs(self, numbers: Array, groups: Array, count: int) -> tuple[Array, Array]:
        """The groups and rows of all different pairs of a group and one of its numbers, group by group."""
        used = np.zeros(count * self.count, np.bool_)
        used[groups * self.count + numbers] = True
        group, rows = np.divmod(np.flatnonzero(used), self.count)
        return group, rows

    def make_room(self, more: int) -> None:
        """Forgets the rows that nobody holds, and makes room for that many more."""
        used = np.zeros(self.count, np.bool_)
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
        self._rows, self.count = rows, len(kept)
