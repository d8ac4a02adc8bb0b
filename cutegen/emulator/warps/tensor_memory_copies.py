"""tcgen05.cp: copies from shared to tensor memory, which one thread starts for its block or a pair of blocks.

PTX ISA 9.1, section 9.7.16.9.2. The source has rows of 16 or 32 bytes, which lie as those of a K-major matrix do. Each
block of a pair copies its own shared memory.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.clocks import whole
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.tensor_history import GROUP, Touch
from cutegen.emulator.instructions.reader import InstructionReader
from cutegen.emulator.lanes import Mask
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_memory import UNDEFINED, WRITTEN
from cutegen.emulator.operations.operands import Note, Operation
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.shared_matrices import DescriptorError, tensor_core_places
from cutegen.emulator.warps.tensor_factors import read_pieces
from cutegen.emulator.warps.tensor_pairs import blocks_of, read_group
from cutegen.emulator.warps.thread_operands import ThreadOperand, read_number_operand, read_tensor_address

_SHAPES = {"128x256b": (128, 32), "128x128b": (128, 16), "32x128b": (32, 16), "64x128b": (64, 16)}
"""The rows of a shape, and the bytes of each."""
_SPREADS = {
    ("128x256b", ""): (0,),
    ("128x128b", ""): (0,),
    ("32x128b", "warpx4"): (0, 32, 64, 96),
    ("64x128b", "warpx2::02_13"): (0, 64),
    ("64x128b", "warpx2::01_23"): (0, 32),
}
"""A shape and how it is spread -> the lanes at which its copies start; of the last, each half of the rows has its own
two quarters of the lanes.
"""


@dataclass(frozen=True)
class TensorCopy:
    """A tcgen05.cp of a shape that is spread so, for so many blocks as `group` says."""

    shape: str
    spread: str
    group: int
    to: ThreadOperand
    source: ThreadOperand
    instruction: Instruction

    def rows_and_lanes(self) -> tuple[Array, Array]:
        """The rows of the source that are copied, and the lanes to which they go; rows come once for each copy."""
        rows = np.arange(_SHAPES[self.shape][0])
        first = rows // 32 * 64 + rows % 32 if self.spread == "warpx2::01_23" else rows
        starts = _SPREADS[self.shape, self.spread]
        return np.tile(rows, len(starts)), np.concatenate([first + start for start in starts])


def tensor_memory_copy(reader: InstructionReader, slots: Mapping[str, int], note: Note) -> Operation:
    """The operation of tcgen05.cp, whose first modifier has been taken.

    Raises UnsupportedInstruction for 4x256b, and formats that are widened on the way.
    """
    group = read_group(reader)
    shape = reader.choice(*_SHAPES)
    spread = reader.choice("warpx4", "warpx2::02_13", "warpx2::01_23", default="")
    if (shape, spread) not in _SPREADS:
        reader.fail("this shape with these warps")
    target, source = reader.operands(2)
    note("shared", PIECE)
    to, matrix = read_tensor_address(reader, target, slots), read_number_operand(reader, source, "b64", slots)
    return partial(_copy, TensorCopy(shape, spread, group, to, matrix, reader.instruction))


def _copy(copy: TensorCopy, lanes: Lanes, mask: Mask) -> None:
    """Starts the copy of each lane of the mask. Raises Stop for a fault."""
    for operand in (copy.to, copy.source):
        operand.check_known(lanes, mask)
    for thread, block in np.argwhere(whole(lanes.active(mask), lanes.shape)).tolist():
        try:
            _start(copy, lanes, (thread, block))
        except DescriptorError as problem:
            text = f"the descriptor of tcgen05.cp: {problem}"
            raise Stop("tcgen05", text, copy.instruction, (thread, block)) from problem


def _start(copy: TensorCopy, lanes: Lanes, lane: tuple[int, int]) -> None:
    """Starts the copy of one lane. Raises Stop for a fault, DescriptorError for the descriptor."""
    team, memory, log = lanes.team, lanes.team.tensor_memory, lanes.shared.log
    assert isinstance(log, SharedHistory)
    height, width = _SHAPES[copy.shape]
    places = tensor_core_places(copy.source.at(lanes, lane), height, width, 1, False)
    rows, to_lanes = copy.rows_and_lanes()
    address = copy.to.at(lanes, lane)
    if address >> 16:
        raise Stop("misaligned", f"a copy to lane {address >> 16} of tensor memory", copy.instruction, lane)
    columns = np.arange(width // 4)[None, :] + (address & 0xFFFF)
    touch = Touch(copy.instruction, lane, team.issued.agent(lane), "writes", pipelined=True)
    groups, touched = np.unique(to_lanes // GROUP)[:, None], []
    blocks = blocks_of(lanes, lane, copy.group, copy.instruction)
    for block in blocks:
        raw, lost, cells = read_pieces(lanes, lane, block, places, 1, copy.instruction)
        part = memory.part(block, groups, columns, touch)
        memory.history.check_write(touch, part)
        where = block, to_lanes[:, None], columns
        memory.data[where] = np.ascontiguousarray(raw[rows]).view("<u4")
        memory.state[where] = WRITTEN if lost is None else np.where(lost[rows], UNDEFINED, WRITTEN)[:, None]
        memory.history.note_write(touch, part)
        touched.append(cells)
    team.issued.begin(lane, blocks, np.unique(np.concatenate(touched)), copy.instruction.line, log)
