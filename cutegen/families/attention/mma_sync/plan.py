"""The plan of a contraction on the tensor cores of single warps: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.attention.plan import WalkingPlan
from cutegen.language.model import Tensor


MERGE_VECTOR = 4  # columns of a thread that merges parts: 16 bytes of a workspace


@dataclass(frozen=True)
class Operand:
    """A tensor that is multiplied, on its way to the registers of warps: rows of `depth` contiguous elements."""

    tensor: Tensor
    row: str  # the mode of its rows in a tile
    depth_mode: str
    rows: int  # of a tile
    depth: int
    stages: int
    swizzle: int  # bytes of a row of shared memory, over which runs of 16 exchange their places
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
class AttentionPlan(WalkingPlan):
    """Warps have 16 rows of a tile each, or several times as many."""

    warps: int
    q: Operand
    k: Operand
    v: Operand
    o: Operand  # the tile of the output with columns, which takes the place of the others in shared memory
    keeps_left: bool  # whether the fragments of the left tensor stay in registers
    parts: int = 1  # blocks that share the walk of a tile of rows

    @property
    def given(self) -> int:
        """Numbers that a part of a walk gives for a row: the sums, and what is carried for the row, in whole vectors."""
        return self.columns + -(-len(self.walked.of_rows) // MERGE_VECTOR) * MERGE_VECTOR

    @property
    def rows_of_thread(self) -> int:
        """Rows of the tile that a thread has a part of."""
        return self.row_block // (16 * self.warps) * 2
