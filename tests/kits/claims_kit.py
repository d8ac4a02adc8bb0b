"""For tests of claims: plans that are made, and ways to break them that every pointwise plan has."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import prod
from typing import Any

import pytest
from analysis_by_hand import found_by_hand, problems, sizes_of
from hypothesis import HealthCheck, assume, event, settings

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import claims
from cutegen.families.common.pointwise import Operand, PointwisePlan
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

quick = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def plan_of(text: str) -> Any:
    """The plan of a spec with the promises that its accesses need; None for one that is refused."""
    ways = ways_of(text)
    return ways and ways[0]


def ways_of(text: str) -> Any:
    """All ways in which a kernel runs, as plans; None for a spec that is refused."""
    try:
        spec = read_specs(text, "x.yaml")[0]
    except SpecError:
        return None
    report = Report(spec.source)
    spec = resolve(spec, report)
    if not report.failed:
        check(spec, report, advise=False)
    return None if report.failed else spec.family.variants(make_plan(spec))


def failing(plan: Plan) -> list[Claim]:
    return [claim for claim in claims(plan) if not claim.holds]


def assert_claims_hold_and_by_hand(plan: Plan) -> None:
    """All claims, and what the kernel does at some sizes."""
    assert not failing(plan), failing(plan)
    assert {claim.kind for claim in claims(plan)} - {"order"} == {"coverage", "bounds"}
    checked = list(sizes_of(plan, 3))
    event(f"{len(checked) > 0}")
    for sizes in checked:
        assert not problems(plan, sizes), (sizes, plan)


# -------------------------------------------------------------------------------------------------- broken plans


def with_spec(plan: Any, **fields: Any) -> Any:
    return replace(plan, spec=replace(plan.spec, **fields))


def wider(plan: Any, factor: int = 2) -> Any:
    """Accesses of twice as many elements, predicates included."""
    point = plan.pointwise
    operands = tuple(replace(o, vector=o.vector * factor) for o in point.operands)
    return replace(plan, pointwise=replace(point, vector=point.vector * factor, operands=operands))


def narrower(plan: Any) -> Any:
    """Accesses of half as many elements."""
    point = plan.pointwise
    operands = tuple(replace(o, vector=o.vector // 2) for o in point.operands)
    return replace(plan, pointwise=replace(point, vector=point.vector // 2, operands=operands))


def wider_operand(plan: Any) -> Any:
    """One operand's accesses go beyond what a predicate covers."""
    first, *rest = plan.pointwise.operands
    wide: Operand = replace(first, vector=2 * plan.pointwise.vector)
    return replace(plan, pointwise=replace(plan.pointwise, operands=(wide, *rest)))


def unmasked(plan: Any, mode: str) -> Any:
    masked = tuple(m for m in plan.pointwise.masked if m != mode)
    return replace(plan, pointwise=replace(plan.pointwise, masked=masked))


Break = Callable[[Any], Plan]
Row = tuple[str, str, Break, str]  # of a table of broken plans: a title, a plan, what breaks it, what is said of it


def rows(table: list[Row]) -> pytest.MarkDecorator:
    """Parameters `name`, `change` and `says` of each row."""
    ids = [row[0] for row in table]
    return pytest.mark.parametrize(("name", "change", "says"), [row[1:] for row in table], ids=ids)


def assert_coverage_fails(plan: Plan, change: Break, says: str) -> None:
    assert not failing(plan) and not found_by_hand(plan)
    broken = change(plan)
    wrong = [claim for claim in failing(broken) if claim.kind == "coverage"]
    assert any(says in line for claim in wrong for line in (claim.text, *claim.because)), claims(broken)
    # Of the thread-value layout the kernel has a comment only: it makes it of the other two.
    comment = getattr(broken, "tv_layout", None) != getattr(plan, "tv_layout", None)
    assert comment or found_by_hand(broken), "by hand nothing is wrong"


def assert_bounds_fail(plan: Plan, change: Break, says: str) -> None:
    assert not failing(plan) and not found_by_hand(plan)
    broken = change(plan)
    wrong = [claim for claim in failing(broken) if claim.kind == "bounds"]
    assert any(claim.text.startswith(says) for claim in wrong), claims(broken)
    assert found_by_hand(broken) & {"bounds", "broken"}, "by hand nothing is wrong"


# ----------------------------------------------------------------------------------------- any change, right or wrong

ALIKE = ("threads", "wider", "an operand wider", "mask", "divisible", "values")


def small_plan(text: str) -> Any:
    """The plan of a spec, if it can be looked at by hand; else the example is given up."""
    plan = plan_of(text)
    assume(plan is not None)
    assert plan is not None
    assume(prod(plan.tile.values()) <= 1 << 17)
    return plan


def changed_alike(plan: PointwisePlan, name: str, mode: str) -> PointwisePlan | None:
    """With one thing in it that is another than planned; it may still be right. None for a name not in `ALIKE`."""
    event(name)
    match name:
        case "threads":
            return replace(plan, threads=max(1, plan.threads // 2))
        case "wider":
            return wider(plan)
        case "an operand wider":
            return wider_operand(plan)
        case "mask":
            return unmasked(plan, mode)
        case "divisible":
            return with_spec(plan, divisible={m: n for m, n in plan.spec.divisible.items() if m != mode})
        case "values":
            return replace(plan, pointwise=replace(plan.pointwise, values=2 * plan.pointwise.values))
    return None


def assert_claims_are_no_weaker_than_what_happens(plan: Plan) -> None:
    wrong = failing(plan)
    event(f"claims {'fail' if wrong else 'hold'}")
    if not wrong:
        assert not found_by_hand(plan), plan
