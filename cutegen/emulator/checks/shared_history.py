"""Races for shared memory where more than whole blocks meet: the last accesses of each unit, compared with the order.

It takes the place of `shared_races.AccessLog` in kernels that use clusters, mbarriers or barriers of some warps. A race
is found at the later of two accesses, from the clocks, independent of the order in which the lanes ran.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any, with_rows
from cutegen.emulator.checks.clocks import ALWAYS, Clocks, whole
from cutegen.emulator.checks.core_accesses import CoreAccesses, Given
from cutegen.emulator.checks.faults import Stop, Witness
from cutegen.emulator.checks.product_readings import ProductReadings
from cutegen.emulator.checks.reads_in_flight import AgentReads, PendingReads
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.checks.touches import Touches, overlap
from cutegen.emulator.lanes import WARP, Mask, spread
from cutegen.emulator.native.library import AccessResult, Noted, core
from cutegen.emulator.ptx.model import Instruction

_NOBODY = -1
_ROOM = 32  # rows that are made at once: they take no memory before they are used, but to copy them does
_NO_UNITS: Array = np.zeros(0, np.int64)


class SharedHistory:
    """The last writer and the readers since, of each of the `rows` units of `unit` bytes of the blocks of `clocks`."""

    def __init__(self, rows: int, unit: int, clocks: Clocks) -> None:
        self.unit, self.clocks = unit, clocks
        self.shape = rows, clocks.shape[1]
        self._own = np.arange(clocks.shape[1])[None, :]  # the number of each block, by which it is known to itself
        # Of each unit, by its number over all blocks: numpy finds entries sooner by one number than by two
        units = rows * clocks.shape[1]
        self._writer = np.full(units, _NOBODY, np.int32)
        self._written = np.zeros(units, np.int32)
        self._lines = np.zeros((2, units), np.int32)  # of the last write and of the last read
        self._sources: PendingReads | None = None  # what asynchronous operations still read
        self._gathered = AgentReads(units)
        # The warps that have read, each as blocks from the one that owns the unit and its number there, one after the
        # other; and for each of them a row of all units: which of its threads have read, as bits, and when the last has
        self._readers: list[tuple[int, int]] = []
        self._row_of: Array = np.full(clocks.members // WARP, _NOBODY, np.int64)
        self._who: Array = np.zeros((0, units), np.uint32)
        self._when: Array = np.zeros((0, units), np.int32)
        self.products = ProductReadings(
            clocks, self._writer, self._written, self._lines[1], self._gathered, self.pending
        )
        self._known: tuple[SharedAccess, Touches] | None = None  # the last access unit by unit
        found = core()
        self._core = None if found is None else CoreAccesses(found, clocks, self._own, units)

    # ------------------------------------------------------------------------------------------------------- accesses

    def read(self, access: SharedAccess) -> None:
        """Notes the reads of an access. Raises Stop for a race."""
        result = self._by_core("note_reads", access)
        if result == AccessResult.NEW:
            self._rows_of_readers(self.touches(access))
            result = self._by_core("note_reads", access)
        if result != AccessResult.FINE:
            self._read(access.instruction, self.touches(access))

    @property
    def has_core(self) -> bool:
        """Whether the core notes accesses here."""
        return self._core is not None

    def _by_core(self, what: Noted, access: SharedAccess, *more: Array) -> AccessResult:
        """Lets the core note an access, or look at it. Where that is WRONG, numpy does it, or finds what is wrong.

        `more` is what some kinds of accesses need besides.
        """
        if self._core is None:
            return AccessResult.WRONG
        given = self.for_core(access, *more)
        return AccessResult.WRONG if given is None else self._core.run(what, given)

    def for_core(self, access: SharedAccess, *more: Array) -> Given | None:
        """The core's arguments for an access, or None if it cannot read the arrays. There must be a core."""
        assert self._core is not None
        kept = (self._writer, self._written, self._lines[1], self._lines[0], self._who, self._when, self._row_of)
        return self._core.given(access, kept, len(self._readers), self._sources, self._gathered, more)

    def _read(self, instruction: Instruction, touches: Touches) -> None:
        """Notes reads, unit by unit. Raises Stop for a race."""
        self._check_writer(instruction, touches, "reads")
        clocks, cells = self.clocks, touches.cells
        index = self._rows_of_readers(touches) * self._who.shape[1] + cells
        who, when = self._who.reshape(-1), self._when.reshape(-1)
        held, times = who.take(index), when.take(index)
        # whoever is ordered after this reader is ordered after those that are ordered before it
        old = np.flatnonzero((held != 0) & (times < clocks.now))
        if old.size:
            members = touches.members[old]
            known = clocks.bits_before(touches.clusters[old], members, members // WARP * WARP, times[old])
            who[index[old[(held[old] & ~known) == 0]]] = 0
        np.bitwise_or.at(who, index, np.uint32(1) << (touches.members % WARP).astype(np.uint32))
        when[index] = clocks.now
        self._lines[1][cells] = instruction.line

    def _rows_of_readers(self, touches: Touches) -> Array:
        """The number of the row in which it is noted that this toucher has read, for each entry."""
        clocks = self.clocks
        warps = clocks.padded // WARP
        code = (touches.members // clocks.padded - touches.columns) % clocks.size * warps
        code += touches.members % clocks.padded // WARP
        rows = self._row_of.take(code)
        if has_any(rows < 0):
            for new in np.unique(code[rows < 0]).tolist():
                self._row_of[new] = len(self._readers)
                if self._core is not None:
                    self._core.add_reader(len(self._readers), *divmod(new, warps))
                self._readers.append(divmod(new, warps))
            if more := max(0, len(self._readers) - len(self._who)):
                more = max(more, min(_ROOM, len(self._row_of) - len(self._who)))
                self._who, self._when = with_rows(self._who, more), with_rows(self._when, more)
            rows = self._row_of.take(code)
        return np.asarray(rows)

    def write(self, access: SharedAccess) -> None:
        """Notes the writes of an access. Raises Stop for a race."""
        result = self._by_core("note_writes", access)
        if result == AccessResult.FINE:
            return
        if result != AccessResult.TWICE:
            self.check_writable(access)
        touches = self.touches(access)
        self._writer[touches.cells] = touches.members
        self._note_write(touches, access.instruction.line)
        twice = self._writer.take(touches.cells) != touches.members
        if has_any(twice):  # two of these very writes
            raise self._race(access.instruction, touches, int(twice.argmax()), "writes", self._writer)

    def start(self, agents: Array, access: SharedAccess, checked: bool = False) -> None:
        """Notes that agents write the units of an access, after what its lanes know; `agents` has one for each block.

        Until the writes have arrived, nothing is ordered after them. Raises Stop for a race, which is not looked for
        with what was done before if that is `checked`.
        """
        if not checked:
            self.check_writable(access)
        mask = access.mask  # of which an entry may stand for several lanes
        several = mask is None or mask.shape != self.clocks.shape or np.count_nonzero(mask) > 1
        rows, columns = self.runs(access) if several else (_NO_UNITS, _NO_UNITS)
        if len(rows) > 1 and overlap(rows, columns, np.broadcast_to(access.count, len(rows))):
            touches = self.touches(access)
            twice = np.ones(len(touches.rows), np.bool_)
            twice[np.unique(touches.cells, return_index=True)[1]] = False
            at = int(twice.argmax())
            text = f"byte {touches.rows[at] * self.unit} of shared memory is written by several threads here at once"
            lane = self.clocks.lane(int(touches.clusters[at]), int(touches.members[at]))
            raise Stop("race", text, access.instruction, lane)
        if self._by_core("note_agents", access, agents) == AccessResult.FINE:
            return
        touches = self.touches(access)
        self._writer[touches.cells] = agents[touches.columns]
        self._note_write(touches, access.instruction.line)
        self._written[touches.cells] = ALWAYS

    def arrive(self, access: SharedAccess) -> None:
        """Notes that the writes of an access, which agents were to make, have arrived."""
        if self._by_core("note_arrivals", access) != AccessResult.FINE:
            self._written[self.touches(access).cells] = self.clocks.now

    def landed(self, access: SharedAccess) -> None:
        """Notes that the writes of an access, which its lanes have started, have arrived."""
        self.arrive(access)

    def begin_reads(self, access: SharedAccess) -> None:
        """Notes that the one lane of an access starts a copy that reads its units from now on.

        Raises Stop for what is not ordered before.
        """
        if self._by_core("are_readable", access) != AccessResult.FINE:
            self._check_writer(access.instruction, self.touches(access), "reads")
        self.pending().begin(self._run(access), access.instruction.line, distinct=True)

    def check_gather(self, instruction: Instruction, touches: Touches) -> None:
        """Raises Stop unless units may be read by an asynchronous operation now, in the async proxy."""
        self._check_writer(instruction, touches, "reads")
        self.check_fence(instruction, touches)

    def begin_gather(self, cells: Array, line: int) -> None:
        """Notes that an asynchronous operation at that PTX line reads units, all different ones, from now on."""
        self.pending().begin(cells, line, distinct=True)

    def end_gather(self, cells: Array, agent: int, when: int, line: int) -> None:
        """Notes that an agent has read the units of an operation that began at that time."""
        self.pending().end(cells, distinct=True)
        row = self._gathered.row(agent)
        self._gathered.times[row, cells] = when
        self._lines[1][cells] = line

    def pending(self) -> PendingReads:
        """The units that asynchronous operations may still read, recorded from the first call on."""
        if self._sources is None:
            self._sources = PendingReads(self.shape[0] * self.shape[1])
        return self._sources

    def gathered(self, rows: Array, column: int, threads: Array) -> Touches:
        """The touches by threads of the block `column` of its own shared memory: the unit in `rows` for each thread."""
        clusters, members = self.clocks.cluster[threads, column], self.clocks.member[threads, column]
        return Touches(rows, np.full(len(rows), column), clusters, members, self.shape[1])

    def end_reads(self, access: SharedAccess, lane: tuple[int, int]) -> None:
        """Notes that a copy that has begun to read the units of an access is known to have done so by a lane."""
        assert self._sources is not None
        self._sources.end(self._run(access), distinct=True)
        mask = np.zeros(self.clocks.shape, np.bool_)
        mask[lane] = True
        rows, columns = self.runs(access)
        self.read(replace(access, mask=mask, rows=rows[None], columns=columns[None]))

    def check_writable(self, access: SharedAccess, touches: Touches | None = None) -> None:
        """Raises Stop unless all that was done before to the units of an access is ordered before it."""
        if self._by_core("are_writable", access) == AccessResult.FINE:
            return
        touches = self.touches(access) if touches is None else touches
        self._check_writer(access.instruction, touches, "writes")
        cells = touches.cells
        if self._sources is not None and has_any(busy := self._sources.busy(cells)):
            at = int(busy.argmax())
            line = self._sources.line(int(cells[at]))
            byte = int(touches.rows[at]) * self.unit
            text = f"writes byte {byte} of shared memory, which an asynchronous operation (PTX line {line}) still reads"
            lane = self.clocks.lane(int(touches.clusters[at]), int(touches.members[at]))
            witness = Witness("the operation that is in flight", line)
            raise Stop(
                "in-flight",
                text + ": no wait for it lies between",
                access.instruction,
                lane,
                address=byte,
                witnesses=(witness,),
            )
        for agent, times in zip(self._gathered.agents, self._gathered.times, strict=True):
            when = times.take(cells)
            if not np.count_nonzero(when):
                continue
            late = (when > 0) & ~self.clocks.before(touches.clusters, touches.members, agent, when)
            if has_any(late):
                raise self._read_by_agent(access.instruction, touches, int(late.argmax()))
        if not self._readers:
            return
        held = self._who[: len(self._readers)].take(cells, axis=1)
        which, some = np.nonzero(held)
        if some.size:
            first = self._firsts()[which, touches.columns[some] % self.clocks.size]
            times = self._when.reshape(-1).take(which * self._when.shape[1] + cells[some])
            known = self.clocks.bits_before(touches.clusters[some], touches.members[some], first, times)
            left = held[which, some] & ~known
            if has_any(left):
                bad = int((left != 0).argmax())
                other = int(first[bad]) + (int(left[bad]) & -int(left[bad])).bit_length() - 1
                raise self._race(access.instruction, touches, int(some[bad]), "writes", None, other)

    def _firsts(self) -> Array:
        """The first member of each warp that has read, a row for each, for a unit of the block of each rank."""
        clocks = self.clocks
        away, warp = np.array(self._readers, np.int64).T
        return np.asarray((np.arange(clocks.size) + away[:, None]) % clocks.size * clocks.padded + warp[:, None] * WARP)

    def check_fenced(self, access: SharedAccess) -> None:
        """Raises Stop for a unit of an access by the async proxy whose last write no proxy fence covers.

        What an agent has written needs none.
        """
        if self._by_core("are_fenced", access, *(self.clocks.proxy_fences or ())) != AccessResult.FINE:
            self.check_fence(access.instruction, self.touches(access))

    def check_fence(self, instruction: Instruction, touches: Touches) -> None:
        """The same of units that are touched by the async proxy."""
        writer, times = self._writer.take(touches.cells), self._written.take(touches.cells)
        seen = self.clocks.covered(touches.clusters, touches.members, writer, times)
        bad = ~seen & (writer < self.clocks.members)
        if not has_any(bad):
            return
        at = int(bad.argmax())
        other, line = (
            self._named(touches, at, int(writer[at])),
            int(self._lines[0, touches.cells[at]]),
        )
        byte = int(touches.rows[at]) * self.unit
        text = (
            f"{instruction.name} touches byte {byte} of shared memory by the async proxy, which {other} has "
            f"written (PTX line {line}) with no fence.proxy.async between"
        )
        lane = self.clocks.lane(int(touches.clusters[at]), int(touches.members[at]))
        raise Stop("proxy", text, instruction, lane, address=byte, witnesses=(Witness("written here", line),))

    # ---------------------------------------------------------------------------------------------------------- parts

    def runs(self, access: SharedAccess) -> tuple[Array, Array]:
        """The first unit of each lane of an access, and the block that has it."""
        shape = self.clocks.shape
        lanes = whole(access.mask, shape)
        columns = spread(self._own if access.columns is None else access.columns, shape)
        return spread(access.rows, shape)[lanes], columns[lanes]

    def _run(self, access: SharedAccess) -> slice:
        """The numbers, over all blocks, of the units of an access of one lane."""
        ((row,), (column,)), blocks = self.runs(access), self.shape[1]
        return slice(int(row) * blocks + int(column), int(row + access.count) * blocks, blocks)

    def touches(self, access: SharedAccess) -> Touches:
        """An access unit by unit."""
        if self._known is not None and self._known[0] is access:
            return self._known[1]
        shape, clocks = self.clocks.shape, self.clocks
        lanes = whole(access.mask, shape)
        rows = spread(access.rows, shape)[lanes]
        columns = spread(self._own if access.columns is None else access.columns, shape)[lanes]
        clusters, members = clocks.cluster[lanes], clocks.member[lanes]
        if access.count > 1:
            rows = (rows[:, None] + np.arange(access.count)).reshape(-1)
            columns, clusters, members = (np.repeat(one, access.count) for one in (columns, clusters, members))
        self._known = access, Touches(rows, columns, clusters, members, self.shape[1])
        return self._known[1]

    def _note_write(self, touches: Touches, line: int) -> None:
        """Notes when and where units were written, which nobody has read since."""
        self._written[touches.cells] = self.clocks.now
        self._lines[0][touches.cells] = line
        if self._readers:
            self._who[: len(self._readers), touches.cells] = 0
        self._gathered.times[:, touches.cells] = 0

    def _check_writer(self, instruction: Instruction, touches: Touches, verb: str) -> None:
        """Raises Stop unless the last write of each unit is ordered before who touches it now."""
        writer, times = self._writer.take(touches.cells), self._written.take(touches.cells)
        bad = ~self.clocks.before(touches.clusters, touches.members, writer, times)
        if has_any(bad):
            raise self._race(instruction, touches, int(bad.argmax()), verb, self._writer)

    def _named(self, touches: Touches, at: int, member: int) -> str:
        """The name of a member of the cluster in a fault, with its block's rank where that is not entry `at`'s."""
        thread, rank = member % self.clocks.padded, member // self.clocks.padded
        me = int(touches.members[at]) // self.clocks.padded
        return f"thread {thread}" + (f" of the block of rank {rank} in the cluster" if rank != me else "")

    def _race(
        self, instruction: Instruction, touches: Touches, at: int, verb: str, writer: Array | None, other: int = -1
    ) -> Stop:
        """The fault of entry `at`: with the last writer where `writer` is given, else with the reader `other`."""
        row, column = int(touches.rows[at]), int(touches.columns[at])
        cell = int(touches.cells[at])
        line = int(self._lines[int(writer is None), cell])
        member = other if writer is None else int(writer[cell])
        byte = row * self.unit
        lane = self.clocks.lane(int(touches.clusters[at]), int(touches.members[at]))
        whose = "" if column == lane[1] else f" of the block of rank {column % self.clocks.size} in the cluster"
        where = f"byte {byte} of shared memory{whose}"
        if member >= self.clocks.members:
            text = (
                f"{verb} {where}, which an asynchronous operation (PTX line {line}) writes: nothing orders this after "
                "the end of the phase of its mbarrier, which this thread has not waited for"
            )
            witness = Witness("the operation that is in flight", line)
            return Stop("in-flight", text, instruction, lane, address=byte, witnesses=(witness,))
        name, done = self._named(touches, at, member), "reads" if writer is None else "writes"
        text = f"thread {lane[0]} {verb} {where}, which {name} {done} (PTX line {line}), and nothing orders the two"
        witness = Witness(f"{name} (warp {member % self.clocks.padded // WARP}) {done} it here", line)
        return Stop("race", text, instruction, lane, address=byte, witnesses=(witness,))

    def _read_by_agent(self, instruction: Instruction, touches: Touches, at: int) -> Stop:
        """The fault that entry `at` writes what an asynchronous operation has read, without knowing that it has."""
        line, byte = int(self._lines[1, touches.cells[at]]), int(touches.rows[at]) * self.unit
        lane = self.clocks.lane(int(touches.clusters[at]), int(touches.members[at]))
        text = f"writes byte {byte} of shared memory, which an asynchronous operation (PTX line {line}) reads: nothing "
        text += "orders this after a wait for that"
        witness = Witness("the operation that reads it", line)
        return Stop("race", text, instruction, lane, address=byte, witnesses=(witness,))

    # ------------------------------------------------------------------------- what it shares with the log of accesses

    def barrier(self, blocks: Mask, flying: Sequence[SharedAccess], gone: Mask = None) -> None:
        """Does nothing: barriers are in the clocks."""
