"""A and B of tcgen05.mma as the tensor core of a block reads them, from shared memory or tensor memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.shared_history import SharedHistory
from cutegen.emulator.checks.tensor_history import GROUP, Touch
from cutegen.emulator.checks.touches import Touches
from cutegen.emulator.memory.tensor_memory import EMPTY, LANES, UNDEFINED
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.product_reads import unwritten_rows
from cutegen.emulator.warps.shared_matrices import DescriptorError, Places, tensor_core_places
from cutegen.emulator.warps.tensor_places import product_places
from cutegen.emulator.warps.tensor_product_types import DEPTH_BYTES, ProductShape, elements

Lane = tuple[int, int]
_PARTS: dict[int, type[np.unsignedinteger[Any]]] = {1: np.uint8, 2: np.uint16, 4: np.uint32}
_COLUMNS = DEPTH_BYTES // 4  # that a row has in tensor memory
_NOTHING: Array = np.zeros(0, np.int64)


@dataclass(frozen=True)
class Factor:
    """Some rows of A or B, shape (rows, depth), as float64.

    `lost` says which rows have something that was never written, None where there are none. `cells` are the units of
    shared memory that they lie in, over all blocks.
    """

    values: Array
    lost: Array | None
    cells: Array

    def beside(self, other: Factor) -> Factor:
        """These rows, and behind them those of another block."""
        lost = None
        if self.lost is not None or other.lost is not None:
            each = [np.zeros(len(one.values), np.bool_) if one.lost is None else one.lost for one in (self, other)]
            lost = np.concatenate(each)
        values, cells = [self.values, other.values], [self.cells, other.cells]
        return Factor(np.concatenate(values), lost, np.concatenate(cells))


def shared_factor(
    lanes: Lanes, lane: Lane, block: int, bits: int, shape: ProductShape, side: int, instruction: Instruction
) -> Factor:
    """The rows of A (side 0) or B (side 1) in a block's shared memory, where a descriptor tells, for a lane's product.

    Raises Stop for what may not be read yet, and DescriptorError.
    """
    itemsize, size = shape.itemsizes[side], shape.rows_of_block(side)
    places = tensor_core_places(bits, size, DEPTH_BYTES // itemsize, itemsize, shape.transposed[side])
    raw, lost, cells = read_pieces(lanes, lane, block, places, itemsize, instruction)
    return Factor(elements(raw, shape.types[side]), lost, cells)


def read_pieces(
    lanes: Lanes, lane: Lane, block: int, places: Places, itemsize: int, instruction: Instruction
) -> tuple[Array, Array | None, Array]:
    """The parts of `itemsize` bytes at places in a block's shared memory, which an operation of a lane is to read.

    Returns with them which rows have something that was never written, None where there are none, and the units over
    all blocks. Raises Stop for what may not be read yet.
    """
    lost = unwritten_rows(lanes, places, lane, block, itemsize, instruction)
    memory, clocks, log = lanes.shared, lanes.team.clocks, lanes.shared.log
    assert isinstance(log, SharedHistory)
    rows = places.rows(memory.unit)
    ones = np.ones(len(rows), np.int64)
    cluster, member = ones * clocks.cluster[lane], ones * clocks.member[lane]
    touches = Touches(rows, ones * block, cluster, member, lanes.shape[1])
    log.check_gather(instruction, touches)
    return memory.data[rows, block].view(_PARTS[itemsize])[places.where // itemsize], lost, touches.cells


def factor_in_cells(
    lanes: Lanes, lane: Lane, block: int, address: int, shape: ProductShape, instruction: Instruction
) -> Factor:
    """The rows of A in a block's tensor memory, each in the lane of that row of D, with 32 bytes of its depth.

    Raises as `shared_factor` does.
    """
    if shape.halved:
        raise DescriptorError("M is 128 for a pair of blocks, with A in tensor memory, which is not emulated")
    memory, rows = lanes.team.tensor_memory, shape.rows_of_block(0)
    places = product_places(rows, _COLUMNS, halved=False)
    row, column = address >> 16, address & 0xFFFF
    if shape.transposed[0] or row not in ((0,) if rows == LANES else (0, GROUP)):
        text = f"A of {rows} rows{', MN-major,' * shape.transposed[0]} at lane {row} of tensor memory"
        raise Stop("misaligned", text, instruction, lane)
    touch = Touch(instruction, lane, lanes.team.issued.agent(lane), "reads")
    part = memory.part(block, places.groups + row // GROUP, places.every_column + column, touch)
    memory.history.check_read(touch, part)
    memory.history.note_read(touch, part)
    where = block, places.lanes + row, places.columns + column
    state = memory.state[where]
    if has_any(state == EMPTY):
        raise Stop("never-written", "A in tensor memory was never written", instruction, lane)
    lost = (state == UNDEFINED).any(axis=1)
    raw = np.ascontiguousarray(memory.data[where]).view(_PARTS[shape.itemsizes[0]])
    return Factor(elements(raw, shape.types[0]), lost if has_any(lost) else None, _NOTHING)
