"""The plan of a contraction on the tensor cores of single warps: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.attention.operands import UNIT
from cutegen.families.attention.plan import Operand, WalkingPlan

ROWS_OF_WARP = 16
MERGE_VECTOR = 4  # columns of a thread that merges parts: 16 bytes of a workspace


def shared_keys(rows: int, warps: int) -> int:
    """How many warps share the elements of a tile along the walked mode: all, if some would have no rows, else 1."""
    return warps if rows < ROWS_OF_WARP * warps else 1


def given_numbers(columns: int, carried: int) -> int:
    """Numbers that a part of a walk gives for a row: the sums, and what is carried for the row, in whole vectors."""
    return columns + -(-carried // MERGE_VECTOR) * MERGE_VECTOR


@dataclass(frozen=True)
class CopiedOperand(Operand):
    """A tensor that is multiplied, on its way to the registers of warps."""

    stages: int
    offset: int  # bytes of shared memory before its stages
    smem_layout: Layout  # (row, place, stage) -> element, before the exchange
    threads: Layout  # of the copy, over the tile
    values: Layout  # of one access
    copies: tuple[int, int, int]  # accesses of one thread: in its values, along rows, along a row

    @property
    def bytes(self) -> int:
        """Bytes of its stages."""
        return self.rows * self.depth * self.stages * self.tensor.dtype.bytes


@dataclass(frozen=True, kw_only=True)
class AttentionPlan(WalkingPlan[CopiedOperand]):
    """Warps have 16 rows of a tile each, or several times as many."""

    warps: int
    keeps_left: bool  # whether the fragments of the left tensor stay in registers
    parts: int = 1  # blocks that share the walk of a tile of rows, at most if it `fills` the GPU
    fills: bool = False  # whether their number follows from the sizes of a call and the GPU

    @property
    def given(self) -> int:
        """Numbers that a part of a walk gives for a row."""
        return given_numbers(self.columns, len(self.walked.of_rows))

    @property
    def key_warps(self) -> int:
        """Warps that share the elements of a tile along the walked mode: all, if there are more than rows for them."""
        return shared_keys(self.row_block, self.warps)

    @property
    def row_warps(self) -> int:
        """Warps that share the rows of a tile."""
        return self.warps // self.key_warps

    @property
    def keys_of_warp(self) -> int:
        """Elements along the walked mode that a warp has of a tile."""
        return self.key_block // self.key_warps

    @property
    def outer_steps(self) -> int:
        return self.keys_of_warp // UNIT

    @property
    def shares_out(self) -> bool:
        """Whether blocks take the tiles of rows of several places together, as walks have different lengths."""
        return not self.by_turns and super().shares_out

    @property
    def rows_of_thread(self) -> int:
        """Rows of the tile that a thread has a part of."""
        return self.row_block // (ROWS_OF_WARP * self.row_warps) * 2
