"""Claims of the proof about an elementwise plan, compared with the enumerated accesses of the printed kernel."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from analysis_by_hand import found_by_hand
from claims_kit import (
    ALIKE,
    Break,
    Row,
    assert_bounds_fail,
    assert_claims_are_no_weaker_than_what_happens,
    assert_claims_hold_and_by_hand,
    assert_coverage_fails,
    changed_alike,
    failing,
    narrower,
    plan_of,
    quick,
    rows,
    small_plan,
    unmasked,
    ways_of,
    wider,
    wider_operand,
    with_spec,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planning_specs import document, elementwise
from tensor_layouts import Layout

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import claims
from cutegen.families.elementwise.plan import ElementwisePlan


@settings(quick, max_examples=30)
@given(elementwise())
def test_claims_hold_of_every_plan_that_is_made_and_by_hand(text: str) -> None:
    ways = ways_of(text)
    assume(ways is not None)
    for plan in ways:
        assert_claims_hold_and_by_hand(plan)


@pytest.mark.parametrize("raster", ["M", "N", "P"])
def test_tiles_of_threads_may_be_walked_along_any_mode(raster: str) -> None:
    tensors = {name: {"shape": ["M", "N", "P"], "dtype": "bf16"} for name in "SD"}
    tensors["D"]["role"] = "out"
    schedule = {"partition": "inner", "tiler": {"M": 2, "N": 1, "P": 8}, "scheduler": {"raster": raster}}
    plan = plan_of(document("elementwise", tensors, "D = S", schedule))
    assert plan is not None and plan.pointwise.vector == 8
    assert not failing(plan) and not found_by_hand(plan)


# ------------------------------------------------------------------------------------------ broken plans fail


@lru_cache
def made(name: str) -> ElementwisePlan:
    """The plan of that name, of small tiles."""
    tensors = {n: {"shape": ["M", "N"], "dtype": "f32", "align": 16} for n in "SD"}
    tensors["D"]["role"] = "out"
    texts = {
        "thread_value": document(
            "elementwise", tensors, "D = S", {"thread_layout": "(4,8):(8,1)", "value_layout": "(2,4):(4,1)"}
        ),
        "unmasked": document(
            "elementwise",
            tensors,
            "D = S",
            {
                "thread_layout": "(4,8):(8,1)",
                "value_layout": "(2,4):(4,1)",
                "predication": {"M": "none", "N": "none"},
            },
        ),
        "inner": document(
            "elementwise",
            tensors,
            "D = S",
            {
                "partition": "inner",
                "tiler": {"M": 2, "N": 4},
                "threads": 32,
                "predication": {"M": "mask", "N": "mask"},
            },
        ),
        "inner, M masked": document(
            "elementwise",
            tensors,
            "D = S",
            {
                "partition": "inner",
                "tiler": {"M": 2, "N": 4},
                "threads": 32,
                "predication": {"M": "mask", "N": "none"},
            },
        ),
        "inner, whole blocks": document(
            "elementwise",
            tensors,
            "D = S",
            {
                "partition": "inner",
                "tiler": {"M": 2, "N": 4},
                "threads": 32,
                "predication": {"M": "none", "N": "none"},
            },
        ),
        "inner, one row of tiles": document(
            "elementwise",
            tensors,
            "D = S",
            {"partition": "inner", "tiler": {"M": 4, "N": 4}, "threads": 32},
            static={"M": 3},
        ),
        "inner_outer": document(
            "elementwise", tensors, "D = S", {"thread_layout": "(4,8):(8,1)", "tiler": {"M": 8, "N": 16}}
        ),
        "inner_outer in runs": document(
            "elementwise",
            tensors,
            "D = S",
            {"thread_layout": "(4,8):(8,1)", "tiler": {"M": 8, "N": 64}, "copy": {"bits": 128}},
        ),
    }
    return plan_of(texts[name])


def swapped(layout: Layout) -> Layout:
    first, second = layout.stride
    return Layout(layout.shape, (second, first))


COVERAGE: list[Row] = [
    ("threads", "thread_value", lambda p: replace(p, threads=16), "16 threads run"),
    ("threads of inner_outer", "inner_outer", lambda p: replace(p, threads=16), "16 threads run"),
    ("tiler too long", "thread_value", lambda p: replace(p, tiler=(8, 33)), "never met"),
    ("tiler too short", "thread_value", lambda p: replace(p, tiler=(7, 32)), "outside"),
    ("inner's tiler", "inner_outer", lambda p: replace(p, tiler=(9, 16)), "not a multiple of 4 threads"),
    (
        "value layout with a gap",
        "thread_value",
        lambda p: replace(p, tv_layout=Layout(((8, 4), (4, 2)), ((32, 2), (8, 2)))),
        "met twice",
    ),
    ("value layout stands still", "thread_value", lambda p: replace(p, tv_layout=swapped(p.tv_layout)), "make "),
    (
        "thread layout of another tile",
        "thread_value",
        lambda p: replace(p, thread_layout=Layout((8, 4), (4, 1))),
        "of a tile (16 x 16)",
    ),
    (
        "a row of half a run for each",
        "inner_outer in runs",
        lambda p: replace(p, tiler=(8, 16)),
        "with 4 elements each",
    ),
    (
        "runs down the columns",
        "inner_outer in runs",
        lambda p: replace(p, run=(4, 1)),
        "not a multiple of 4 threads with",
    ),
    (
        "runs of half an access",
        "inner_outer in runs",
        lambda p: replace(p, run=(1, 2)),
        "deal out 2 elements at a time",
    ),
    ("accesses of half a run", "inner_outer in runs", narrower, "and an access has 2"),
    (
        "values in an order that repeats some",
        "inner",
        lambda p: replace(p, value_layout=Layout((4, 2), (1, 2))),
        "met twice",
    ),
    ("fewer values", "thread_value", lambda p: replace(p, pointwise=replace(p.pointwise, values=4)), "stores 4 values"),
    ("accesses of more than there is", "thread_value", lambda p: wider(p, 4), "no whole number of accesses of 16"),
]
BOUNDS: list[Row] = [
    ("no mask along M", "thread_value", lambda p: unmasked(p, "M"), "M: no predicate is needed"),
    ("no mask along N", "thread_value", lambda p: unmasked(p, "N"), "N: no predicate is needed"),
    ("any N", "thread_value", lambda p: with_spec(p, divisible={}), "N: an access of 4"),
    ("N fixed at 34", "thread_value", lambda p: with_spec(p, static={"N": 34}), "N: an access of 4"),
    ("accesses twice as wide", "thread_value", wider, "N: an access of 8"),
    ("an operand's twice as wide", "thread_value", wider_operand, "N: an access of 4"),
    ("tiles of 33", "thread_value", lambda p: replace(p, tiler=(8, 33)), "N: an access of 4"),
    ("the same without a mask", "unmasked", wider, "N: no predicate is needed"),
    ("any size without a mask", "unmasked", lambda p: with_spec(p, divisible={}), "M: no predicate is needed"),
    ("M fixed within a tile", "unmasked", lambda p: with_spec(p, static={"M": 12}), "M: no predicate is needed"),
    ("accesses across", "inner_outer", wider, "N: an access of 2"),
    ("single elements", "inner_outer in runs", lambda p: replace(p, run=None), "N: an access of 4"),
    ("runs of any N", "inner_outer in runs", lambda p: with_spec(p, divisible={}), "N: an access of 4"),
    ("inner's any N", "inner", lambda p: with_spec(p, divisible={}), "N: an access of 4"),
    ("blocks that are not whole", "inner, whole blocks", lambda p: replace(p, check_threads=False), "threads beyond"),
    ("no guard", "inner, one row of tiles", lambda p: replace(p, guard_tiles=False), "threads beyond"),
    ("threads that walk another way", "inner, M masked", lambda p: replace(p, tile_order=(0, 1)), "threads beyond"),
]


@rows(COVERAGE)
def test_a_broken_plan_fails_its_coverage(name: str, change: Break, says: str) -> None:
    assert_coverage_fails(made(name), change, says)


@rows(BOUNDS)
def test_a_broken_plan_fails_its_bounds(name: str, change: Break, says: str) -> None:
    assert_bounds_fail(made(name), change, says)


def surplus(plan: ElementwisePlan) -> Claim:
    return next(claim for claim in claims(plan) if claim.text.startswith("threads beyond"))


@pytest.mark.parametrize(
    ("name", "change", "says"),
    [
        ("inner", lambda p: replace(p, tile_order=(1, 1)), "has no tile, and makes an access"),
        ("inner", lambda p: replace(p, guard_tiles=True), "makes no access to its tile"),
        ("inner, M masked", lambda p: replace(p, tile_order=(0, 0)), "makes no access to its tile"),
        ("inner, one row of tiles", lambda p: replace(p, guard_tiles=False), "has no tile, and makes an access"),
        ("inner, one row of tiles", lambda p: with_spec(p, static={"M": 9}), "makes no access to its tile"),
    ],
)
def test_the_walk_past_the_last_tile_is_walked(name: str, change: Break, says: str) -> None:
    """Its claim fails for threads that have no tile and access one, and for those that leave theirs out."""
    plan = made(name)
    assert surplus(plan).holds and not found_by_hand(plan)
    broken = change(plan)
    assert not surplus(broken).holds and any(says in line for line in surplus(broken).because), surplus(broken)
    assert found_by_hand(broken), "by hand nothing is wrong"


def test_an_output_that_is_not_stored_is_missed() -> None:
    plan = made("thread_value")
    point = plan.pointwise
    lost = tuple(o for o in point.operands if not o.write)
    (coverage,) = (c for c in claims(replace(plan, pointwise=replace(point, operands=lost))) if c.kind == "coverage")
    assert not coverage.holds and "the kernel does not store D" in coverage.because


OF_ELEMENTWISE = (*ALIKE, "tiler", "run", "check", "guard")


@st.composite
def changed(draw: st.DrawFn) -> ElementwisePlan:
    """A plan with one thing in it that is another than planned; it may still be right."""
    name, plan = draw(st.sampled_from(OF_ELEMENTWISE)), small_plan(draw(elementwise()))
    mode = draw(st.sampled_from(plan.spec.output.shape))
    alike = changed_alike(plan, name, mode)
    if alike is not None:
        return alike
    by = draw(st.sampled_from([1, -1, plan.tile[mode]]))
    tile = {m: max(1, t + by * (m == mode)) for m, t in plan.tile.items()}
    modes = plan.spec.output.shape
    changes: dict[str, Any] = {
        "tiler": {"tiler": tuple(tile.values()), "tile": tile},
        "run": {"run": None if plan.run else tuple(1 + (m == mode) for m in modes)},
        "check": {"check_threads": False},
        "guard": {"guard_tiles": False},
    }
    return replace(plan, **changes[name])


@settings(quick, max_examples=150)
@given(changed())
def test_no_changed_elementwise_plan_holds_and_goes_wrong(plan: ElementwisePlan) -> None:
    assert_claims_are_no_weaker_than_what_happens(plan)
