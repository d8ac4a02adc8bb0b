"""Asynchronous copies that have begun and not arrived: the groups of each lane, in order."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.flights import Flight
from cutegen.emulator.lanes import Array, Mask, both
from cutegen.emulator.races import Access


@dataclass(frozen=True)
class Copy:
    """A copy by the lanes of `access`, which is its destination: a value for each unit of it, with the lanes in which
    that was never written; and what it reads."""

    access: Access
    values: tuple[Array, ...]
    poison: tuple[Mask, ...]
    flights: tuple[Flight, ...]

    def arrive(self, shape: tuple[int, int]) -> None:
        """Nothing of its source is read any more. `shape` is that of the lanes."""
        mask = self.access.mask
        for flight in self.flights:
            flight.land(None if mask is None else np.broadcast_to(mask, shape))


@dataclass
class _Group:
    mask: Mask
    copies: list[Copy]


class Pending:
    """Copies of the lanes of `shape`, those that are in no group yet last."""

    def __init__(self, shape: tuple[int, int]) -> None:
        self.shape = shape
        self._open: list[Copy] = []
        self._groups: list[_Group] = []

    def begin(self, copy: Copy) -> None:
        """A copy that is in no group yet."""
        self._open.append(copy)

    def commit(self, mask: Mask) -> None:
        """The lanes of the mask put what they have begun into a group."""
        if mask is None:
            self._groups.append(_Group(None, self._open))
            self._open = []
            return
        self._groups.append(_Group(mask, _restrict(self._open, mask)))
        self._open = _restrict(self._open, ~mask)

    def wait(self, left: int, mask: Mask) -> list[Copy]:
        """Takes out all but the last `left` groups of each lane of the mask."""
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
            if staying.any():
                kept.append(_Group(staying, _restrict(group.copies, staying)))
            later += members
        self._groups = kept[::-1]
        return landed

    def unfinished(self) -> list[Copy]:
        """All that has not been taken out."""
        return [copy for group in self._groups for copy in group.copies] + self._open


def _restrict(copies: Sequence[Copy], lanes: Array) -> list[Copy]:
    kept = []
    for copy in copies:
        mask = both(copy.access.mask, lanes)
        assert mask is not None
        if mask.any():
            kept.append(replace(copy, access=replace(copy.access, mask=mask)))
    return kept
