"""The C core's part of a `SharedHistory`: it notes accesses without faults in one pass, with numpy's result."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.reads_in_flight import AgentReads, PendingReads
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.lanes import WARP
from cutegen.emulator.native.library import AccessResult, Core, Noted

_CHANGING = 7
"""From this place on the numbers that the core is given change from access to access."""
_RESULTS = {result.value: result for result in AccessResult}
_NONE = np.zeros((0, 0), np.int32)

Given = tuple[tuple[Array, ...], int]
"""The core's arguments for an access: arrays, and the address of numbers that are valid until the next access."""


class CoreAccesses:
    """The accesses of the lanes of `clocks` to shared memory with `units` units in all blocks, noted by the core.

    `blocks` has the number of each block, shape (1, blocks).
    """

    def __init__(self, core: Core, clocks: Clocks, blocks: Array, units: int) -> None:
        self.core, self.clocks, self.blocks = core, clocks, blocks
        fixed = (*clocks.shape, clocks.size, clocks.padded, clocks.members, clocks.warps, units)
        self._given = np.array([*fixed, *[0] * 9], np.int64)
        self._address = self._given.ctypes.data
        self._readers = np.zeros((2, clocks.members // WARP), np.int64)

    def add_reader(self, number: int, away: int, warp: int) -> None:
        """Notes which warp has a number among the readers, as blocks from the one with the unit, and its number."""
        self._readers[:, number] = away, warp

    def given(
        self,
        access: SharedAccess,
        kept: tuple[Array, ...],
        readers: int,
        busy: PendingReads | None,
        gathered: AgentReads,
        more: tuple[Array, ...],
    ) -> Given | None:
        """The core's arguments to note an access in `kept`, the arrays kept for each unit and for `readers` warps.

        `busy` are the asynchronous reads in flight, `gathered` those that agents have made, and `more` has the further
        arrays that some kinds of accesses need. None for arrays of a dtype that the core does not read.
        """
        clocks, rows, mask = self.clocks, access.rows, access.mask
        columns = self.blocks if access.columns is None else access.columns
        if rows.dtype != np.int64 or columns.dtype != np.int64:
            return None
        held, known = clocks.held_rows()
        self._given[_CHANGING:] = (
            mask is not None,
            access.count,
            known.shape[1],
            clocks.now,
            access.instruction.line,
            readers,
            busy is not None,
            len(gathered.agents),
            len(more),
        )
        arrays = (rows if mask is None else mask, rows, columns, held, known, *kept, *self._readers)
        arrays += (_NONE if busy is None else busy.count, gathered.times, gathered.agents)
        return (*arrays, *more), self._address

    def run(self, what: Noted, given: Given) -> AccessResult:
        """Notes an access, or looks at it."""
        return _RESULTS[self.core.accesses[what](*given)]
