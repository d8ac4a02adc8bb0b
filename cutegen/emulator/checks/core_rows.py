"""The C core's part of `Clocks`: in one pass over a mask, lanes learn, or tell what they know."""

from __future__ import annotations

from collections.abc import Sequence
from enum import IntEnum
from typing import Protocol

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.known_rows import KnownRows
from cutegen.emulator.native.library import Core

_CHANGING = 5
"""From this place on the numbers that the core is given change from call to call."""
_NONE = np.zeros((1, 1), np.int64)


class _Geometry(Protocol):
    """The lanes of a batch, as `Clocks` number their members."""

    shape: tuple[int, int]
    size: int
    padded: int
    members: int
    warps: int


class _Groups(IntEnum):
    """How the core finds the group of a lane: there is one, or it is that of the entry, or of the block."""

    ONE, BY_LANE, BY_BLOCK = range(3)


class Own(IntEnum):
    """How much lanes tell of their own actions: none, all until now, or all until a time given for each member."""

    NOTHING, NOW, TIMES = range(3)


class CoreRows:
    """The rows of times that the members of some clocks share, which the core changes and reads."""

    def __init__(self, core: Core, clocks: _Geometry, rows: KnownRows) -> None:
        self._core, self._rows, self._warps = core, rows, clocks.warps
        fixed = (*clocks.shape, clocks.size, clocks.padded, clocks.members)
        self._given = np.array([*fixed, *[0] * 8], np.int64)
        self._address = self._given.ctypes.data

    def learn(self, holder: Array, lanes: Array, groups: Array | None, told: Sequence[Array]) -> None:
        """Lets the lanes of a mask have, in a holder of rows, the larger ones of their own and the given times.

        `told` has one row for each group, shape (1, columns), which may lack the last columns. `groups` has the number
        of each lane's group, in the mask's order, or that of each block, shape (1, blocks); None for one group.
        """
        rows = self._rows
        while True:
            self._give(groups, len(told), Own.NOTHING, 0)
            arrays = (lanes, rows.all(), holder, _NONE if groups is None else groups, *told)
            count = self._core.accesses["learn_rows"](arrays, self._address)
            if count >= 0:
                rows.count = count
                return
            if count == -1:
                raise MemoryError("no memory for a table of rows")
            rows.make_room(-1 - count)

    def tell(
        self,
        holder: Array,
        lanes: Array,
        groups: Array | None,
        count: int,
        own: Own = Own.NOTHING,
        now: int = 0,
        times: Array = _NONE,
    ) -> Array:
        """The largest times of the lanes of each of `count` groups in a holder of rows, shape (count, width).

        What lanes do themselves, in the columns of members, is known until `now`, or the member's one of the `times`.
        """
        rows = self._rows
        found = np.empty((count, rows.width), np.int32)
        self._give(groups, count, own, now)
        arrays = (lanes, rows.all(), holder, _NONE if groups is None else groups, found, times)
        if self._core.accesses["tell_rows"](arrays, self._address):
            raise MemoryError("no memory for a table of rows")
        return found

    def _give(self, groups: Array | None, count: int, own: Own, now: int) -> None:
        """Sets the numbers that the core is given."""
        rows = self._rows
        grouped = _Groups.ONE if groups is None else _Groups.BY_LANE if groups.ndim == 1 else _Groups.BY_BLOCK
        room = len(rows.all())
        self._given[_CHANGING:] = rows.width, self._warps, rows.count, room, count, grouped, own, now
