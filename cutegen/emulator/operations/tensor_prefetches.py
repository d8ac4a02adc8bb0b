"""Prefetches of tensor maps, and of boxes of a tensor: they have no effect, but what they name is looked at."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.operations.addresses import read_pointer
from cutegen.emulator.operations.operands import Operation, Places
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.operations.tensor_operands import read_box, read_rank, tensor_map_of
from cutegen.emulator.ptx.model import Instruction


def map_prefetch(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of prefetch.tensormap."""
    reader = InstructionReader(instruction)
    reader.choice("param", "const", default="")
    reader.choice("tensormap")
    pointer = read_pointer(reader, reader.operands(1)[0], "param", slots, places)

    def prefetch(lanes: Lanes, mask: Mask) -> None:
        for thread, block in zip(*np.nonzero(whole(lanes.active(mask), lanes.shape)), strict=True):
            tensor_map_of(lanes, pointer, (int(thread), int(block)), instruction)

    return prefetch


def box_prefetch(instruction: Instruction, slots: Mapping[str, int], places: Places) -> Operation:
    """The operation of cp.async.bulk.prefetch.tensor. Raises UnsupportedInstruction for im2col and gather."""
    reader = InstructionReader(instruction)
    del reader.left[:4]
    rank = read_rank(reader)
    if not reader.leads("L2") or not reader.leads("global"):
        reader.fail("only from global memory to L2")
    reader.choice("tile", default="")
    hinted = reader.flag("L2::cache_hint")
    box = read_box(reader, reader.operands(1 + hinted)[0], rank, slots, places)

    def prefetch(lanes: Lanes, mask: Mask) -> None:
        box.check_known(lanes, mask)
        for thread, block in zip(*np.nonzero(whole(lanes.active(mask), lanes.shape)), strict=True):
            box.at(lanes, (int(thread), int(block)))

    return prefetch
