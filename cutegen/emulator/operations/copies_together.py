"""Copies of cp.async.bulk from global to shared memory that many lanes make at one instruction, all of them at once.

In a kernel of clusters one thread of each block copies for all others. All checks are made before the first copy, and
change nothing. Copies that write different bytes do not affect each other: their writes belong to the agents of the
mbarriers, and no lane learns of these here. So the result is that of one copy after the other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.reads_in_flight import Flight
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.checks.touches import overlap
from cutegen.emulator.lanes import spread
from cutegen.emulator.memory.runs import PIECE, Runs, check_runs, gather, pieces_of, store_runs
from cutegen.emulator.operations.addresses import Pointer
from cutegen.emulator.operations.async_stores import check_same_block
from cutegen.emulator.operations.deliveries import Write, send_writes
from cutegen.emulator.operations.mbarrier_operations import SharedOperand
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier import Arrival
from cutegen.emulator.synchronisation.mbarrier_uses import Uses


@dataclass(frozen=True)
class _Copies:
    """Copies of the same size: an entry for each in `lanes`, the numbers of their lanes among all that copy.

    `access` and `runs` are what they write, `uses` the mbarriers that count it, and `agents` the agents of these.
    `data` is what they read, one copy's after the other's; `lost` ones were never written. `flights` are the reads,
    each with the numbers of its pieces.
    """

    lanes: Array
    access: SharedAccess
    runs: Runs
    uses: Uses
    agents: Array
    data: Array
    lost: Array
    flights: list[tuple[Flight, Array]]

    def write(self, entry: int) -> Write:
        """The write of the copy with the number `entry`; once a lane knows of the write, the copy's reads are over."""
        size = len(self.data) // len(self.lanes)

        def seen(observer: tuple[int, int]) -> None:
            for flight, numbers in self.flights:
                flight.of(numbers // (size // PIECE) == entry).land(None)

        block, offset = int(self.uses.blocks[entry]), int(self.uses.offsets[entry])
        arrival = Arrival(block, offset, size, seen if self.flights else None)
        return Write(self.access, self.uses, np.array([entry]), arrival)


def copy_together(
    lanes: Lanes,
    origin: Pointer,
    to: SharedOperand,
    counter: SharedOperand,
    here: Array,
    sizes: Array,
    instruction: Instruction,
) -> bool:
    """Makes the copies of all lanes of a mask, of `sizes` bytes, from an address to a place, which an mbarrier counts.

    Returns whether it has: it changes nothing where one of them is wrong, and where two write the same bytes.
    """
    try:
        some = [
            _checked(lanes, origin, to, counter, here, sizes, np.flatnonzero(sizes == size), instruction)
            for size in np.unique(sizes[sizes > 0]).tolist()
        ]
    except Stop:
        return False
    runs = [(c.runs.rows, c.runs.columns, np.full(len(c.lanes), c.runs.count)) for c in some]
    if runs and overlap(*(np.concatenate(each) for each in zip(*runs, strict=True))):
        return False
    _make(lanes, some, instruction.line)
    return True


def _checked(
    lanes: Lanes,
    origin: Pointer,
    to: SharedOperand,
    counter: SharedOperand,
    here: Array,
    sizes: Array,
    entries: Array,
    instruction: Instruction,
) -> _Copies:
    """The copies of some of the lanes of a mask, all of one size, for which nothing is wrong. Raises Stop otherwise."""
    threads, blocks = np.nonzero(here)
    keep = threads[entries], blocks[entries]
    mask = single(keep, lanes.shape)
    size = int(sizes[entries[0]])
    base = origin.known_base(lanes, mask, instruction)
    lanes.access.aligned(base, origin.offset, PIECE, mask, instruction)
    pieces = pieces_of(size)
    addresses = (spread(base, lanes.shape)[mask].astype(np.int64) + origin.offset)[:, None] + pieces
    several = np.repeat(keep[0], len(pieces)), np.repeat(keep[1], len(pieces))
    data, lost, flights = gather(lanes.access, addresses.reshape(-1), PIECE, several, instruction)
    uses = counter.uses(lanes, mask)
    access = replace(to, size=size).access(lanes, mask)[0]
    check_same_block(lanes, access, uses)
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    runs = Runs(*log.runs(access), access.count)
    check_runs(lanes.shared, access, runs, "writes")
    log.check_writable(access)
    log.check_fenced(access)
    agents = lanes.team.mbarriers.shown_agents(uses)
    return _Copies(entries, access, runs, uses, agents, data, lost, flights)


def _make(lanes: Lanes, some: list[_Copies], line: int) -> None:
    """Makes copies, in the order of their lanes."""
    log = lanes.shared.log
    assert isinstance(log, SharedHistory)
    writes: list[tuple[int, Write]] = []
    for copies in some:
        log.start(copies.agents, copies.access, checked=True)
        store_runs(lanes.shared, copies.runs, copies.data, copies.lost)
        for flight, _ in copies.flights:
            flight.begin(line)
        writes += [(lane, copies.write(entry)) for entry, lane in enumerate(copies.lanes.tolist())]
    send_writes(lanes, [write for _, write in sorted(writes, key=lambda one: one[0])])
