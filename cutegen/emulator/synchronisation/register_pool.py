"""The registers of a block, which setmaxnreg redistributes among its warps."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import WARP, first_lane
from cutegen.emulator.ptx.model import Instruction

_REGISTERS = 65536  # of a multiprocessor
_MOST, _UNIT = 256, 8  # of a thread, at a launch


class RegisterPool:
    """The shares of all warps of a batch of `shape` = (threads, blocks), in registers of a thread."""

    def __init__(self, shape: tuple[int, int]) -> None:
        warps = -(-shape[0] // WARP)
        self._shape = shape
        self._most = warps * min(_MOST, _REGISTERS // (warps * WARP) // _UNIT * _UNIT)
        self._shares = np.zeros((warps, shape[1]), np.int64)  # 0 of a warp that has asked for none

    def share(self, lanes: Array, count: int, instruction: Instruction) -> None:
        """Gives the warps of a mask of lanes so many. Raises Stop if all warps that have asked get more than there are.

        The last one to ask would wait for registers that no other warp gives back.
        """
        self._shares[np.add.reduceat(lanes, range(0, self._shape[0], WARP), axis=0) > 0] = count
        more = self._shares.sum(axis=0) > self._most
        if has_any(more):
            found, most = int(self._shares.sum(axis=0).max()) * WARP, self._most * WARP
            text = f"its warps would have {found} registers together, and the block has {most} at most"
            raise Stop("deadlock", text, instruction, first_lane(lanes & more[None, :], self._shape))
