"""Scale factors of block-scaled products, in tensor memory (PTX ISA 9.1, section 9.7.16.10.7).

Row r of A or B has its factors, a byte each, in the cell of lane r % 32 and column r / 32 from an address on. All four
quarters of the lanes have the same copy of them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, has_any
from cutegen.emulator.arithmetic.small_formats import SCALES
from cutegen.emulator.checks.faults import Stop
from cutegen.emulator.checks.tensor_history import GROUP, Touch
from cutegen.emulator.memory.tensor_memory import EMPTY, LANES, UNDEFINED
from cutegen.emulator.operations.state import Lanes
from cutegen.emulator.ptx.model import Instruction
from cutegen.emulator.warps.shared_matrices import DescriptorError
from cutegen.emulator.warps.tensor_factors import Factor

_QUARTER = LANES // 4
_LANES_OF_ADDRESS = 0x3FFF  # the two bits above are the byte of the factors, which the instruction descriptor repeats
_GROUPS = np.arange(LANES // GROUP)[:, None]


@dataclass(frozen=True)
class ScaleShape:
    """The factors of a product: `count` for each row, of the type `kind`.

    They begin at the bytes `first` of A's and of B's cells.
    """

    count: int
    kind: str
    first: tuple[int, int]


def read_scales(bits: int, kind: str, count: int) -> ScaleShape:
    """The factors that the instruction descriptor of a block-scaled product tells of. Raises DescriptorError."""
    first = bits >> 29 & 3, bits >> 4 & 3
    of_bytes = bool(bits >> 23 & 1)
    if not of_bytes and kind != "mxf4nvf4":
        raise DescriptorError(f"factors of ue4m3, where kind::{kind} has ue8m0")
    if of_bytes and count == 4:
        raise DescriptorError("factors of ue8m0 for each 16 elements, which have ue4m3")
    if any(one % count for one in first):
        raise DescriptorError(f"factors from bytes {first[0]} and {first[1]} of their cells, with {count} for each row")
    return ScaleShape(count, "ue8m0" if of_bytes else "ue4m3", first)


def scaled(
    lanes: Lanes,
    lane: tuple[int, int],
    block: int,
    factor: Factor,
    address: int,
    side: int,
    scales: ScaleShape,
    instruction: Instruction,
) -> Factor:
    """Rows of A (side 0) or B (side 1) times their factors, which a block has at an address of tensor memory.

    Raises Stop for factors that may not be read yet, or differ between the quarters of the lanes.
    """
    memory, rows = lanes.team.tensor_memory, len(factor.values)
    row, column = address >> 16 & _LANES_OF_ADDRESS, address & 0xFFFF
    if row % _QUARTER:
        raise Stop("misaligned", f"scale factors at lane {row} of tensor memory", instruction, lane)
    columns = np.arange(-(-rows // _QUARTER))
    touch = Touch(instruction, lane, lanes.team.issued.agent(lane), "reads", pipelined=True)
    part = memory.part(block, _GROUPS, columns[None, :] + column, touch)
    memory.history.check_read(touch, part)
    memory.history.note_read(touch, part)
    where = slice(int(column), int(column) + len(columns))
    cells = memory.data[block, :, where].reshape(4, _QUARTER, -1).transpose(0, 2, 1).reshape(4, -1)[:, :rows]
    state = memory.state[block, :, where].reshape(4, _QUARTER, -1).transpose(0, 2, 1).reshape(4, -1)[:, :rows]
    name = "AB"[side]
    if has_any(state == EMPTY):
        quarter = int((state == EMPTY).any(axis=1).argmax())
        text = (
            f"scale factors of {name} in lanes {quarter * _QUARTER} to {quarter * _QUARTER + _QUARTER - 1} of tensor "
        )
        raise Stop("never-written", f"{text}memory were never written", instruction, lane)
    shift = 8 * (scales.first[side] + np.arange(scales.count))
    factors = cells[:, :, None] >> shift & 0xFF
    if has_any(factors != factors[:1]):
        text = f"the copies of the scale factors of {name} in the four quarters of the lanes differ"
        raise Stop("tcgen05", text, instruction, lane)
    each = SCALES[scales.kind][factors[0]]
    depth = factor.values.shape[1] // scales.count
    lost = (state == UNDEFINED).any(axis=0)
    if factor.lost is not None:
        lost = lost | factor.lost
    with np.errstate(all="ignore"):
        values: Array = factor.values * np.repeat(each, depth, axis=1)
    return Factor(values, lost if has_any(lost) else None, factor.cells)
