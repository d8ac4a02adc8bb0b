"""Cases run in an order in which most that can be wrong shows early, and reports keep another one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod

import pytest
from specs_kit import modules_of_specs

from cutegen.planning.plan import Plan
from cutegen.verification.agenda import UNTIL_FAILURE, Extent, agenda_of
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.telling import in_order

FEW = 1 << 14  # elements
KERNELS = ("softmax", "rms_norm", "gemm_bf16_cases", "add_tv", "layer_norm_bwd")


@lru_cache(maxsize=1)
def plans() -> dict[str, Plan]:
    return {name: module.plan for name, module in modules_of_specs().items() if name in KERNELS}


def shown(cases: Sequence[Case]) -> set[tuple[str, object]]:
    """The features that distinguish the most revealing cases."""
    named = (("way", lambda case: case.of), ("data", lambda case: case.data), ("layout", lambda case: case.layout))
    return {(name, value(case)) for name, value in named for case in cases if not case.empty}


def short(cases: Sequence[Case]) -> list[Case]:
    """Those with few elements: kernels for the longest rows take long to run, and come late for that."""
    return [case for case in cases if prod(case.sizes.values()) <= FEW]


@pytest.mark.parametrize("kernel", KERNELS)
def test_each_way_kind_of_data_and_layout_is_among_the_first(kernel: str) -> None:
    plan = plans()[kernel]
    cases = derive_cases(plan)
    order = in_order(plan, cases)
    assert sorted(order) == list(range(len(cases)))
    whole = shown(short(cases))
    assert shown([cases[number] for number in order[: 3 * len(whole)]]) >= whole
    assert not any(cases[number].empty for number in order[:5]), "of which hardly anything is run"


def test_the_first_of_several_kernels_does_not_come_before_all_others() -> None:
    """As it does where cases are derived."""
    plan = plans()["softmax"]
    cases = derive_cases(plan)
    early = 60
    assert len(cases) > 2 * early and not shown(cases[:early]) >= shown(short(cases))
    assert shown([cases[number] for number in in_order(plan, cases)[:early]]) >= shown(short(cases))


def test_what_shows_nothing_new_runs_last_and_by_what_it_takes() -> None:
    plan = plans()["rms_norm"]
    case = next(case for case in derive_cases(plan) if case.name == "tile")
    sizes = [{**case.sizes, "M": rows} for rows in (900, 700, 800)]
    cases = [replace(case, sizes=one) for one in sizes]
    assert in_order(plan, cases) == (1, 2, 0)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_part_has_each_way_kind_of_data_layout_and_size(kernel: str) -> None:
    """In few cases, and none of them in several orders."""
    plan = plans()[kernel]
    whole, part = agenda_of(plan), agenda_of(plan, Extent(quick=True))
    ran = [part.planned[number] for number in part.turns]
    assert part.planned == whole.planned and shown(ran) == shown(whole.planned)
    for case in whole.planned:
        assert all((size == 1) in {(one.sizes[mode] == 1) for one in ran} for mode, size in case.sizes.items())
    assert len(ran) < 0.6 * len(whole.planned) and not part.in_orders and whole.in_orders
    assert sorted([*part.turns, *part.left_out]) == list(range(len(part.planned)))
    assert {reason for _, reason in part.left_out.values()} == {"in part"}


def test_what_is_too_large_is_in_no_part() -> None:
    part = agenda_of(plans()["rms_norm"], Extent(quick=True), 10**5)
    assert {reason for _, reason in part.left_out.values()} == {"in part", "too large"}
    fitting = [
        case for number, case in enumerate(part.planned) if part.left_out.get(number, ("", ""))[1] != "too large"
    ]
    assert shown([part.planned[number] for number in part.turns]) == shown(fitting)


def test_what_is_too_large_has_no_turn() -> None:
    agenda = agenda_of(plans()["rms_norm"], UNTIL_FAILURE, 10**5)
    assert agenda.left_out and sorted([*agenda.turns, *agenda.left_out]) == list(range(len(agenda.planned)))
    assert agenda.in_orders and agenda.in_orders <= set(agenda.turns)
    (number, *_) = agenda.left_out
    assert agenda.not_run(number, "why", "stopped").reason == "too large"
    assert agenda.not_run(agenda.turns[0], "why", "stopped").reason == "stopped"
