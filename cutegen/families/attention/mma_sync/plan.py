"""The plan of a contraction on the tensor cores of single warps: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.language.model import Tensor
from cutegen.ops.reach import Bound
from cutegen.ops.walked import Walked
from cutegen.planning.plan import Plan


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
class AttentionPlan(Plan):
    """A block takes a tile of rows of one combination of the `outer` modes, and walks tiles of the walked mode."""

    walked: Walked
    stages: int
    warps: int
    q: Operand
    k: Operand
    v: Operand
    o: Operand  # the tile of the output with columns, which takes the place of the others in shared memory
    outer: tuple[str, ...]  # modes of which a block has one place: the last varies fastest from block to block
    bounds: tuple[Bound, ...]  # of the walked tiles
    masked: (
        str | None
    )  # the element statement that is made minus infinity beyond the end; None: each term is made neutral
    whole: bool  # whether the walked mode ends with a tile
    keeps_left: bool  # whether the fragments of the left tensor stay in registers

    @property
    def steps(self) -> int:
        """Products of a tile of scores along the summed mode."""
        return self.q.depth // 16

    @property
    def outer_steps(self) -> int:
        """Products of a tile along the walked mode."""
        return self.k.rows // 16

    @property
    def rows_of_thread(self) -> int:
        """Rows of the tile that a thread has a part of."""
        return self.q.rows // (16 * self.warps) * 2
