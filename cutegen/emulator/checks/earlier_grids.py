"""Launches that may start before the grids ahead of them in the stream have ended: which threads know that these have.

A thread knows once it has executed griddepcontrol.wait, which shows it all that those grids have written, or once
something orders it after a thread of its block or cluster that has. Until then they may still read and write all
global memory.
"""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.global_races import NEVER, ClockEpochs, Epochs
from cutegen.emulator.lanes import Mask


class EarlierGrids:
    """Which lanes of a batch of `shape` = (threads, blocks) know that the grids ahead of theirs have ended.

    `epochs` say what is ordered, as for `GlobalAccess`. `line` is the PTX line of the kernel's first
    griddepcontrol.wait, or 0 if it has none.
    """

    def __init__(self, shape: tuple[int, int], epochs: Epochs, line: int) -> None:
        self.shape, self.line = shape, line
        self._epochs = epochs
        self._known: Array = np.zeros(shape, np.bool_)
        self._waited: Array = np.full(shape, NEVER, np.int32)  # in which epoch first
        self._clocks = epochs.clocks if isinstance(epochs, ClockEpochs) else None
        # The grids ahead as one that acts at time 0: what the clocks tell of others, they tell of it
        self._agent = 0 if self._clocks is None else self._clocks.add_agents()

    def wait(self, lanes: Array) -> None:
        """Notes that the lanes of a mask have waited until the grids ahead have ended."""
        self._known |= lanes
        if self._clocks is not None:
            self._clocks.learn_of(lanes, self._agent, 1)
        else:
            self._waited = np.where(lanes, np.minimum(self._waited, self._epochs.passed), self._waited)

    def detach(self, gone: Array) -> None:
        """Notes that the lanes of the mask have exited and are not at the barrier that their block passes now."""
        self._waited[gone & (self._waited == self._epochs.passed)] = NEVER

    def unknown_to(self, lanes: Mask) -> Array:
        """The lanes of the mask for which those grids may still run."""
        left = whole(lanes, self.shape) & ~self._known
        if has_any(left):
            self._known |= self._ordered()
            left &= ~self._known
        return left

    def _ordered(self) -> Array:
        """The lanes that are ordered after one that has waited."""
        if self._clocks is None:
            return np.asarray(self._waited.min(axis=0, keepdims=True) < self._epochs.passed)
        everyone = np.ones(self.shape, np.bool_)
        return self._clocks.known_of(everyone, np.asarray(self._agent)).reshape(self.shape) > 0
