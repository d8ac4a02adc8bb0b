"""Claims of the proof about a gemm, compared with the accesses of the printed kernel, enumerated size by size."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from analysis_by_hand import extents
from claims_kit import (
    ALIKE,
    Break,
    Row,
    assert_bounds_fail,
    assert_claims_are_no_weaker_than_what_happens,
    assert_claims_hold_and_by_hand,
    assert_coverage_fails,
    changed_alike,
    plan_of,
    quick,
    rows,
    small_plan,
    unmasked,
    wider,
    with_spec,
)
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from planning_specs import document, gemm
from tensor_layouts import Layout

from cutegen.families.gemm.staged.plan import GemmPlan


@settings(quick, max_examples=30)
@given(gemm())
def test_claims_hold_of_every_plan_that_is_made_and_by_hand(text: str) -> None:
    plan = plan_of(text)
    assume(plan is not None)
    assert_claims_hold_and_by_hand(plan)


# ------------------------------------------------------------------------------------------ broken plans fail


@lru_cache
def made(name: str) -> GemmPlan:
    """The plan of that name, of small tiles."""
    texts = {
        "gemm": document(
            "gemm",
            {n: {"shape": list(s), "dtype": "f32", "major": s[0]} for n, s in (("A", "MK"), ("B", "NK"))}
            | {"C": {"shape": ["M", "N"], "dtype": "f32", "role": "out"}},
            "C = A @ B.T",
            {"tiler": {"M": 32, "N": 64, "K": 8}, "mma": {"thread_layout": "(8,8,1):(8,1,0)"}},
        ),
        "turned": document(
            "gemm",
            {n: {"shape": list(s), "dtype": "f32", "major": "K"} for n, s in (("A", "MK"), ("B", "NK"))}
            | {"C": {"shape": ["M", "N"], "dtype": "f32", "align": 4, "role": "out"}},
            "C = A @ B.T",
            {
                "tiler": {"M": 32, "N": 64, "K": 8},
                "mma": {"thread_layout": "(8,8,1):(8,1,0)"},
                "workspace": {"A": {"major": "M", "thread_layout": "(4,8):(8,1)"}},
            },
            divisible={"K": 4},
        ),
    }
    return plan_of(texts[name])


def copy(plan: GemmPlan, **fields: Any) -> GemmPlan:
    return replace(plan, a=replace(plan.a, **fields))


def space(plan: GemmPlan, **fields: Any) -> GemmPlan:
    assert plan.a.workspace is not None
    return copy(plan, workspace=replace(plan.a.workspace, **fields))


COVERAGE: list[Row] = [
    ("copies of half the threads", "gemm", lambda p: copy(p, thread_layout=Layout((8, 4), (1, 8))), "64 threads run"),
    ("copies of too many", "gemm", lambda p: copy(p, value_layout=Layout((8, 1), (1, 8))), "never met"),
    ("fewer predicates than copies", "gemm", lambda p: copy(p, copies=(1, 1, 2)), "accesses of 4 are made"),
    ("columns that overlap", "gemm", lambda p: copy(p, smem_stride=28), "start every 28"),
    (
        "a permutation that repeats",
        "gemm",
        lambda p: replace(p, permutation_m=Layout((8, 4), (2, 1))),
        "never met",
    ),
    ("half a tile", "gemm", lambda p: replace(p, tile={**p.tile, "M": 16}), "the copies of A"),
    ("a workspace's threads", "turned", lambda p: space(p, thread_layout=Layout((4, 4), (4, 1))), "32 threads run"),
    ("threads that meet", "turned", lambda p: space(p, thread_layout=Layout((4, 8), (4, 1))), "met twice"),
    ("a tile with gaps", "turned", lambda p: space(p, tile=(32, 32)), "never met"),
    ("a tile too small", "turned", lambda p: space(p, tile=(16, 16)), "met twice or outside"),
    ("accumulators", "gemm", lambda p: replace(p, pointwise=replace(p.pointwise, values=16)), "stores 16 values"),
]
BOUNDS: list[Row] = [
    ("no mask on A", "gemm", lambda p: copy(p, masked=False), "A, M: no predicate is needed"),
    ("A twice as wide", "gemm", lambda p: copy(p, vector=8, copies=(1, 1, 2)), "A, M: an access of 8"),
    ("no mask on C", "gemm", lambda p: unmasked(p, "M"), "C, M: no predicate is needed"),
    ("C twice as wide", "gemm", wider, "C, N: an access of 8"),
    ("a workspace for any K", "turned", lambda p: with_spec(p, divisible={}), "A's workspace, read"),
    ("rows of a workspace as they are", "turned", lambda p: space(p, write=2, tile=(8, 32)), "A, M: an access of 4"),
    ("any M", "gemm", lambda p: with_spec(p, divisible={"N": 4}), "A, M: an access of 4"),
    ("no residue", "gemm", lambda p: replace(p, residue=False), "K: no predicate is needed"),
    ("K fixed within a tile", "gemm", lambda p: replace(with_spec(p, static={"K": 12}), residue=False), "K: no predic"),
    (
        "copies across k",
        "gemm",
        lambda p: copy(p, value_layout=Layout((1, 4), (4, 1)), thread_layout=Layout((32, 2), (1, 32))),
        "K: only the first tile",
    ),
]


@rows(COVERAGE)
def test_a_broken_plan_fails_its_coverage(name: str, change: Break, says: str) -> None:
    assert_coverage_fails(made(name), change, says)


@rows(BOUNDS)
def test_a_broken_plan_fails_its_bounds(name: str, change: Break, says: str) -> None:
    assert_bounds_fail(made(name), change, says)


OF_GEMM = (*ALIKE, "residue", "rows", "permutation", "tile", "A's mask", "A's width", "A's threads")


@st.composite
def changed(draw: st.DrawFn) -> GemmPlan:
    """A plan with one thing in it that is another than planned; it may still be right."""
    name, plan = draw(st.sampled_from(OF_GEMM)), small_plan(draw(gemm()))
    mode = draw(st.sampled_from(plan.spec.output.shape))
    alike = changed_alike(plan, name, mode)
    if alike is not None:
        return alike
    match name:
        case "A's mask":
            return copy(plan, masked=False)
        case "A's width":
            return copy(plan, vector=2 * plan.a.vector)
        case "A's threads":
            first, second = extents(plan.a.thread_layout)
            return copy(plan, thread_layout=Layout((second, first), (1, second)))
    changes = {
        "residue": {"residue": False},
        "rows": {"row_first": not plan.row_first},
        "permutation": {"permutation_n": None},
        "tile": {"tile": {**plan.tile, mode: max(1, plan.tile[mode] // 2)}},
    }
    return replace(plan, **changes[name])


@settings(quick, max_examples=80)
@given(changed())
def test_no_changed_gemm_holds_and_goes_wrong(plan: GemmPlan) -> None:
    assert_claims_are_no_weaker_than_what_happens(plan)
