"""The family of contractions on the tensor cores of single warps, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.families.attention.family import WalkingFamily
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.families.attention.mma_sync.schedule import OWN_ATOMS, AttentionSchedule, Spec

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer, Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice
    from cutegen.verification.case_request import CaseRequest


class AttentionFamily(WalkingFamily[AttentionSchedule, AttentionPlan]):
    """A block takes a tile of rows, of which each warp has 16, or several times as many."""

    name = "attention_mma_sync"
    packs = True
    schedule = AttentionSchedule
    atoms = OWN_ATOMS

    def check_schedule(
        self, ctx: Context, schedule: AttentionSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.attention.reading import check_split

        super().check_schedule(ctx, schedule, tensors, compute)
        check_split(ctx, schedule.split, tensors, compute)

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

    def blocks(self, plan: AttentionPlan, sizes: Mapping[str, int]) -> int:
        from cutegen.families.attention.mma_sync.filling import parts_at

        return super().blocks(plan, sizes) * parts_at(plan, sizes)

    def largest(self, plan: AttentionPlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.attention.mma_sync.merge_claims import largest

        return largest(plan, beside) if plan.packed or plan.parts > 1 else super().largest(plan, beside)

    def scratch(self, plan: AttentionPlan) -> Iterator[Scratch]:
        from cutegen.families.attention.mma_sync.merge_claims import scratch

        return scratch(plan)

    def accesses(self, plan: AttentionPlan) -> tuple[Access, ...]:
        from cutegen.families.attention.mma_sync.claims import accesses

        return accesses(plan)

    def claims(self, plan: AttentionPlan) -> Iterator[Claim]:
        from cutegen.families.attention.mma_sync.claims import claims

        return claims(plan)

    def buffers(self, plan: AttentionPlan) -> Iterator[Buffer]:
        from cutegen.families.attention.mma_sync.claims import buffers

        return buffers(plan)

    def kernel_parts(self, plan: AttentionPlan) -> KernelParts:
        from cutegen.families.attention.mma_sync.text import kernel_parts

        return kernel_parts(plan)

    def requests(self, plan: AttentionPlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.attention.mma_sync.merge_cases import split_requests

        yield from super().requests(plan, tiles)
        yield from split_requests(plan)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.attention.mma_sync.tuning import axes

        return axes(specs)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.attention.mma_sync.planning import INFERRED_FROM

        return INFERRED_FROM
