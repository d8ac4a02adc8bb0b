"""The family of probes, as the rooms ask it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from cutegen.families.probe.plan import ProbePlan
from cutegen.families.probe.schedule import ProbeSchedule, Spec
from cutegen.family import Family
from cutegen.ops.probe import PROBE

if TYPE_CHECKING:
    from cutegen.analysis.access import Access
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.context import Context
    from cutegen.language.model import Tensor
    from cutegen.lint.rule import Rule
    from cutegen.planning.report import Report
    from cutegen.verification.case_request import CaseRequest


class ProbeFamily(Family[ProbeSchedule, ProbePlan]):
    """One thread block that reads a tile by a thread-value layout, and writes what each thread read."""

    name = "probe"
    op = PROBE
    schedule = ProbeSchedule

    def check_schedule(
        self, ctx: Context, schedule: ProbeSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
    ) -> None:
        read = next((tensors[name] for name in compute.names() if name in tensors), None) if compute else None
        ctx.known_modes(schedule.tiler or {}, read.shape if read else None, "schedule", "tiler")
        layout = schedule.tv_layout
        if layout is not None and not (isinstance(layout.shape, tuple) and len(layout.shape) == 2):
            message = "a thread-value layout has two modes, (thread, value)"
            help = "write one like ((2,2),(2,3)):((2,12),(1,4))"
            ctx.say("CG201", message, "schedule", "tv_layout", help=help)

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.families.probe.planning import resolve

        return resolve(spec, report)

    def is_sound(self, spec: Spec) -> bool:
        from cutegen.families.probe.planning import is_sound

        return is_sound(spec)

    def plan(self, spec: Spec) -> ProbePlan:
        from cutegen.families.probe.planning import plan

        return plan(spec)

    def rules(self) -> tuple[Rule, ...]:
        from cutegen.families.probe.rules import RULES

        return RULES

    def kernel_parts(self, plan: ProbePlan) -> KernelParts:
        from cutegen.families.probe.text import kernel_parts

        return kernel_parts(plan)

    def requests(self, plan: ProbePlan, tiles: Mapping[str, int]) -> Iterator[CaseRequest]:
        from cutegen.families.probe.cases import requests

        return requests()

    def accesses(self, plan: ProbePlan) -> tuple[Access, ...]:
        from cutegen.families.probe.analysis import accesses_of

        return accesses_of(plan)

    def claims(self, plan: ProbePlan) -> Iterator[Claim]:
        from cutegen.families.probe.analysis import claims

        return claims(plan)

    def figures(self, plan: ProbePlan) -> tuple[Figure, ...]:
        from cutegen.families.probe.pictures import figures

        return figures(plan)
