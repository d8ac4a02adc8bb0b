"""The family of contractions on the tensor cores of single warps, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_16, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.attention.mma_sync.schedule import OWN_ATOMS, AttentionSchedule, Spec
from cutegen.families.common.pointwise_text import templates
from cutegen.family import Family
from cutegen.ops.contract import CONTRACT

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest


class AttentionFamily(Family[AttentionSchedule, AttentionPlan]):
    """A block takes a tile of rows, and walks the tiles of what they are multiplied with, with an online softmax."""

    name = "attention_mma_sync"
    op = CONTRACT
    schedule = AttentionSchedule
    atoms = OWN_ATOMS

    @property
    def templates(self) -> Mapping[str, Traversable]:
        return {**super().templates, **templates()}

    def check_schedule(
        self, ctx: Context, schedule: AttentionSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.attention.mma_sync.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.attention.mma_sync.planning import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.attention.mma_sync.rules import is_sound

        return is_sound(spec)

    def plan(self, spec: Spec) -> AttentionPlan:
        from cutegen.families.attention.mma_sync.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.attention.mma_sync.rules import RULES

        return RULES

    def accesses(self, plan: AttentionPlan) -> tuple[Access, ...]:
        from cutegen.families.attention.mma_sync.claims import accesses

        return accesses(plan)

    def claims(self, plan: AttentionPlan) -> Iterator[Claim]:
        from cutegen.families.attention.mma_sync.claims import claims

        return claims(plan)

    def buffers(self, plan: AttentionPlan) -> Iterator[Buffer]:
        from cutegen.families.attention.mma_sync.claims import buffers

        return buffers(plan)

    def blocks(self, plan: AttentionPlan, sizes: Mapping[str, int]) -> int:
        tiles = -(-sizes[plan.walked.rows[0]] // plan.q.rows)
        return tiles * prod(sizes[mode] for mode in plan.outer)

    def largest(self, plan: AttentionPlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.common.raster import counted_sizes

        tile = {plan.walked.rows[0]: plan.q.rows, **dict.fromkeys(plan.outer, 1)}
        return counted_sizes(2**31 - 1, tile, beside)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return TENSOR_16

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def kernel_parts(self, plan: AttentionPlan) -> KernelParts:
        from cutegen.families.attention.mma_sync.text import kernel_parts

        return kernel_parts(plan)

    def requests(self, plan: AttentionPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.attention.mma_sync.cases import requests

        return requests(plan, tiles)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.attention.mma_sync.tuning import axes

        return axes(specs)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.attention.mma_sync.planning import INFERRED_FROM

        return INFERRED_FROM
