"""The base class of the gemm families whose operands travel through stages of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from importlib.resources import files
from typing import TYPE_CHECKING, TypeVar

from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.family import Family
from cutegen.language.model import KernelSpec, Schedule
from cutegen.ops.gemm import GEMM

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.verification.case_request import CaseRequest

S = TypeVar("S", bound=Schedule)
P = TypeVar("P", bound=MultistagePlan)


class StagedFamily(Family[S, P]):
    """One of these families. All of them have one folder of templates and pages."""

    op = GEMM

    @property
    def folder(self) -> Traversable:
        return files("cutegen.families.gemm.staged")

    @property
    def templates(self) -> Mapping[str, Traversable]:
        from cutegen.families.common.pointwise_text import templates

        return {**super().templates, "gemm_staged": self.folder / "templates", **templates()}

    def largest(self, plan: P, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.gemm.staged.tile_walk import largest

        return largest(plan, beside)

    def covered(self, plan: P) -> dict[str, int]:
        from cutegen.families.common.places import several_places

        return super().covered(plan) | several_places(plan.spec)

    def accepted(self, spec: KernelSpec[S], sizes: dict[str, int]) -> dict[str, int] | None:
        from cutegen.families.common.places import enough_places

        return enough_places(spec, sizes)

    def place_of(self, plan: P, sizes: Mapping[str, int], start: Mapping[str, int]) -> int | None:
        from cutegen.families.gemm.staged.pictures import walk_of

        modes = plan.spec.lead.shape
        return walk_of(plan).over(sizes[mode] for mode in modes).block([start[mode] for mode in modes])[0]

    def band(self, plan: P) -> tuple[str, int] | None:
        return (plan.spec.lead.shape[plan.tile_order[1]], plan.swizzle) if plan.swizzle > 1 else None

    def more_requests(self, plan: P, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.gemm.staged.cases import more_requests

        return more_requests(plan, tiles)
