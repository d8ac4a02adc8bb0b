"""tcgen05.commit: an mbarrier's arrival once all that a thread has issued to tensor cores so far has ended."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

import numpy as np

from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.operations.mbarrier_operations import SharedOperand, read_mbarrier
from cutegen.emulator.operations.operands import Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.warps.thread_operands import read_group


def commitment(reader: InstructionReader, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of tcgen05.commit, whose first modifier has been taken.

    Raises UnsupportedInstruction for pairs of blocks and multicasts.
    """
    read_group(reader)
    reader.choice("mbarrier::arrive::one")
    space = reader.choice("shared::cluster", "shared::cta", default="")
    reader.type("b64")
    (operand,) = reader.operands(1)
    where = replace(read_mbarrier(reader, operand, space, slots, places), counted=True)

    def commit(lanes: Lanes, mask: Mask) -> None:
        for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
            _commit(where, lanes, (thread, block))

    return commit


def _commit(where: SharedOperand, lanes: Lanes, lane: tuple[int, int]) -> None:
    """Sends the arrival of one lane's commit. What the lane issues later does not have to end for it."""
    team, log, here = lanes.team, lanes.shared.log, single(lane, lanes.shape)
    assert isinstance(log, SharedHistory)
    uses = where.uses(lanes, here)
    team.mbarriers.check(uses)
    agent, operations = team.issued.agent(lane), team.issued.tracked(lane)
    until = team.clocks.tick()
    told = team.clocks.told(here).of_agent(agent, until)

    def deliver(numbers: Sequence[int]) -> None:
        team.issued.end(agent, operations, log)
        team.clocks.tick()
        team.mbarriers.arrive_late(uses, told)

    team.send(1, deliver)
