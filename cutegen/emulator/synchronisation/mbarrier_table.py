"""The mbarriers of a batch as the C core has them: arrays, where it finds those that the lanes of a mask use."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.memory.placement import BASE, PEER_BITS
from cutegen.emulator.native.library import Core
from cutegen.emulator.synchronisation.mbarrier import Mbarrier

_FIRST = 16  # mbarriers that there is room for at first
_FIELDS = 7  # whole numbers that the core has of each
_FOUND = 4  # and that it gives of each that it finds
_BYTES = 8  # of an mbarrier
_CHANGING = 6  # from this place on the numbers that the core is given change from call to call
_NONE = np.zeros((1, 1), np.uint32)


@dataclass(frozen=True)
class Looked:
    """Where lanes look for mbarriers: at addresses, `shift` bytes on, in shared memory of `size` bytes from BASE on.

    `amounts` are numbers that they have, uint32, `most` the largest of those allowed, which are 1 at least, if not 0.
    Addresses may be those of `peers`: when, and from which PTX line, members have visited each rank last, and which
    blocks are gone. None: they may not.
    """

    lanes: Array
    address: Array
    shift: int
    size: int
    line: int
    amounts: Array | None = None
    most: int = 0
    peers: tuple[Array, Array] | None = None


@dataclass(frozen=True)
class FoundMbarriers:
    """The mbarriers that lanes of a mask use, in the order of their first uses, or those that the lanes learn something
    of.

    `each` has, for each of them, how many of the lanes that are, the first of these, and the sum of their amounts.
    `groups` has the number of each lane's mbarrier among these; None if there is one.
    """

    lanes: Array
    groups: Array | None
    each: list[tuple[Mbarrier, int, tuple[int, int], int]]


class MbarrierTable:
    """The mbarriers of the blocks of `clocks`, each in one row of the arrays."""

    def __init__(self, core: Core, clocks: Clocks) -> None:
        self._core, self._clocks = core, clocks
        self._all: list[Mbarrier] = []
        self._rows: Array = np.zeros((_FIRST, _FIELDS), np.int64)
        self._used: Array = np.zeros((_FIRST, clocks.members), np.int32)
        self._found: Array = np.zeros((_FIRST, _FOUND), np.int64)
        self._places: Array = np.full((0, clocks.shape[1]), -1, np.int32)
        self._groups, self._learning = np.zeros(clocks.shape, np.int64), np.zeros(clocks.shape, np.bool_)
        fixed = (*clocks.shape, clocks.size, clocks.padded, clocks.members, clocks.warps)
        self._given = np.array([*fixed, *[0] * 13], np.int64)
        self._address = self._given.ctypes.data

    @property
    def arrays(self) -> tuple[Array, Array, Array]:
        """The core's fields of each mbarrier, its row number by place in memory and block, and its uses by member."""
        return self._rows, self._places, self._used

    def at(self, row: int) -> Mbarrier:
        """The mbarrier in a row."""
        return self._all[row]

    def add(self, mbarrier: Mbarrier) -> None:
        """Gives a new mbarrier a row."""
        mbarrier.row = len(self._all)
        self._all.append(mbarrier)
        if mbarrier.row == len(self._rows):
            self._rows = np.concatenate([self._rows, np.zeros_like(self._rows)])
            self._found = np.zeros((len(self._rows), _FOUND), np.int64)
            self._used = np.concatenate([self._used, np.zeros_like(self._used)])
            for one in self._all:
                one.used = self._used[one.row]
        mbarrier.used = self._used[mbarrier.row]
        place = mbarrier.offset // _BYTES
        if place >= len(self._places):
            more = np.full((place + 1 - len(self._places), self._places.shape[1]), -1, np.int32)
            self._places = np.concatenate([self._places, more])
        self._places[place, mbarrier.block] = mbarrier.row
        self.note(mbarrier)

    def remove(self, mbarrier: Mbarrier) -> None:
        """Forgets where an mbarrier is."""
        self._places[mbarrier.offset // _BYTES, mbarrier.block] = -1

    def note(self, mbarrier: Mbarrier) -> None:
        """Takes over what has become of an mbarrier."""
        one, ended = mbarrier, mbarrier.ended
        last, before = ended[-1] if ended else 0, ended[-2] if len(ended) > 1 else 0
        self._rows[one.row] = one.agent, one.maker, one.made, one.published, len(ended), last, before

    def users(self, looked: Looked) -> FoundMbarriers | None:
        """The mbarriers that lanes are to arrive at, at the next time; None where something is not in order."""
        count = self._find(looked, self._learning, self._clocks.now + 1, tests=False)
        return None if count < 0 else self._made(looked.lanes, count)

    def learners(self, looked: Looked) -> tuple[Array, FoundMbarriers] | None:
        """The lanes that find the phase of their parity ended, and the mbarriers that they learn it from.

        None where something is not in order.
        """
        ended = np.empty(self._clocks.shape, np.bool_)
        count = self._find(looked, ended, self._clocks.now, tests=True)
        return None if count < 0 else (ended, self._made(self._learning, count))

    def _find(self, looked: Looked, ended: Array, now: int, *, tests: bool) -> int:
        """Lets the core look; returns how many mbarriers it finds, or -1."""
        clocks = self._clocks
        visits, gone = looked.peers or (_NONE, _NONE)
        held, known = clocks.held_rows()
        # numpy's scalars are no arrays
        address, amounts = np.asarray(looked.address), np.asarray(0 if looked.amounts is None else looked.amounts)
        numbers = (known.shape[1], now, looked.size, len(self._places), clocks.now if looked.peers else 0, looked.shift)
        sizes = address.itemsize, 0 if looked.amounts is None else amounts.itemsize
        self._given[_CHANGING:] = (*numbers, BASE, PEER_BITS, *sizes, looked.line, tests, looked.most)
        arrays: tuple[Array, ...] = (looked.lanes, address, amounts, self._rows, self._places, held, known)
        arrays += (self._used, self._groups, self._found, ended, self._learning, visits, gone)
        return self._core.accesses["find_mbarriers"](arrays, self._address)

    def _made(self, lanes: Array, count: int) -> FoundMbarriers:
        """The first `count` mbarriers that the core has found, as used by `lanes`."""
        each, blocks = [], self._clocks.shape[1]
        for row, some, first, amount in self._found[:count].tolist():
            each.append((self._all[row], some, divmod(first, blocks), amount))
        groups = self._groups.reshape(-1)[: sum(one[1] for one in each)] if count > 1 else None
        return FoundMbarriers(lanes, groups, each)
