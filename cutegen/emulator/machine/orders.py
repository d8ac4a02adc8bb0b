"""The order in which a launch runs its blocks and warps: what a seed stands for.

Seed 0 runs blocks side by side and warps in step, in the order of their numbers. Any other seed deals the blocks into
groups at random, and the warps of a block into parts anew after every barrier: a group, or a part, goes as far as it
can before the next one starts. Seeds 2n - 1 and 2n take the same groups and parts in opposite orders, so that what two
of them could do to each other happens both ways round.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

_GROUPS = 3  # of blocks, about; two where there are as few blocks as two or four
_PARTS = 2  # parts of a block's warps
_PARTS_OF_CLUSTER = 4  # at most: each of them is run with all others masked out, which takes as long as all at once


class Order:
    """The order that `seed` stands for."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._chance = self._drawn()

    @property
    def in_step(self) -> bool:
        """Whether blocks and warps run in step, in the order of their numbers."""
        return not self.seed

    @property
    def chance(self) -> np.random.Generator | None:
        """The random generator for all else that may happen in several orders; None for the order in step."""
        return None if self.in_step else self._chance

    def groups(self, numbers: Array, at_once: int) -> Iterator[Array]:
        """The numbers of blocks that run side by side, group after group, each of at most `at_once`."""
        blocks = len(numbers)
        if self.seed:
            numbers = self._drawn().permutation(numbers)
            at_once = min(at_once, -(-blocks // _GROUPS))
        for start in self._in_turn(range(0, blocks, at_once)):
            self._chance = self._drawn(start)  # depends on the group, not on whether it comes first or last
            yield numbers[start : start + at_once]

    def parts(self, warps: int) -> list[Array]:
        """Deals the warps of a block anew: a mask of shape (warps,) for each part, in the order in which they start."""
        count = min(_PARTS, warps)
        dealt = self._chance.permutation(warps) % count
        return [dealt == part for part in reversed(self._in_turn(range(count)))]

    def parts_of_cluster(self, size: int, warps: int) -> list[Array]:
        """Deals the warps of all `size` blocks of a cluster anew: masks of shape (size * warps,), block after block.

        For every other pair of seeds the parts are made of whole blocks.
        """
        if size == 1 or (self.seed + 1) // 2 % 2 == 0:
            return self.parts(size * warps)
        count = min(size, _PARTS_OF_CLUSTER)
        dealt = np.repeat(self._chance.permutation(size) % count, warps)
        return [dealt == part for part in self._in_turn(range(count))]

    def _in_turn(self, parts: Sequence[int]) -> Sequence[int]:
        """The parts from the last to the first for every other seed."""
        return parts[::-1] if self.seed and self.seed % 2 == 0 else parts

    def _drawn(self, *what: int) -> np.random.Generator:
        """The random numbers that two seeds with opposite orders share."""
        return np.random.default_rng(((self.seed + 1) // 2, *what))
