"""Multicasts: copies to several blocks of a cluster at once, which a mask of 16 bits names by their ranks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_races import SharedAccess
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import spread
from cutegen.emulator.operations.bulk_copies import Lane
from cutegen.emulator.operations.operands import Getter, getter
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Operand, Register
from cutegen.emulator.ptx.types import TYPES
from cutegen.emulator.synchronisation.bulk_groups import single
from cutegen.emulator.synchronisation.mbarrier_uses import Uses


@dataclass(frozen=True)
class Multicast:
    """How to find the mask of the blocks in the lanes' state; `slot` is that of its register, or -1 for a constant."""

    mask: Getter
    slot: int

    def targets(self, lanes: Lanes, lane: Lane, access: SharedAccess, uses: Uses) -> list[tuple[SharedAccess, Uses]]:
        """Where a lane's copy writes in each block, and the mbarrier there, both where they are in the block given.

        Raises Stop for a block that is not there, or may not be there.
        """
        instruction, here = access.instruction, single(lane, lanes.shape)
        found = self.mask(lanes)
        if self.slot in lanes.poison:
            lanes.refuse(lanes.poison[self.slot], here, "the mask of a multicast", instruction)
        mask, size = int(spread(found, lanes.shape)[lane]), lanes.team.size
        ranks = [rank for rank in range(16) if mask >> rank & 1]
        if not ranks or ranks[-1] >= size:
            named = f"the block of rank {ranks[-1]}" if ranks else "no block"
            text = f"the mask {mask:#x} of a multicast names {named}: the cluster has {size} blocks"
            raise Stop("cluster", text, instruction, lane)
        targets = []
        for rank in ranks:
            columns = np.full((1, 1), lane[1] // size * size + rank)
            lanes.team.visit(here, columns, instruction, counted=True)
            there = Uses(uses.lanes, uses.offsets, columns[0], instruction)
            targets.append((replace(access, columns=columns), there))
        return targets


def read_multicast(reader: InstructionReader, operand: Operand, slots: Mapping[str, int]) -> Multicast:
    """An operand as the mask of a multicast."""
    source = reader.source(operand, TYPES["u16"])
    slot = slots[source.name] if isinstance(source, Register) else -1
    return Multicast(getter(source, 16, slots, {}, reader.instruction), slot)
