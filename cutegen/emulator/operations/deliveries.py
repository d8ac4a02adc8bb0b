"""Asynchronous writes to shared memory that have started: how they arrive, and count their bytes at mbarriers.

Those of one instruction that arrive at once do so together: they are noted in the history of shared memory by one call,
at one time. That is as if one came after the other, as each of them counts at an mbarrier of its own; where two count
at the same one, they do come so, since a phase may end between them.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.synchronisation.mbarrier import Arrival
from cutegen.emulator.synchronisation.mbarrier_uses import Uses


@dataclass(frozen=True)
class Write:
    """Writes by some lanes of an access, which arrive together at the mbarrier that counts them, as `arrival` says.

    `entries` are the numbers of these lanes among those of the access, which use mbarriers as `uses` says.
    """

    access: SharedAccess
    uses: Uses
    entries: Array
    arrival: Arrival


def send_writes(lanes: Lanes, writes: Sequence[Write]) -> None:
    """Sends writes of one instruction, which have been noted as started in the history: each arrives now or later."""
    mbarriers, log = lanes.team.mbarriers, lanes.shared.log
    assert isinstance(log, SharedHistory)
    for write in writes:
        mbarriers.started(write.arrival.block, write.arrival.offset, write.access.instruction.line)

    def deliver(numbers: Sequence[int]) -> None:
        some = [writes[number] for number in numbers]
        together = len({(write.arrival.block, write.arrival.offset) for write in some}) == len(some)
        for part in [some] if together else [[write] for write in some]:
            for access in _joined(part):
                log.arrive(access)
            mbarriers.arrived([write.arrival for write in part], part[0].access.instruction.line)

    lanes.team.send(len(writes), deliver)


def _joined(writes: Sequence[Write]) -> list[SharedAccess]:
    """The accesses of some writes of one instruction; writes of the same access are joined."""
    found: dict[int, list[Write]] = {}
    for write in writes:
        found.setdefault(id(write.access), []).append(write)
    joined = []
    for some in found.values():
        access, uses = some[0].access, some[0].uses
        if sum(len(write.entries) for write in some) < len(uses.offsets):
            mask = np.zeros(uses.lanes.size, np.bool_)
            mask[uses.places[np.concatenate([write.entries for write in some])]] = True
            access = replace(access, mask=mask.reshape(uses.lanes.shape))
        joined.append(access)
    return joined
