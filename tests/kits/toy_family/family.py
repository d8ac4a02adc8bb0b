"""The family of fills, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from cutegen.family import Family
from toy_family.op import FILL
from toy_family.plan import INFERRED_FROM, FillPlan, plan, resolve
from toy_family.schedule import FillSchedule, Spec

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import PerformanceRule, Rule
    from cutegen.planning.report import Report
    from cutegen.tuning.choice import Choice


class FillFamily(Family[FillSchedule, FillPlan]):
    """A block for each tile of a matrix, of which each thread writes some rows of one column."""

    name = "fill"
    op = FILL
    schedule = FillSchedule

    def check_schedule(
        self, ctx: Context, schedule: FillSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        for tensor in tensors.values():
            if tensor.major is not None and tensor.major != tensor.shape[-1]:
                message = (
                    f"threads lie along {tensor.shape[-1]}, and `{tensor.name}` is contiguous along {tensor.major}"
                )
                ctx.say("CG203", message, "tensors", tensor.name, "major", help=f"write `major: {tensor.shape[-1]}`")

    def resolve(self, spec: Spec, report: Report) -> Spec:
        return resolve(spec, report)

    def plan(self, spec: Spec) -> FillPlan:
        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from toy_family.rules import RULES

        return RULES

    def performance_rules(self) -> tuple[PerformanceRule, ...]:
        from toy_family.rules import PERFORMANCE_RULES

        return PERFORMANCE_RULES

    def accesses(self, plan: FillPlan) -> tuple[Access, ...]:
        from toy_family.analysis import accesses

        return accesses(plan)

    def claims(self, plan: FillPlan) -> Iterator[Claim]:
        from toy_family.analysis import claims

        return claims(plan)

    def kernel_parts(self, plan: FillPlan) -> KernelParts:
        from toy_family.text import kernel_parts

        return kernel_parts(plan)

    def figures(self, plan: FillPlan) -> tuple[Figure, ...]:
        from toy_family.analysis import figures

        return figures(plan)

    def axes(self, specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
        yield "threads", [{("threads",): threads} for threads in (32, 64, 128)]

    def refinements(self, spec: Spec) -> Iterator[Choice]:
        for rows in (1, 128):
            yield {("rows",): rows}

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]:
        return INFERRED_FROM
