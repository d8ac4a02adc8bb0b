"""Which of a kernel's cases run, in which order, and why the others do not."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.planning.plan import Plan
from cutegen.verification.asked import op_of
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.orders import cases_for_orders
from cutegen.verification.report import CaseReport, Reason
from cutegen.verification.telling import in_order, quick_part

STOPPED = "left out after the first failure; `--all` runs it"
IN_PART = "not in the part that `--quick` runs"


@dataclass(frozen=True)
class Extent:
    """How much of a kernel's verification runs: without `all`, nothing after the first failure; with `quick`, a part: a
    few cases, in one order of blocks and warps, and the host checks that are cheap.
    """

    all: bool = False
    quick: bool = False


UNTIL_FAILURE = Extent()
EVERYTHING = Extent(all=True)


@dataclass(frozen=True)
class Agenda:
    """The cases of a plan that run, and in which order. `planned` has all cases in a fixed order, and the other fields
    refer to them by number: `turns` has those that run, in running order, `in_orders` those of them that run in several
    orders of blocks and warps, and `left_out` the reasons why the others do not run.
    """

    plan: Plan
    planned: tuple[Case, ...]
    turns: tuple[int, ...]
    in_orders: frozenset[int]
    left_out: Mapping[int, tuple[str, Reason]]
    extent: Extent

    def not_run(self, number: int, why: str, reason: Reason | None) -> CaseReport:
        """The report of a case that did not run: for its own reason if it was never to, else for the one given."""
        return CaseReport.of(self.planned[number], "not run", *self.left_out.get(number, (why, reason)))


def agenda_of(plan: Plan, extent: Extent = EVERYTHING, element_limit: int | None = None) -> Agenda:
    """The agenda of a plan, on an executor that takes tensors of so many elements; None: of any number."""
    planned = derive_cases(plan)
    left_out: dict[int, tuple[str, Reason]] = {
        number: (why, "too large")
        for number, case in enumerate(planned)
        if (why := _too_large(plan, case, element_limit))
    }
    chosen = quick_part(plan, planned, left_out) if extent.quick else in_order(plan, planned)
    left_out |= {n: (IN_PART, "in part") for n in range(len(planned)) if n not in chosen and n not in left_out}
    several = (
        ()
        if extent.quick
        else cases_for_orders(plan, [case for number, case in enumerate(planned) if number not in left_out])
    )
    in_orders = frozenset(number for number, case in enumerate(planned) if case in several)
    turns = tuple(number for number in chosen if number not in left_out)
    return Agenda(plan, planned, turns, in_orders - left_out.keys(), left_out, extent)


def _too_large(plan: Plan, case: Case, limit: int | None) -> str:
    """The reason why a case cannot run where tensors have so many elements at most; empty if it can."""
    if limit is None:
        return ""
    largest = max(math.prod(t.extents(case.sizes)) for t in plan.spec.tensors)
    if largest > limit:
        return f"{largest} elements in a tensor; at most {limit} are run here"
    work = op_of(plan.spec).multiply_adds(plan.spec, case.sizes)
    if work > 64 * limit:
        return f"{work} multiply-adds; at most {64 * limit} are run here"
    return ""
