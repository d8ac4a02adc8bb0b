"""Barriers of a block whose number is in a register: bar.sync and bar.arrive, which count their threads."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.lanes import WARP, Mask, first_lane, in_warps, spread
from cutegen.emulator.operations.cluster_operations import check_aligned, is_aligned
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.waits import BlockWait, barrier_changes
from cutegen.emulator.ptx.model import Instruction

BARRIERS = 16
"""Of a block."""


@dataclass(frozen=True)
class NumberedWait:
    """bar.sync or barrier.sync of the barrier whose number is in the register `slot`; it expects `count` threads."""

    slot: int
    count: int
    instruction: Instruction

    def come(self, lanes: Lanes, mask: Array) -> Array:
        """Lets the lanes come to it. Raises Stop for a fault."""
        for number in check_numbers(lanes, self.slot, mask, self.instruction):
            self._barrier(number).come(lanes, mask & (lanes.get(self.slot) == number))
        return np.zeros_like(mask)

    def open_for(self, lanes: Lanes, mask: Array) -> Array:
        """The lanes whose barrier has opened. Raises Stop for a fault."""
        through = np.zeros_like(mask)
        for number, part in self._parts(lanes, mask):
            through |= self._barrier(number).open_for(lanes, part)
        return through

    def changes(self, lanes: Lanes, blocks: Array) -> int:
        """How often barriers have opened, or lanes have exited."""
        return barrier_changes(lanes)

    def give_up(self, lanes: Lanes, mask: Array) -> bool:
        """No lane goes on before it opens."""
        return False

    def hang(self, lanes: Lanes, mask: Array) -> Stop:
        """The fault that a barrier does not open."""
        number, part = self._parts(lanes, mask)[0]
        return self._barrier(number).hang(lanes, part)

    def _barrier(self, number: int) -> BlockWait:
        return BlockWait(number, self.count, self.instruction)

    def _parts(self, lanes: Lanes, mask: Array) -> list[tuple[int, Array]]:
        """The lanes of a mask by the number of the barrier at which they are."""
        numbers = spread(lanes.get(self.slot), lanes.shape)
        return [(number, mask & (numbers == number)) for number in np.unique(numbers[mask]).tolist()]


def numbered_arrival(instruction: Instruction, slot: int, count: int) -> Operation:
    """The operation of bar.arrive at the barrier whose number is in a register; it expects `count` threads."""

    def arrive(lanes: Lanes, mask: Mask) -> None:
        team = lanes.team
        here = whole(lanes.active(mask), lanes.shape)
        if is_aligned(instruction):
            check_aligned(lanes, here, instruction)
        for number in check_numbers(lanes, slot, here, instruction):
            part = here & (lanes.get(slot) == number)
            team.block_barriers.arrive(number, count, part, team.alive, instruction, waits=False)

    return arrive


def check_numbers(lanes: Lanes, slot: int, mask: Array, instruction: Instruction) -> list[int]:
    """The numbers of barriers that the lanes of a mask have in a register.

    Raises Stop for what is no such number, or was never written, and for a warp whose lanes have different ones.
    """
    numbers = spread(lanes.get(slot), lanes.shape)
    if slot in lanes.poison:
        lanes.refuse(lanes.poison[slot], mask, "the number of a barrier", instruction)
    if has_any(bad := mask & (numbers >= BARRIERS)):
        lane = first_lane(bad, lanes.shape)
        raise Stop("barrier", f"barrier {int(numbers[lane])} of 0 to {BARRIERS - 1}", instruction, lane)
    here, found = in_warps(mask), in_warps(numbers.astype(np.int64))
    if has_any(bad := here & (found != np.where(here, found, -1).max(axis=1, keepdims=True))):
        warp = int(bad.any(axis=(1, 2)).argmax())
        thread, block = first_lane(bad[warp], bad[warp].shape)
        text = "the threads of a warp come to barriers of different numbers"
        raise Stop("barrier", text, instruction, (warp * WARP + thread, block))
    return [int(number) for number in np.unique(numbers[mask])]
