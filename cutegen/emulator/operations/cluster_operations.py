"""barrier.cluster.arrive, bar.arrive, griddepcontrol and fences, as operations on the lanes' state."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import WARP, Mask, first_lane
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction


def cluster_arrival(reader: InstructionReader) -> Operation:
    """The operation of barrier.cluster.arrive, whose first two modifiers have been taken.

    Without `.aligned` the threads of a warp may come one by one. A `.relaxed` arrival orders no memory.
    """
    instruction = reader.instruction
    relaxed = reader.choice("release", "relaxed", default="release") == "relaxed"
    aligned = reader.flag("aligned")
    reader.operands(0)

    def arrive(lanes: Lanes, mask: Mask) -> None:
        here = whole(lanes.active(mask), lanes.shape)
        if aligned:
            check_aligned(lanes, here, instruction)
        lanes.team.cluster_barriers.arrive(here, instruction, relaxed=relaxed)

    return arrive


def check_aligned(lanes: Lanes, here: Array, instruction: Instruction) -> None:
    """Raises Stop unless all threads of each warp that have not exited are in the mask `here`, or none is.

    Those that have exited after work of their own are not excused (`Lanes.left`).
    """
    threads, blocks = lanes.shape
    rows = -(-threads // WARP) * WARP
    present = np.zeros((rows, blocks), np.bool_)
    present[:threads] = here
    some = present.reshape(-1, WARP, blocks).any(axis=1)
    there = lanes.team.alive if lanes.left is None else lanes.team.alive | lanes.left
    missing = np.repeat(some, WARP, axis=0)[:threads] & there & ~here
    if has_any(missing):
        text = f"{instruction.name} needs all threads of a warp, but this one is not there with the others"
        raise Stop("barrier", text, instruction, first_lane(missing, lanes.shape))


def is_aligned(instruction: Instruction) -> bool:
    """Whether the threads of a warp must come together to a barrier of a block: `bar` is `barrier` with `.aligned`."""
    return instruction.opcode == "bar" or "aligned" in instruction.modifiers


def block_arrival(instruction: Instruction, number: int, count: int) -> Operation:
    """The operation of bar.arrive: it comes to a barrier that expects `count` threads, and does not wait."""

    def arrive(lanes: Lanes, mask: Mask) -> None:
        team = lanes.team
        here = whole(lanes.active(mask), lanes.shape)
        if is_aligned(instruction):
            check_aligned(lanes, here, instruction)
        team.block_barriers.arrive(number, count, here, team.alive, instruction, waits=False)

    return arrive


def dependency_control(instruction: Instruction) -> Operation:
    """The operation of griddepcontrol.wait, or of launch_dependents, which does nothing.

    The grids ahead in the stream have ended; but that they have is known in a launch that may start earlier only from
    the wait on (`checks.earlier_grids`).
    """
    reader = InstructionReader(instruction)
    what = reader.choice("launch_dependents", "wait")
    reader.operands(0)

    def control(lanes: Lanes, mask: Mask) -> None:
        if what == "wait" and lanes.access.earlier is not None:
            lanes.access.earlier.wait(whole(lanes.active(mask), lanes.shape))

    return control


def fence_operation(instruction: Instruction) -> Operation:
    """The operation of fence.acq_rel.cluster, or wider, fence.mbarrier_init, or fence.proxy.async.

    Raises UnsupportedInstruction for other fences.
    """
    reader = InstructionReader(instruction)
    if reader.leads("mbarrier_init"):
        if reader.left != ["release", "cluster"] or instruction.operands:
            reader.fail("this form")
        return lambda lanes, mask: lanes.team.mbarriers.publish(whole(lanes.active(mask), lanes.shape))
    if reader.leads("proxy"):
        if not reader.leads("async"):
            reader.fail("this proxy")
        space = reader.choice("shared::cta", "shared::cluster", "global", default="")
        reader.operands(0)
        if space == "global":  # nothing that is emulated reads global memory that the kernel writes by the async proxy
            return lambda lanes, mask: None
        return lambda lanes, mask: lanes.team.clocks.fence_proxies(whole(lanes.active(mask), lanes.shape))
    if not reader.leads("acq_rel"):
        reader.fail("this fence")
    reader.choice("cluster", "gpu", "sys")
    reader.operands(0)
    return lambda lanes, mask: lanes.team.clocks.fence(whole(lanes.active(mask), lanes.shape))
