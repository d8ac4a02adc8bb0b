"""Reads of shared memory by wgmma, from the start of a product to its end, checked against the order of accesses."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import Clocks
from cutegen.emulator.checks.reads_in_flight import AgentReads, PendingReads
from cutegen.emulator.checks.touches import GatheredReads
from cutegen.emulator.native.library import AccessResult, core
from cutegen.emulator.ptx.model import Instruction


class ProductReadings:
    """The reads of products of the lanes of `clocks`.

    Of each unit of all blocks, `writers` are who wrote it last, `written` when, and `lines` the PTX line of the last
    read. `gathered` are the reads that agents have made, and `pending` finds those under way.
    """

    def __init__(
        self,
        clocks: Clocks,
        writers: Array,
        written: Array,
        lines: Array,
        gathered: AgentReads,
        pending: Callable[[], PendingReads],
    ) -> None:
        self.clocks, self._writers, self._written, self._lines = clocks, writers, written, lines
        self._gathered, self._pending = gathered, pending
        self._core = core()

    def take(self, instruction: Instruction, reads: GatheredReads, flags: Array, data: Array) -> Array | None:
        """Starts the reads of warps that gather matrices, and returns the data of their units, one after the other.

        `flags` and `data` are those of each unit. None without a core, for no units, and where the core cannot tell
        that nothing is wrong.
        """
        if self._core is None or not len(reads.cells):
            return None
        clocks = self.clocks
        found = np.empty(len(reads.cells), data.dtype)
        numbers = len(reads.cells), len(reads.first), 0, clocks.warps, clocks.members, data.itemsize, instruction.line
        given = np.array(numbers, np.int64)
        places = reads.clusters * clocks.members + reads.first
        arrays = self.arrays(reads, places, given, flags, data, found, flags)
        fine = self._core.accesses["begin_product"](arrays, given.ctypes.data) == AccessResult.FINE
        return found if fine else None

    def arrays(
        self, reads: GatheredReads, places: Array, given: Array, flags: Array, data: Array, found: Array, lost: Array
    ) -> tuple[Array, ...]:
        """The arrays that the core needs to begin reads.

        `places` are those of the warps' first members in the holders of rows. `given` are the core's numbers; this
        updates the width of a row. The core copies the units to `found`; `lost` marks those never written.
        """
        pending = self._pending()
        held, known = self.clocks.held_rows()
        given[2] = known.shape[1]
        arrays: tuple[Array, ...] = (reads.cells, reads.starts, reads.matrices, places, reads.times, held, known)
        arrays += (self._writers, self._written, flags, data, found, pending.count, pending.lines, lost)
        return arrays

    def surely_ordered(self, reads: GatheredReads) -> bool:
        """Whether all threads of warps know of all writes of what these gather, and of fences after those by threads.

        Where not all of them do, `check_gather` tells whether those do that must.
        """
        clocks, members = self.clocks, self.clocks.members
        if not len(reads.cells):
            return True
        writer, times = self._writers.take(reads.cells), self._written.take(reads.cells)
        start = members if writer.min() >= members else 0
        if writer.min() < 0:
            return False

        def after(least: Array, some: Array | slice) -> bool:
            """Whether that is after the writes of some of the cells."""
            known = reads.least(least)
            at = reads.of_cell[some] * known.shape[1] + (writer[some] - start)
            return bool((known.reshape(-1).take(at) > times[some]).all())

        if not after(clocks.least_known(reads.clusters, reads.first, start), slice(None)):
            return False
        if start:
            return True
        covered = clocks.least_covered(reads.clusters, reads.first)
        return covered is not None and after(covered, writer < members)

    def begin(self, instruction: Instruction, reads: GatheredReads) -> None:
        """Notes that warps gather units from now on, which was looked at."""
        self._pending().begin_several(reads.cells, instruction.line, reads.times)

    def end(
        self,
        instruction: Instruction,
        reads: GatheredReads,
        agents: Sequence[int],
        lost: Array | None,
        numbers: Sequence[int],
    ) -> None:
        """Notes that the warps with some numbers among those that gather have read their units until now.

        `agents` has the agent by which each of those that gather does it. Of units that are `lost` nothing was noted;
        only where the core has begun the reads, some may be.
        """
        pending, times, now = self._pending(), self._gathered, self.clocks.now
        rows = np.array([times.row(agents[number]) for number in numbers])
        if self._core is not None:
            which = np.array(numbers)
            arrays: tuple[Array, ...] = (reads.cells, reads.starts, reads.matrices, which, rows, pending.count)
            arrays += (times.times, self._lines)
            arrays += (rows if lost is None else lost,)
            given = np.array((len(numbers), len(self._lines), now, instruction.line, lost is not None), np.int64)
            self._core.accesses["end_product"](arrays, given.ctypes.data)
            return
        for number, row in zip(numbers, rows.tolist(), strict=True):
            cells, distinct = reads.of_warp(number)
            pending.end(cells, distinct)
            times.times[row, cells] = now
            self._lines[cells] = instruction.line
