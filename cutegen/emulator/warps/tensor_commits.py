"""tcgen05.commit: an mbarrier's arrival once all that a thread has issued to tensor cores so far has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.multicasts import Multicast, read_multicast
from cutegen.emulator.operations.operands import Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.warps.tensor_pairs import blocks_of, read_group


@dataclass(frozen=True)
class Commit:
    """A commit for so many blocks as `group` says, to the mbarrier at `where`; of a `multicast`, at that place in each
    block that its mask names.
    """

    where: SharedOperand
    group: int
    multicast: Multicast | None

    def __call__(self, lanes: Lanes, mask: Mask) -> None:
        for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
            self._commit(lanes, (thread, block))

    def _commit(self, lanes: Lanes, lane: tuple[int, int]) -> None:
        """Sends the arrivals of one lane's commit. What the lane issues later does not have to end for them."""
        team, log, here = lanes.team, lanes.shared.log, single(lane, lanes.shape)
        assert isinstance(log, SharedHistory)
        blocks_of(lanes, lane, self.group, self.where.instruction)
        access, uses = self.where.access_and_uses(lanes, here)
        arrivals = [uses]
        if self.multicast is not None:
            arrivals = [one for _, one in self.multicast.targets(lanes, lane, access, uses)]
        for one in arrivals:
            team.mbarriers.check(one)
        agent, operations = team.issued.agent(lane), team.issued.tracked(lane)
        until = team.clocks.tick()
        told = team.clocks.told(here).of_agent(agent, until)

        def deliver(numbers: Sequence[int]) -> None:
            team.issued.end(agent, operations, log)
            team.clocks.tick()
            for number in numbers:
                team.mbarriers.arrive_late(arrivals[number], told)

        team.send(len(arrivals), deliver)


def commitment(reader: InstructionReader, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of tcgen05.commit, whose first modifier has been taken."""
    group = read_group(reader)
    reader.choice("mbarrier::arrive::one")
    space = reader.choice("shared::cluster", "shared::cta", default="")
    several = reader.flag("multicast::cluster")
    reader.type("b64")
    operand, *mask = reader.operands(1 + several)
    where = replace(read_mbarrier(reader, operand, space, slots, places), counted=True)
    return Commit(where, group, read_multicast(reader, mask[0], slots) if several else None)
