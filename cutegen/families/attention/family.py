"""The answers that the families of contractions have in common, for warps and for warpgroups that multiply."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from math import prod
from typing import TYPE_CHECKING, Any, TypeVar

from cutegen.atoms.gpus import TENSOR_16, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.families.attention.plan import WalkingPlan
from cutegen.families.common.pointwise_text import templates
from cutegen.family import Family
from cutegen.language.model import KernelSpec, Schedule
from cutegen.ops.contract import CONTRACT

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.verification.case_request import CaseRequest

S = TypeVar("S", bound=Schedule)
P = TypeVar("P", bound=WalkingPlan[Any])


class WalkingFamily(Family[S, P]):
    """A block takes a tile of rows, and walks the tiles of what they are multiplied with, with an online softmax."""

    op = CONTRACT
    packs = False  # whether the rows of a tile may have several modes

    @property
    def templates(self) -> Mapping[str, Traversable]:
        own = {"attention": files("cutegen.families.attention") / "templates"}
        return {**super().templates, **templates(), **own}

    def check_schedule(self, ctx: Context, schedule: S, tensors: Mapping[str, Tensor], compute: Compute | None) -> None:
        from cutegen.families.attention.reading import check_tiler

        check_tiler(ctx, getattr(schedule, "tiler", None), tensors, compute, self.packs)

    def blocks(self, plan: P, sizes: Mapping[str, int]) -> int:
        tiles = -(-prod(sizes[mode] for mode in plan.row_modes) // plan.row_block)
        return tiles * prod(sizes[mode] for mode in plan.outer)

    def largest(self, plan: P, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.common.raster import counted_sizes

        tile = {plan.rows_mode: plan.row_block, **dict.fromkeys(plan.outer, 1)}
        return counted_sizes(2**31 - 1, tile, beside)

    def arithmetic(self, spec: KernelSpec[Any]) -> Arithmetic:
        return TENSOR_16

    def accumulator(self, spec: KernelSpec[Any]) -> Dtype | None:
        return Dtype.f32

    def requests(self, plan: P, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.attention.cases import requests

        return requests(plan, tiles)
