"""Asynchronous copies that have begun and not arrived, in the groups that the lanes have committed them to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import Mask, both


@dataclass(frozen=True)
class Copy:
    """An asynchronous copy by the lanes of `access`, which is its destination in shared memory.

    `values` has one value for each unit of the destination, and `poison` the lanes in which that value was never
    written. `flights` are the reads of its source that go on until it arrives. `origin` is where the poison comes from,
    where that is kept.
    """

    access: SharedAccess
    values: tuple[Array, ...]
    poison: tuple[Mask, ...]
    flights: tuple[Flight, ...]
    origin: Array | None = None

    def arrive(self, shape: tuple[int, int]) -> None:
        """Notes that the copy no longer reads its source. `shape` is that of the lanes."""
        mask = self.access.mask
        for flight in self.flights:
            flight.land(None if mask is None else np.broadcast_to(mask, shape))


@dataclass
class _Group:
    """Copies that the lanes of a mask have committed together."""

    mask: Mask
    copies: list[Copy]


class CopyGroups:
    """The copies of the lanes of `shape` = (threads, blocks) that have not arrived, in the order of their groups."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._open: list[Copy] = []
        self._groups: list[_Group] = []

    def begin(self, copy: Copy) -> None:
        """Adds a copy that no group has yet."""
        self._open.append(copy)

    def commit(self, mask: Mask) -> None:
        """Puts those copies of the lanes of the mask that no group has yet into a new group of these lanes."""
        if mask is None:
            self._groups.append(_Group(None, self._open))
            self._open = []
            return
        self._groups.append(_Group(mask, _restrict(self._open, mask)))
        self._open = _restrict(self._open, ~mask)

    def wait(self, left: int, mask: Mask) -> list[Copy]:
        """Takes all groups but the last `left` of each lane of the mask out, and returns their copies."""
        if mask is None and all(group.mask is None for group in self._groups):
            ready = self._groups[: len(self._groups) - left] if left else self._groups
            self._groups = self._groups[len(ready) :]
            return [copy for group in ready for copy in group.copies]
        later = np.zeros(self.shape, np.int64)
        kept: list[_Group] = []
        landed: list[Copy] = []
        for group in reversed(self._groups):
            members = np.ones(self.shape, np.bool_) if group.mask is None else np.broadcast_to(group.mask, self.shape)
            landing = members & (later >= left)
            landing = landing if mask is None else landing & mask
            landed += _restrict(group.copies, landing)
            staying = members & ~landing
            if has_any(staying):
                kept.append(_Group(staying, _restrict(group.copies, staying)))
            later += members
        self._groups = kept[::-1]
        return landed

    def unfinished(self) -> list[Copy]:
        """All copies that have not been taken out, those that no group has yet last."""
        return [copy for group in self._groups for copy in group.copies] + self._open

    def sizes(self) -> list[int]:
        """How many copies each group has, and how many there are that no group has yet."""
        return [*(len(group.copies) for group in self._groups), len(self._open)]


def _restrict(copies: Sequence[Copy], lanes: Array) -> list[Copy]:
    """The copies cut to the lanes of a mask; those with no lane left are gone."""
    kept = []
    for copy in copies:
        mask = both(copy.access.mask, lanes)
        assert mask is not None
        if has_any(mask):
            kept.append(replace(copy, access=replace(copy.access, mask=mask)))
    return kept
