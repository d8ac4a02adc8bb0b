"""The plan of a gemm on Blackwell's tensor cores: every number and choice that its templates print."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from cutegen.families.common.pointwise import PointwisePlan
from cutegen.language.model import Tensor
from cutegen.planning.row_copies import RowCopies


@dataclass(frozen=True)
class Side:
    """A or B on its way from global memory to the product."""

    tensor: Tensor
    letter: str  # A or B: CuTe's name for it
    mode: str  # M or N, in the spec's own name
    block: int  # extent of the tile along `mode`
    k_major: bool
    swizzle: int  # bytes

    @property
    def majorness(self) -> str:
        """As CuTe names it."""
        return "K" if self.k_major else "MN"


@dataclass(frozen=True, kw_only=True)
class Tcgen05Plan(PointwisePlan):
    """A gemm whose block has one tile: a warp loads, one multiplies, and four store."""

    m: str
    n: str
    k: str
    batch: str | None  # the mode of the batch, of which a block has one matrix
    a: Side
    b: tuple[Side, ...]  # of each product
    columns: int  # of tensor memory, that a block allocates
    stage_bytes: int  # that a barrier expects of the loads of one tile
    empty_sum: bool  # whether there may be no tile along k, so that nothing is in tensor memory
    tile_order: tuple[int, int]  # modes of the output: that along which blocks are numbered along x, then the other
    largest: Mapping[str, int]  # the sizes of the other mode, and of the batch, that a grid counts at most
    padded: Sequence[Tensor]  # that a call copies where they do not stand as tensor maps take them
    row_copies: RowCopies | None

    def has_batch(self, tensor: Tensor) -> bool:
        """Whether a tensor has a matrix for each one of a batch."""
        return self.batch in tensor.shape

    @property
    def sides(self) -> tuple[Side, ...]:
        return self.a, *self.b

    def suffixed(self, name: str, side: Side) -> str:
        """A name that each product has, as that of one of them: with its B's, where there are several."""
        return f"{name}_{side.tensor.name}" if len(self.b) > 1 else name
