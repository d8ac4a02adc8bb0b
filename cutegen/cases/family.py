"""The family of a kernel of several cases: it asks the families of the cases, and knows no skeleton itself."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, ClassVar

from cutegen.atoms.gpus import Arithmetic
from cutegen.cases.plan import CasesPlan
from cutegen.cases.splitting import Spec, inside, of_case
from cutegen.dtypes import Dtype
from cutegen.family import Family, family_of
from cutegen.language.cases import Cases
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

if TYPE_CHECKING:
    from cutegen.analysis.buffers import Scratch
    from cutegen.analysis.claim import Claim
    from cutegen.analysis.tiles import Tiles
    from cutegen.atoms.mma import SumOrder
    from cutegen.codegen.parts import KernelParts
    from cutegen.drawing.model import Figure
    from cutegen.expressions.tree import Compute
    from cutegen.language.asked import FamilyOfCases, Tensors
    from cutegen.language.asked import Op as OpOfLanguage
    from cutegen.language.context import Context
    from cutegen.ops.op import Op


class CasesFamily(Family[Cases, CasesPlan]):
    """Kernels of several cases."""

    name: ClassVar[str] = "cases"
    schedule = Cases

    def op_of(self, spec: Spec) -> Op:
        first = spec.schedule.cases[0].schedule
        whole: KernelSpec = spec
        one: KernelSpec = replace(whole, schedule=first)
        return family_of(one).op_of(one)

    # --------------------------------------------------------------------------------------------------- language

    def read(
        self, ctx: Context, op: OpOfLanguage, tensors: Tensors, modes: tuple[str, ...], compute: Compute | None
    ) -> Cases:
        """The cases of a schedule that is a list of them, as they are written."""
        from cutegen.cases.reading import read_cases

        return read_cases(ctx, op, tensors, modes, compute)

    # --------------------------------------------------------------------------------------------------- planning

    def resolve(self, spec: Spec, report: Report) -> Spec:
        from cutegen.cases.resolving import resolve

        return resolve(spec, report)

    def kernels(self, spec: Spec, report: Report) -> tuple[tuple[KernelSpec, Report], ...]:
        found = []
        for number in range(len(spec.schedule.cases)):
            one = of_case(spec, number)
            inferred: dict[Path, str] = {}
            for path, why in report.inferred.items():
                if path[:2] == ("schedule", number):
                    own: Path = ("schedule", *path[2:])
                    inferred[own] = why
                elif path[:1] != ("schedule",):
                    inferred[path] = why
            found.append((one, Report(one.source, inferred=inferred)))
        return tuple(found)

    def kernel_names(self, spec: Spec) -> tuple[str, ...]:
        return tuple(f"case {number} ({case.conditions})" for number, case in enumerate(spec.schedule.cases, 1))

    def with_kernel(self, spec: Spec, number: int, changed: KernelSpec) -> KernelSpec:
        cases = list(spec.schedule.cases)
        cases[number] = replace(cases[number], schedule=changed.schedule)
        return replace(spec, schedule=Cases(tuple(cases)))

    def plan(self, spec: Spec) -> CasesPlan:
        names, cases = self.kernel_names(spec), []
        for number in range(len(spec.schedule.cases)):
            one = of_case(spec, number)
            own: Plan = family_of(one).plan(one)
            cases.append(replace(own, case=names[number]))
        forms = [family_of(plan.spec).form(plan) for plan in cases]
        for number, form in enumerate(forms):
            if form is not None and forms.count(form) > 1:
                cases[number] = family_of(cases[number].spec).of_form(cases[number])
        estimates = [
            found
            for case, plan in zip(spec.schedule.cases, cases, strict=True)
            if case.conditions.by_cost and (found := family_of(plan.spec).cost(plan)) is not None
        ]
        summed = self.accumulator(spec)
        first = next(plan for plan in cases if family_of(plan.spec).accumulator(plan.spec) is summed)
        return CasesPlan(
            spec=spec,
            threads=max(plan.threads for plan in cases),
            tile=cases[0].tile,
            statements=first.statements,
            smem_bytes=max(plan.smem_bytes for plan in cases),
            conditions=tuple(case.conditions for case in spec.schedule.cases),
            cases=tuple(cases),
            costs=tuple(cost for cost, _ in estimates),
            moved=estimates[0][1] if estimates else None,
        )

    # --------------------------------------------------------------------------------------------------- analysis

    def claims(self, plan: CasesPlan) -> Iterator[Claim]:
        return iter(())  # each case has its own

    def scratch(self, plan: CasesPlan) -> Iterator[Scratch]:
        return (one for case in plan.cases for one in family_of(case.spec).scratch(case))

    def largest(self, plan: CasesPlan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]:
        """The largest sizes that every case takes."""
        found: dict[str, int] = {}
        for case in plan.cases:
            for mode, most in family_of(case.spec).largest(case, beside).items():
                found[mode] = min(most, found.get(mode, most))
        return found

    def blocks(self, plan: CasesPlan, sizes: Mapping[str, int]) -> int:
        case = plan.taken(sizes)
        return family_of(case.spec).blocks(case, sizes)

    def tiles(self, plan: CasesPlan, sizes: Mapping[str, int]) -> Tiles | None:
        case = plan.taken(sizes)
        return family_of(case.spec).tiles(case, sizes)

    def arithmetic(self, spec: Spec) -> Arithmetic:
        one = of_case(spec, 0)
        return family_of(one).arithmetic(one)

    # ---------------------------------------------------------------------------------------------------- codegen

    def kernel_parts(self, plan: CasesPlan) -> KernelParts:
        from cutegen.cases.text import kernel_parts

        return kernel_parts(plan)

    # ----------------------------------------------------------------------------------------------- verification

    def accumulator(self, spec: Spec) -> Dtype | None:
        """The least precise one of all cases, so that what is said of it holds for each."""
        ones = [of_case(spec, number) for number in range(len(spec.schedule.cases))]
        found = [family_of(one).accumulator(one) for one in ones]
        return min((dtype for dtype in found if dtype is not None), key=lambda dtype: dtype.bits, default=None)

    def factor_bits(self, spec: Spec) -> int | None:
        """The fewest of all cases, for the same reason."""
        ones = [of_case(spec, number) for number in range(len(spec.schedule.cases))]
        found = [family_of(one).factor_bits(one) for one in ones]
        return min((bits for bits in found if bits is not None), default=None)

    def sum_orders(self, spec: Spec) -> tuple[SumOrder, ...]:
        """Those of all cases: what sums in more bits keeps within the bounds of any."""
        ones = [of_case(spec, number) for number in range(len(spec.schedule.cases))]
        return tuple(dict.fromkeys(order for one in ones for order in family_of(one).sum_orders(one)))

    def covered(self, plan: CasesPlan) -> dict[str, int]:
        """The least along each mode that a block of any case covers: no call has more blocks than follow from that."""
        found = [family_of(case.spec).covered(case) for case in plan.cases]
        return {mode: min(one[mode] for one in found) for mode in plan.spec.modes}

    def reached(self, plan: CasesPlan, sizes: Mapping[str, int]) -> Mapping[str, int]:
        case = plan.taken(sizes)
        return family_of(case.spec).reached(case, sizes)

    def threads_beside(self, plan: CasesPlan, sizes: Mapping[str, int]) -> int:
        case = plan.taken(sizes)
        return family_of(case.spec).threads_beside(case, sizes)

    def refused(self, spec: Spec, sizes: Mapping[str, int]) -> str | None:
        reasons = (family_of(one).refused(one, sizes) for one in _limiting(spec, sizes))
        return next((reason for reason in reasons if reason is not None), None)

    def accepted(self, spec: Spec, sizes: dict[str, int]) -> dict[str, int] | None:
        for _ in spec.schedule.cases:  # what one case asks for may be no size of another
            fitting = dict(sizes)
            for one in _limiting(spec, sizes):
                changed = family_of(one).accepted(one, fitting)
                if changed is None:
                    return None
                fitting = changed
            if fitting == sizes:
                return fitting
            sizes = fitting
        return None if self.refused(spec, sizes) is not None else sizes

    # ---------------------------------------------------------------------------------------------------- drawing

    def figures(self, plan: CasesPlan) -> tuple[Figure, ...]:
        forms, found = [family_of(case.spec).verified_form(case) for case in plan.cases], []
        for number, case in enumerate(plan.cases):
            first = number if forms[number] is None else forms.index(forms[number])
            for figure in family_of(case.spec).figures(case):
                own, shared = (
                    tuple(replace(s, path=inside(s.path, n) if s.path else ("schedule", n)) for s in figure.subjects)
                    for n in (number, first)
                )
                title = f"{figure.title}, {case.case}"
                name = f"{figure.name}-{number + 1}"
                found.append(replace(figure, name=name, title=title, subjects=own, shared=shared))
        return tuple(found)

    def facts(self, plan: CasesPlan) -> list[tuple[str, str]]:
        told = [(case.case, fact) for case in plan.cases for fact in family_of(case.spec).facts(case)]
        return [(f"{label}, {name}", text) for name, (label, text) in told]


def _limiting(spec: Spec, sizes: Mapping[str, int]) -> list[KernelSpec]:
    """The cases whose limits are those of calls of these sizes: all that some call of them may get, as a module asks
    for targets, alignment and costs only afterwards.
    """
    each = [case.conditions for case in spec.schedule.cases]
    sure = [bool(one.sizes) and not one.targets and one.align == 1 and one.takes_sizes(sizes) for one in each]
    found = []
    for number, own in enumerate(each):
        before = any(sure[i] and not (own.by_cost and each[i].by_cost) for i in range(number))
        if own.takes_sizes(sizes) and not before:
            found.append(of_case(spec, number))
    return found


if TYPE_CHECKING:
    _reads: FamilyOfCases = CasesFamily()
