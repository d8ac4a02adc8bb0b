"""The plan of a contraction that walks one mode, for warps and for warpgroups that multiply."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.ops.reach import Bound
from cutegen.ops.walked import Walked
from cutegen.planning.plan import Plan


@dataclass(frozen=True, kw_only=True)
class WalkingPlan(Plan):
    """A block takes a tile of rows of one combination of the `outer` modes, and walks tiles of the walked mode."""

    walked: Walked
    stages: int
    row_block: int  # rows of a tile
    key_block: int  # elements along the walked mode that are multiplied at a time
    depth: int  # of the summed mode
    columns: int  # of the output's rows
    outer: tuple[str, ...]  # modes of which a block has one place: the last varies fastest from block to block
    bounds: tuple[Bound, ...]  # of the walked tiles
    masked: (
        str | None
    )  # the element statement that is made minus infinity beyond the end; None: each term is made neutral
    whole: bool  # whether the walked mode ends with a tile

    @property
    def rows_mode(self) -> str:
        """The mode of the rows of a tile."""
        return self.walked.rows[0]

    @property
    def steps(self) -> int:
        """Products of a tile of scores along the summed mode."""
        return self.depth // 16

    @property
    def outer_steps(self) -> int:
        """Products of a tile along the walked mode."""
        return self.key_block // 16
