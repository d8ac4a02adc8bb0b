"""The plan of a contraction on the tensor cores of single warps: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.attention.operands import UNIT
from cutegen.families.attention.plan import WalkingPlan
from cutegen.language.model import Tensor


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


@dataclass(frozen=True)
class Pair:
    """A product of two tensors with an element for each score: of rows of both, along their depth."""

    name: str  # of what it computes
    left: Operand
    right: Operand
    suffix: str  # of the names of its variables

    @property
    def steps(self) -> int:
        """Products of a tile along the summed mode."""
        return self.left.depth // UNIT


@dataclass(frozen=True)
class Outer:
    """A product along the walked mode of what was computed of the scores with rows of a tensor."""

    name: str  # of the sum
    values: Operand
    suffix: str  # of the names of its variables


@dataclass(frozen=True, kw_only=True)
class AttentionPlan(WalkingPlan):
    """Warps have 16 rows of a tile each, or several times as many."""

    warps: int
    lefts: tuple[Operand, ...]  # whose rows a block keeps
    rights: tuple[Operand, ...]  # of which each tile that is walked has rows
    outputs: tuple[Operand, ...]  # with columns: their tiles take the places of the others in shared memory
    pairs: tuple[Pair, ...]
    outers: tuple[Outer, ...]
    by_turns: bool  # whether the tiles of two tensors come by turns; else those of all come together
    keeps_left: bool  # whether the fragments of the left tensor stay in registers

    @property
    def loaded(self) -> tuple[Operand, ...]:
        """The tensors whose tiles are copied to shared memory."""
        return (*self.lefts, *self.rights)

    @property
    def rows_of_thread(self) -> int:
        """Rows of the tile that a thread has a part of."""
        return self.row_block // (16 * self.warps) * 2
