"""shfl.sync by the C core, in one call, where all threads are there that take part."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.poison import Poison
from cutegen.emulator.lanes import Mask
from cutegen.emulator.native.library import AccessResult, Core
from cutegen.emulator.operations.state import Lanes

_MODES = ("up", "down", "bfly", "idx")
_NONE = np.zeros(1, np.bool_)


@dataclass(frozen=True)
class Shuffled:
    """The result of a shuffle, as arrays that broadcast to the lanes: the `moved` bits, and whether the source lane is
    `inside` its segment. Both mean nothing where the source is `lost`: poison, or not there.
    """

    moved: Array
    inside: Array
    lost: Mask


class CoreShuffle:
    """The shuffle of one mode."""

    def __init__(self, mode: str) -> None:
        self._mode = _MODES.index(mode)
        self._numbers = np.zeros(9, np.int64)
        self._address = self._numbers.ctypes.data

    def run(
        self, core: Core, lanes: Lanes, operands: tuple[Array, Array, Array, Array], poison: Poison, mask: Mask
    ) -> Shuffled | None:
        """Shuffles the first operand, whose poison is given, by the amount, the clamp and the members that follow it.

        None, and nothing is changed, unless all threads are there.
        """
        given = tuple([np.asarray(operand) for operand in operands])
        if any(operand.dtype != np.uint32 for operand in given):
            return None
        value, shape, active = given[0], lanes.shape, lanes.active(mask)
        moves = value.ndim == 2 and value.shape[0] > 1  # else it does not matter whose value it is
        moved = np.empty(shape, np.uint32) if moves else value
        inside, lost = np.empty(shape, np.bool_), np.empty(shape, np.bool_)
        masks = (active, lanes.alive, lanes.left)
        there = [one is not None for one in masks]
        self._numbers[:-1] = (*shape, self._mode, *there, 0 if poison is None else poison.itemsize, moves)
        arrays = (*given, *[_NONE if one is None else np.asarray(one) for one in (*masks, poison)], moved, inside, lost)
        if core.accesses["shuffle"](arrays, self._address) != AccessResult.FINE:
            return None
        return Shuffled(moved, inside, lost if self._numbers[-1] else None)
