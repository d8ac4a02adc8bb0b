"""The family, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cutegen.atoms.gpus import TENSOR_16, Arithmetic
from cutegen.dtypes import Dtype
from cutegen.family import Family
from toy_roles.op import BEST
from toy_roles.plan import BestPlan, plan, resolve
from toy_roles.schedule import BestSchedule, Spec

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.buffers import Buffer
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report


class BestFamily(Family[BestSchedule, BestPlan]):
    """A block for each 64 rows of A, whose warps have roles: one loads, four multiply and reduce."""

    name = "best"
    op = BEST
    schedule = BestSchedule
    only_targets = ("sm_90a",)

    def check_schedule(
        self, ctx: Context, schedule: BestSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        for tensor in tensors.values():
            if tensor.major not in (None, tensor.shape[-1]):
                help = f"write `major: {tensor.shape[-1]}`"
                ctx.say("CG203", f"rows of `{tensor.name}` are contiguous", "tensors", tensor.name, "major", help=help)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from toy_roles.rules import units

        whole = all(
            spec.static.get(mode, 0) % unit == 0 < spec.static.get(mode, 0) for mode, unit in units(spec).items()
        )
        return whole and (spec.schedule.columns or 8) % 8 == 0

    def plan(self, spec: Spec) -> BestPlan:
        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from toy_roles.rules import RULES

        return RULES

    def accesses(self, plan: BestPlan) -> tuple[Access, ...]:
        from toy_roles.analysis import accesses

        return accesses(plan)

    def claims(self, plan: BestPlan) -> Iterator[Claim]:
        from toy_roles.analysis import claims

        return claims(plan)

    def buffers(self, plan: BestPlan) -> Iterator[Buffer]:
        from toy_roles.analysis import buffers

        return buffers(plan)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        return TENSOR_16

    def accumulator(self, spec: Spec) -> Dtype | None:
        return Dtype.f32

    def kernel_parts(self, plan: BestPlan) -> KernelParts:
        from toy_roles.text import kernel_parts

        return kernel_parts(plan)

    def figures(self, plan: BestPlan) -> tuple[Figure, ...]:
        from toy_roles.order import draw

        return (draw(plan),)
