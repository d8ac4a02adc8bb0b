"""How accesses of a tensor that the kernel may write can disturb each other.

Two accesses that nothing orders, a write to what an asynchronous copy still reads, and a write to what ld.global.nc
takes for constant.
"""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Kind, Stop, Witness
from cutegen.emulator.checks.global_races import NEVER, Clash, Epochs
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.lanes import spread
from cutegen.emulator.memory.arenas import Arena, GlobalMemory
from cutegen.emulator.ptx.model import Instruction

Keep = Array | slice | tuple[Array, Array]
"""Picks the lanes that make accesses from those of the batch."""


class Hazards:
    """Finds hazards between the accesses of the lanes of one batch and all earlier ones of the launch.

    `memory`, `lanes`, `threads` and `epochs` are as for `GlobalAccess`. Accesses are given as `cells`, the index of
    each in the arena in steps of `size` bytes, which is also how many it touches, shape (accesses, 1); and `keep`,
    which picks the lanes that make them from those of the batch.
    """

    def __init__(self, memory: GlobalMemory, lanes: Array, threads: int, epochs: Epochs) -> None:
        self.memory, self.lanes, self.threads, self.epochs = memory, lanes, threads, epochs

    def read(
        self,
        arena: Arena,
        cells: Array,
        size: int,
        keep: Keep,
        instruction: Instruction,
        constant: bool,
        flights: list[Flight] | None,
    ) -> None:
        """Notes reads. Raises Stop if one of them meets an unordered write or, with `constant`, any write.

        `constant` says that ld.global.nc reads: the memory must never be written. `flights` is given for asynchronous
        copies: they read until what is appended there has landed.
        """
        assert arena.touched is not None
        units = _units(arena, cells, size)
        self._note(arena, units, keep, instruction, writes=False)
        epochs = self.epochs
        ordered, clusters = epochs.before, epochs.first_of_cluster
        clash = arena.touched.read(units, *self._who(keep), self.threads, instruction.line, ordered, clusters)
        if clash is not None:
            raise self._unordered(arena, clash, "reads", keep, instruction)
        if constant:
            written = arena.touched.written(units)
            if has_any(written):
                text = f"reads {arena.name} as if it never changed, where the kernel has written"
                raise self._first(arena, units, written, keep, "non-coherent", text, instruction)
            arena.read_as_constant()[units] = True
        if flights is not None:
            reading = arena.read_on()
            reading.begin(units, instruction.line)
            flights.append(Flight(reading, units, self._numbers(keep)))

    def write(
        self, arena: Arena, cells: Array, size: int, keep: Keep, instruction: Instruction, *, flying: bool = False
    ) -> None:
        """Notes writes, which are in flight until they have `landed` where they are `flying`.

        Raises Stop if one meets an unordered access, a read in flight or one that wants a constant.
        """
        assert arena.touched is not None
        who, when = self._who(keep)
        when = np.full_like(when, NEVER) if flying else when
        noted = size >= arena.unit and arena.touched.write_first(cells, size // arena.unit, who, when)
        if noted and arena.reading is None and arena.constant is None and self.memory.journal is None:
            return
        units = _units(arena, cells, size)
        self._note(arena, units, keep, instruction, writes=True)
        clash = None
        if not noted:
            clash = arena.touched.write(units, who, when, self.threads, instruction.line, self.epochs.before)
        if clash is not None:
            raise self._unordered(arena, clash, "writes", keep, instruction)
        if arena.reading is not None and has_any(busy := arena.reading.busy(units)):
            line = arena.reading.line(units[busy][0])
            text = (
                f"writes {arena.name} where a cp.async (PTX line {line}) still reads: the thread that issued it has "
                "not waited for its group"
            )
            witness = Witness("the copy that is in flight", line)
            raise self._first(arena, units, busy, keep, "in-flight", text, instruction, witness)
        if arena.constant is not None and has_any(read := arena.constant[units]):
            text = f"writes {arena.name} where an ld.global.nc has read, as if it never changed"
            raise self._first(arena, units, read, keep, "non-coherent", text, instruction)

    def read_run(self, arena: Arena, cells: Array, size: int, keep: Keep, instruction: Instruction) -> Flight:
        """The reads of a bulk copy, which go on from when what is returned begins until it lands.

        Raises Stop as `read` does.
        """
        assert arena.touched is not None
        units = _units(arena, cells, size)
        clash = arena.touched.check(units, *self._who(keep), self.threads, self.epochs.before)
        if clash is not None:
            raise self._unordered(arena, clash, "reads", keep, instruction)
        return Flight(arena.read_on(), units, self._numbers(keep))

    def landed(self, arena: Arena, cells: Array, size: int) -> None:
        """Notes that writes of a bulk copy have arrived, as the thread knows that has started it."""
        assert arena.touched is not None
        arena.touched.landed(_units(arena, cells, size), int(self.epochs.passed.max()))

    def detach(self, gone: Array) -> None:
        """Notes that the lanes of the mask have exited and are not at the barrier that their block passes now."""
        if has_any(gone):
            passed = spread(self.epochs.passed, gone.shape)[gone]
            for arena in self.memory.arenas:
                if arena.touched is not None:
                    arena.touched.detach(self.lanes[gone], passed)

    def _note(self, arena: Arena, units: Array, keep: Keep, instruction: Instruction, *, writes: bool) -> None:
        """Notes touches in the journal, where there is one."""
        if self.memory.journal is not None:
            cells = (self.memory.arenas.index(arena) << 40) + units
            self.memory.journal.note(cells, self.lanes[keep], instruction.line, writes=writes)

    def _who(self, keep: Keep) -> tuple[Array, Array]:
        """The numbers of the lanes that are kept, and how many barriers their blocks have passed."""
        me = self.lanes[keep].reshape(-1, 1)
        return me, spread(self.epochs.passed, self.lanes.shape)[keep].reshape(-1, 1)

    def _numbers(self, keep: Keep) -> Array:
        """The numbers of the lanes that are kept, counted in the batch only."""
        return np.arange(self.lanes.size).reshape(self.lanes.shape)[keep].reshape(-1)

    def _first(
        self,
        arena: Arena,
        units: Array,
        bad: Array,
        keep: Keep,
        kind: Kind,
        text: str,
        instruction: Instruction,
        *witnesses: Witness,
    ) -> Stop:
        """The fault of the first access that has a unit for which `bad`, which has the shape of `units`, is True."""
        row, column = (int(i) for i in np.argwhere(bad)[0])
        return self._stop(arena, int(units[row, column]), row, keep, kind, text, instruction, *witnesses)

    def _unordered(self, arena: Arena, clash: Clash, verb: str, keep: Keep, instruction: Instruction) -> Stop:
        """The fault of an access that clashes with an earlier one."""
        text = f"{verb} {arena.name} where {clash.whom(self.threads)} {clash.done}, and nothing orders the two"
        witness = Witness(
            f"{'written' if clash.done == 'wrote' else 'read'} here",
            clash.line,
            clash.others if clash.others >= 0 else None,
        )
        return self._stop(arena, clash.unit, clash.row, keep, "unordered", text, instruction, witness)

    def _stop(
        self,
        arena: Arena,
        unit: int,
        row: int,
        keep: Keep,
        kind: Kind,
        text: str,
        instruction: Instruction,
        *witnesses: Witness,
    ) -> Stop:
        """The fault of access number `row` among those of the lanes that are kept, at a unit of the arena."""
        lane = divmod(int(self._numbers(keep)[row]), self.lanes.shape[1])
        where = arena.start + unit * arena.unit
        element = arena.element(where)
        return Stop(
            kind, text, instruction, lane, address=where, tensor=arena.name, element=element, witnesses=witnesses
        )


def _units(arena: Arena, cells: Array, size: int) -> Array:
    """The units that accesses of `size` bytes touch, shape (accesses, units of one)."""
    if size < arena.unit:
        return np.asarray(cells * size // arena.unit)
    return np.asarray(cells * (size // arena.unit) + np.arange(size // arena.unit))
