"""The family of contractions on the tensor cores of warpgroups, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.families.attention.family import WalkingFamily
from cutegen.families.attention.wgmma.plan import WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.schedule import OWN_ATOMS, Spec, WarpgroupAttentionSchedule

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.expressions.tree import Compute
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice


class WarpgroupAttentionFamily(WalkingFamily[WarpgroupAttentionSchedule, WarpgroupAttentionPlan]):
    """One warp loads, and warpgroups that have 64 rows of a tile each multiply and compute by turns."""

    name = "attention_wgmma"
    schedule = WarpgroupAttentionSchedule
    atoms = OWN_ATOMS
    only_targets = ("sm_90a",)

    def unmeant(
        self, schedule: WarpgroupAttentionSchedule, tensors: Mapping[str, Tensor], compute: Compute
    ) -> str | None:
        from cutegen.families.attention.wgmma.planning import unmeant

        return unmeant(schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.attention.wgmma.planning import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.attention.wgmma.rules import is_sound

        return is_sound(spec)

    def plan(self, spec: Spec) -> WarpgroupAttentionPlan:
        from cutegen.families.attention.wgmma.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.attention.wgmma.rules import RULES

        return RULES

    def accesses(self, plan: WarpgroupAttentionPlan) -> tuple[Access, ...]:
        from cutegen.families.attention.wgmma.claims import accesses

        return accesses(plan)

    def claims(self, plan: WarpgroupAttentionPlan) -> Iterator[Claim]:
        from cutegen.families.attention.wgmma.claims import claims

        return claims(plan)

    def buffers(self, plan: WarpgroupAttentionPlan) -> Iterator[Buffer]:
        from cutegen.families.attention.wgmma.claims import buffers

        return buffers(plan)

    def kernel_parts(self, plan: WarpgroupAttentionPlan) -> KernelParts:
        from cutegen.families.attention.wgmma.text import kernel_parts

        return kernel_parts(plan)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.attention.wgmma.tuning import axes

        return axes(specs)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.attention.wgmma.planning import INFERRED_FROM

        return INFERRED_FROM
