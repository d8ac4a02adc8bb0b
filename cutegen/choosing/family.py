"""The family of a schedule that may be of several: it takes one of them before anything else is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, ClassVar

from cutegen.choosing.choices import Choices
from cutegen.dtypes import Dtype
from cutegen.family import Family
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

if TYPE_CHECKING:
    from cutegen.analysis.claims import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.ops.op import Op

Spec = KernelSpec[Choices]


class ChoicesFamily(Family[Choices, Plan]):
    """Schedules that name no mma atom. No resolved spec is of this family, so that it has neither plans nor text."""

    name: ClassVar[str] = "choices"
    schedule = Choices

    def op_of(self, spec: Spec) -> Op:
        return spec.schedule.options[0].family.op

    def accumulator(self, spec: Spec) -> Dtype | None:
        return spec.schedule.options[0].family.accumulator(_first(spec))

    def resolve(self, spec: Spec, report: Report) -> KernelSpec:
        from cutegen.choosing.resolving import resolve

        return resolve(spec, report)

    def plan(self, spec: Spec) -> Plan:
        raise ValueError(f"{spec.kernel} is not resolved")

    def claims(self, plan: Plan) -> Iterator[Claim]:
        return iter(())

    def kernel_parts(self, plan: Plan) -> KernelParts:
        raise ValueError(f"{plan.spec.kernel} is not resolved")


def _first(spec: Spec) -> KernelSpec:
    from dataclasses import replace

    whole: KernelSpec = spec
    return replace(whole, schedule=spec.schedule.options[0])


FAMILY = ChoicesFamily()
