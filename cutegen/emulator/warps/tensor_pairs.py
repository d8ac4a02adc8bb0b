"""Pairs of blocks, for which tcgen05 instructions with cta_group::2 work: blocks of a cluster whose ranks are 2 i and
2 i + 1.
"""

from __future__ import annotations

import numpy as np

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.synchronisation.bulk_groups import single


def read_group(reader: InstructionReader) -> int:
    """Takes the modifier that says for how many blocks an instruction works, and returns their number."""
    return int(reader.choice("cta_group::1", "cta_group::2")[-1])


def blocks_of(
    lanes: Lanes, lane: tuple[int, int], group: int, instruction: Instruction, *, leaves: bool = False
) -> list[int]:
    """The blocks, by their numbers in the batch, for which an instruction of a lane works, the even one first.

    Raises Stop for a block that has no peer, or one that is not known to run or has exited, and if other instructions
    of tcgen05 have worked for another number of blocks. One that `leaves` the pair may come after its peer's exit.
    """
    team = lanes.team
    before = team.tensor_memory.group
    if before not in (0, group):
        text = f"{instruction.name}: instructions of the kernel before it have cta_group::{before}"
        raise Stop("tcgen05", text, instruction, lane)
    team.tensor_memory.group = group
    if group == 1:
        return [lane[1]]
    if team.size % 2:
        text = f"{instruction.name} works for a pair of blocks, and the cluster has {team.size}"
        raise Stop("cluster", text, instruction, lane)
    if not leaves:
        team.visit(single(lane, lanes.shape), np.full((1, 1), lane[1] ^ 1), instruction, counted=True)
    return [lane[1] & ~1, lane[1] | 1]
