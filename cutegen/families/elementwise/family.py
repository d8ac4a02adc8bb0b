"""The family of elementwise kernels, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.schedule import ElementwiseSchedule, Spec
from cutegen.family import Family
from cutegen.ops.elementwise import ELEMENTWISE

if TYPE_CHECKING:
    from importlib.abc import Traversable

    from tensor_layouts import Layout

    from cutegen.analysis.access import Access
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import PerformanceRule, Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice


class ElementwiseFamily(Family[ElementwiseSchedule, ElementwisePlan]):
    """Kernels that compute each element of their outputs from the elements of other tensors at its coordinate."""

    name = "elementwise"
    op = ELEMENTWISE
    schedule = ElementwiseSchedule

    def check_schedule(
        self, ctx: Context, schedule: ElementwiseSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        from cutegen.families.elementwise.reading import check_schedule

        check_schedule(ctx, schedule, tensors, compute)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.elementwise.inference import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.elementwise.tiles import is_sound

        return is_sound(spec)

    def plan(self, spec: Spec) -> ElementwisePlan:
        from cutegen.families.elementwise.planning import plan

        return plan(spec)

    def variants(self, plan: ElementwisePlan) -> tuple[ElementwisePlan, ...]:
        from cutegen.families.elementwise.variants import variants

        return variants(plan)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.elementwise.rules import RULES

        return RULES

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        from cutegen.families.elementwise.rules import PERFORMANCE_RULES

        return PERFORMANCE_RULES

    def numbered_layouts(self, spec: Spec) -> Iterator[tuple[Path, Layout, int]]:
        from cutegen.families.elementwise.rules.dealing import numbered_layouts

        return numbered_layouts(spec)

    @property
    def templates(self) -> Mapping[str, Traversable]:
        from cutegen.families.common.pointwise_text import templates

        return {**super().templates, **templates()}

    def kernel_parts(self, plan: ElementwisePlan) -> KernelParts:
        from cutegen.families.elementwise.text import kernel_parts

        return kernel_parts(plan)

    def accesses(self, plan: ElementwisePlan) -> tuple[Access, ...]:
        from cutegen.families.elementwise.accesses import accesses_of

        return accesses_of(plan)

    def claims(self, plan: ElementwisePlan) -> Iterator[Claim]:
        from cutegen.families.elementwise.claims import claims

        return claims(plan)

    def blocks(self, plan: ElementwisePlan, sizes: Mapping[str, int]) -> int:
        from cutegen.families.elementwise.grid import blocks

        return blocks(plan, sizes)

    def largest(self, plan: ElementwisePlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        from cutegen.families.common.raster import counted_sizes

        return {} if plan.most_tiles is None else counted_sizes(plan.most_tiles, plan.tile, beside)

    def covered(self, plan: ElementwisePlan) -> dict[str, int]:
        from cutegen.families.elementwise.whole_blocks import covered

        return covered(plan)

    def refused(self, spec: Spec, sizes: Mapping[str, int]) -> str | None:
        from cutegen.families.elementwise.whole_blocks import refused

        return refused(spec, sizes)

    def accepted(self, spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
        from cutegen.families.elementwise.whole_blocks import accepted

        return accepted(spec, sizes)

    def figures(self, plan: ElementwisePlan) -> tuple[Figure, ...]:
        from cutegen.families.elementwise.pictures import figures

        return figures(plan)

    def facts(self, plan: ElementwisePlan) -> list[tuple[str, str]]:
        from cutegen.drawing.kernels import plan_facts

        return plan_facts(plan, "thread" if plan.partition == "inner" else "block")

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        from cutegen.families.elementwise.tuning import axes

        return axes(specs)

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        from cutegen.families.elementwise.tuning import refinements

        return refinements(spec)

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        from cutegen.families.elementwise.inference import INFERRED_FROM

        return INFERRED_FROM
