"""setmaxnreg: how many registers a warp of a warpgroup may have from here on."""

from __future__ import annotations

import numpy as np

from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask, spread
from cutegen.emulator.operations.operands import Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Immediate, Instruction
from cutegen.emulator.warps.by_warp import check_whole_warps

_LEAST, _MOST, _STEP = 24, 256, 8
_ALL = np.ones((1, 1), np.bool_)


def register_budget(instruction: Instruction) -> Operation:
    """The operation of setmaxnreg. Raises UnsupportedInstruction for forms and numbers that PTX does not have."""
    reader = InstructionReader(instruction)
    reader.choice("inc", "dec")
    reader.type("u32")
    if not reader.leads("sync") or not reader.leads("aligned"):
        reader.fail("only .sync.aligned")
    (count,) = reader.operands(1)
    if not isinstance(count, Immediate) or count.width is not None or count.bits not in range(_LEAST, _MOST + 1, _STEP):
        reader.fail(f"a multiple of {_STEP} from {_LEAST} to {_MOST} was expected")
    share = count.bits

    def take(lanes: Lanes, mask: Mask) -> None:
        check_whole_warps(lanes, mask, instruction)
        active = lanes.active(mask)
        lanes.team.registers.share(spread(_ALL if active is None else active, lanes.shape), share, instruction)

    return take
