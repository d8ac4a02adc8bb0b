"""The plan of a gemm whose warps have roles: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.families.common.pointwise import PointwisePlan
from cutegen.language.model import Tensor


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
class WarpspecializedPlan(PointwisePlan):
    """A gemm whose first warpgroup loads and whose others multiply."""

    m: str
    n: str
    k: str
    a: Side
    b: Side
    consumers: int  # warpgroups that multiply
    producer_registers: int  # of a thread
    consumer_registers: int
    stage_bytes: int  # that a barrier expects of the loads of one tile
    empty_sum: bool  # whether there may be no tile along k, so that accumulators are cleared
    tile_order: tuple[int, int]  # modes of the output: that of the raster, then the other
    largest: tuple[str, int] | None  # size of the mode across the raster that the grid can count; None if it is less

    @property
    def sides(self) -> tuple[Side, Side]:
        return self.a, self.b
