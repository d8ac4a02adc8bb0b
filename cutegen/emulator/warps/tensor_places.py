"""Which cell of tensor memory each register of a tcgen05.ld or st has, and each element of a product.

PTX ISA 9.1, sections 9.7.16.2.3, 9.7.16.8 and 9.7.16.10.5. Its layouts are figures; the formulas give what CuTe's
layouts of the same copies and accumulators give.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.checks.tensor_history import GROUP
from cutegen.emulator.lanes import WARP

SHAPES = {"32x32b": (1, 128), "16x64b": (1, 128), "16x128b": (2, 64), "16x256b": (4, 32), "16x32bx2": (1, 128)}
"""The shape of a move -> the registers of each repetition, and the most repetitions."""


@dataclass(frozen=True, eq=False)
class CellPlaces:
    """Cells of tensor memory, counted from an address: the lane and the column of each, in arrays of one shape, and the
    groups of 16 lanes and the columns that these are, as `TensorPart` has them.
    """

    lanes: Array
    columns: Array
    groups: Array
    every_column: Array

    @classmethod
    def of(cls, lanes: Array, columns: Array) -> CellPlaces:
        """The cells in lanes and columns that broadcast to one shape; all columns are in all groups of lanes."""
        lanes, columns = np.broadcast_arrays(lanes, columns)
        return cls(lanes, columns, np.unique(lanes // GROUP)[:, None], np.unique(columns)[None, :])


@lru_cache(maxsize=256)
def move_places(shape: str, count: int, offset: int, step: int) -> CellPlaces:
    """The cell of each register of each thread, shape (registers, 32), of a tcgen05.ld or st of that shape, repeated
    `count` times.

    `offset` is the number of columns from the first half's to the second half's of 16x32bx2, and `step` that of columns
    which a register has.
    """
    thread, register = np.arange(WARP)[None, :], np.arange(SHAPES[shape][0] * count)[:, None]
    if shape == "32x32b":
        lanes, columns = thread, register
    elif shape == "16x64b":
        lanes, columns = thread // 4 + 8 * (thread % 2), thread // 2 % 2 + 2 * register
    elif shape == "16x128b":
        lanes, columns = thread // 4 + 8 * (register % 2), thread % 4 + 4 * (register // 2)
    elif shape == "16x256b":
        lanes = thread // 4 + 8 * (register // 2 % 2)
        columns = 2 * (thread % 4) + register % 2 + 8 * (register // 4)
    else:
        lanes, columns = thread % 16, register + offset * (thread // 16)
    return CellPlaces.of(lanes, columns * step)


@lru_cache(maxsize=64)
def product_places(rows: int, columns: int, *, halved: bool) -> CellPlaces:
    """The cell of each element of the rows of D that one block has, shape (rows, columns); rows of A lie likewise.

    Of 64 rows, 16 are in every second group of 16 lanes; or, if D is `halved`, its second half of columns is in the
    second half of the lanes.
    """
    row, column = np.arange(rows)[:, None], np.arange(columns)[None, :]
    if halved:
        return CellPlaces.of(row + rows * (column // (columns // 2)), column % (columns // 2))
    return CellPlaces.of(row if rows == 128 else row // GROUP * 2 * GROUP + row % GROUP, column)
