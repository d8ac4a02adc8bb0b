"""The plan of a contraction on the tensor cores of single warps: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.attention.operands import UNIT
from cutegen.families.attention.plan import WalkingPlan
from cutegen.language.model import Tensor

ROWS_OF_WARP = 16
MERGE_VECTOR = 4  # columns of a thread that merges parts: 16 bytes of a workspace


def shared_keys(rows: int, warps: int) -> int:
    """How many warps share the elements of a tile along the walked mode: all, if some would have no rows, else 1."""
    return warps if rows < ROWS_OF_WARP * warps else 1


def given_numbers(columns: int, carried: int) -> int:
    """Numbers that a part of a walk gives for a row: the sums, and what is carried for the row, in whole vectors."""
    return columns + -(-carried // MERGE_VECTOR) * MERGE_VECTOR


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
    def q(self) -> Operand:
        """The only tensor on the left, of a plan whose tiles come `by_turns`."""
        (found,) = self.lefts
        return found

    @property
    def k(self) -> Operand:
        """The tensor that it is multiplied with."""
        (found,) = self.pairs
        return found.right

    @property
    def v(self) -> Operand:
        """The tensor that is multiplied with what is computed of the scores."""
        (found,) = self.outers
        return found.values

    @property
    def o(self) -> Operand:
        """The only output with columns."""
        (found,) = self.outputs
        return found

    @property
    def shares_out(self) -> bool:
        """Whether blocks take the tiles of rows of several places together, as walks have different lengths."""
        return not self.by_turns and super().shares_out

    @property
    def loaded(self) -> tuple[Operand, ...]:
        """The tensors whose tiles are copied to shared memory."""
        return (*self.lefts, *self.rights)

    @property
    def rows_of_thread(self) -> int:
        """Rows of the tile that a thread has a part of."""
        return self.row_block // (ROWS_OF_WARP * self.row_warps) * 2
