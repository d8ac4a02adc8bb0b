"""The family of a schedule that may be of several: it takes one of them before anything else is asked."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from cutegen.choosing.choices import Choices, Spec
from cutegen.dtypes import Dtype
from cutegen.family import Family, family_of
from cutegen.language.model import KernelSpec, Schedule
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

if TYPE_CHECKING:
    from cutegen.analysis.claim import Claim
    from cutegen.codegen.parts import KernelParts
    from cutegen.expressions.tree import Compute
    from cutegen.language.asked import Family as FamilyOfLanguage
    from cutegen.language.asked import FamilyOfChoices, Tensors
    from cutegen.language.context import Context
    from cutegen.language.kinds import Path
    from cutegen.ops.op import Op


class ChoicesFamily(Family[Choices, Plan]):
    """Schedules that name no mma atom. No resolved spec is of this family, so that it has neither plans nor text."""

    name: ClassVar[str] = "choices"
    schedule = Choices

    def op_of(self, spec: Spec) -> Op:
        one = _first(spec)
        return family_of(one).op_of(one)

    def read(
        self, ctx: Context, op: str, tensors: Tensors, compute: Compute | None
    ) -> tuple[Schedule, dict[str, tuple[Any, ...]]]:
        """A schedule as it is written, and the values that `tune` tries: of one family, or of all that it may be of."""
        from cutegen.choosing.reading import read_choices

        return read_choices(ctx, op, tensors, compute, tuned=True)

    def families_meant(self, op: str, schedule: Any) -> tuple[FamilyOfLanguage, ...]:
        """The families that a schedule as data may be of, the fastest first. Raises KeyError for an op that there is
        not.
        """
        from cutegen.choosing.meant import families_meant

        return families_meant(op, schedule)

    def with_known_atoms(self, data: Any) -> tuple[Any, tuple[Path, ...]]:
        """A document with the nearest known mma atom for each that there is not, and where these stand."""
        from cutegen.choosing.meant import with_known_atoms

        return with_known_atoms(data)

    def accumulator(self, spec: Spec) -> Dtype | None:
        one = _first(spec)
        return family_of(one).accumulator(one)

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
if TYPE_CHECKING:
    _reads: FamilyOfChoices = FAMILY
