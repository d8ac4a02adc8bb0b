"""The plan of a row kernel: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.common.pointwise import Operand
from cutegen.families.rowwise.program import Program
from cutegen.families.rowwise.schedule import Keep
from cutegen.planning.plan import Plan

COLUMN_WARPS = 8  # of a block that adds up what all blocks have of 32 columns


@dataclass(frozen=True, kw_only=True)
class RowwisePlan(Plan):
    """A row kernel: which rows a block has, how their threads share them, and what they compute in which walk."""

    row: str  # the mode of the rows
    beside: str | None  # the mode along which a block has several rows
    keep: Keep
    tiler: tuple[int, ...]  # of the lead's modes
    rows: int  # of a block
    threads_per_row: int
    values: int  # of a row that a thread holds at a time
    vector: int  # values of one access, that share a predicate
    tv_layout: Layout  # (thread, value) to a place of the tile, first mode fastest
    operands: tuple[Operand, ...]  # the tensors along the rows
    row_tensors: tuple[str, ...]  # those that are read and do not lie along the rows
    masked: tuple[str, ...]
    tile_order: tuple[int, ...]  # modes but the row's, in the order in which blocks walk them
    program: Program
    blocks: int | None  # that walk all tiles; None: one for each tile
    most_tiles: int | None  # that 32 bits can count; None if the sizes are fixed, and fewer

    @property
    def walked(self) -> bool:
        """Whether a row is walked in pieces."""
        return self.keep != "registers"

    @property
    def persistent(self) -> bool:
        """Whether a block walks several tiles of rows."""
        return self.blocks is not None

    @property
    def warps_per_row(self) -> int:
        return -(-self.threads_per_row // 32)
