"""Clusters of a launch that have not started: some start, and others are cancelled by those that run, which then do the
work of these (PTX ISA 9.1, sections 9.7.13.17 and 9.7.13.18).
"""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

_EARLY = 1 / 8  # of the tries fail though clusters are left, as other work may take their place

Triple = tuple[int, int, int]


class ClusterPool:
    """The clusters of a grid, `clusters` with the numbers of the blocks of each, that have not started.

    `first` has the coordinates of the first block of each. `chance` decides which clusters start or are cancelled, and
    which tries fail early; without it they are taken in turn, one starts at a time, and no try fails early. `refused`
    are the clusters that run, by their numbers among them, that have seen a try fail.
    """

    def __init__(self, clusters: Array, first: list[Triple], chance: np.random.Generator | None) -> None:
        self._clusters, self._first, self._chance = clusters, first, chance
        self._left = list(range(len(clusters)))
        self.refused: set[int] = set()

    @property
    def is_empty(self) -> bool:
        return not self._left

    def start(self, most: int) -> Array:
        """The numbers of the blocks that start now, cluster after cluster: of at least one cluster, `most` at most."""
        self.refused.clear()
        most = min(most, len(self._left))
        count = 1 if self._chance is None else int(self._chance.integers(1, most + 1))
        return np.concatenate([self._clusters[self._take()] for _ in range(count)])

    def cancel(self) -> Triple | None:
        """The coordinates of the first block of a cluster that now never starts; None where the try fails."""
        if not self._left or (self._chance is not None and self._chance.random() < _EARLY):
            return None
        return self._first[self._take()]

    def _take(self) -> int:
        place = 0 if self._chance is None else int(self._chance.integers(len(self._left)))
        return self._left.pop(place)
