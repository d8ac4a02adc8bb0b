"""Proofs about plans of row kernels: they hold for correct plans and fail for broken ones."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

import pytest
from claims_kit import failing, plan_of, quick, ways_of
from hypothesis import assume, given
from hypothesis import strategies as st
from tensor_layouts import Layout

from cutegen.analysis.claims import claims
from cutegen.families.rowwise.plan import RowwisePlan

KEPT = """\
cutegen: 1
kernel: kept
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  b: {shape: [N], dtype: f32, align: 4}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * b - max(X, N)
schedule: {threads_per_row: 4, tiler: {M: 8}}
static: {N: 24}
"""
WALKED = """\
cutegen: 1
kernel: walked
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: f16}
  s: {shape: [P, M], dtype: f32, role: out}
  Y: {shape: [P, M, N], dtype: f16, role: out}
compute:
  - s = sum(X * X, N)
  - Y = X * rsqrt(s)
schedule: {threads_per_row: 64, tiler: {M: 2, N: 1024}}
"""


@lru_cache
def planned(text: str) -> RowwisePlan:
    plan = plan_of(text)
    assert isinstance(plan, RowwisePlan)
    return plan


def test_the_claims_of_a_plan_are_its_tile_its_rows_and_its_bounds() -> None:
    for text, last in ((KEPT, "one tile of 32 covers every row"), (WALKED, "pieces of 1024 cover every row")):
        plan = planned(text)
        assert not failing(plan)
        found = list(claims(plan))
        once = ["coverage"] * 3 + ["bounds"] * len(plan.spec.lead.shape)
        assert [claim.kind for claim in found] == once
        assert [len(failing(way)) for way in ways_of(text)] == [0, 0], "with wide accesses, and with narrow ones"
        assert "exactly once" in found[0].text and "lie in one row" in found[1].text
        assert found[2].text.startswith(last)


Break = Callable[[RowwisePlan], RowwisePlan]


def laid(layout: Layout) -> Break:
    return lambda plan: replace(plan, tv_layout=layout)


def spec_with(**fields: Any) -> Break:
    return lambda plan: replace(plan, spec=replace(plan.spec, **fields))


def unmasked(mode: str) -> Break:
    return lambda plan: replace(plan, masked=tuple(m for m in plan.masked if m != mode))


def widened(plan: RowwisePlan) -> RowwisePlan:
    """One tensor's accesses are wider than what a predicate covers."""
    first, *rest = plan.operands
    return replace(plan, operands=(replace(first, vector=2 * plan.vector), *rest))


def unstored(plan: RowwisePlan) -> RowwisePlan:
    return replace(plan, operands=tuple(replace(o, write=False) for o in plan.operands))


# The layout of KEPT is ((4,8),(4,2)):((32,1),(8,128)): 4 threads a row of 32, 8 rows, in a tile with M fastest.
BROKEN = [
    ("a thread in another row", KEPT, laid(Layout(((4, 8), (4, 2)), ((1, 4), (8, 128)))), "coverage", "lie in one row"),
    ("rows first", KEPT, laid(Layout(((8, 4), (4, 2)), ((1, 32), (8, 128)))), "coverage", "lie in one row"),
    ("values down a column", KEPT, laid(Layout(((8, 4), (8,)), ((8, 64), (1,)))), "coverage", "lie in one row"),
    ("fewer values", KEPT, laid(Layout(((4, 8), (4, 1)), ((32, 1), (8, 128)))), "coverage", "exactly once"),
    ("values twice", KEPT, laid(Layout(((4, 8), (4, 2)), ((32, 1), (8, 0)))), "coverage", "exactly once"),
    ("one thread for all", KEPT, laid(Layout(((4, 8), (4, 2)), ((0, 1), (8, 128)))), "coverage", "exactly once"),
    ("fewer threads", KEPT, lambda plan: replace(plan, threads=plan.threads // 2), "coverage", "exactly once"),
    ("it counts fewer values", KEPT, lambda plan: replace(plan, values=4), "coverage", "exactly once"),
    ("accesses of 16 values", KEPT, lambda plan: replace(plan, vector=16), "coverage", "exactly once"),
    ("half the threads share a row", KEPT, lambda plan: replace(plan, threads_per_row=2), "coverage", "lie in one row"),
    ("two rows are one", KEPT, lambda plan: replace(plan, threads_per_row=8), "coverage", "lie in one row"),
    ("nothing is stored", KEPT, unstored, "coverage", "exactly once"),
    ("a longer row", KEPT, spec_with(static={"N": 36}), "coverage", "one tile of 32 covers every row"),
    ("a tile that is too small", KEPT, lambda plan: replace(plan, tile={"M": 8, "N": 16}), "coverage", "tile of 16"),
    ("no mask of the rows", KEPT, unmasked("M"), "bounds", "M"),
    ("no mask of the row", KEPT, unmasked("N"), "bounds", "N"),
    ("a row of no whole accesses", KEPT, spec_with(static={"N": 22}), "bounds", "N"),
    ("a tensor of wider accesses", KEPT, widened, "bounds", "N"),
    ("a thread in another row", WALKED, laid(Layout(((64, 2), (8, 2)), ((16, 8), (2, 1)))), "coverage", "lie in one"),
    ("fewer values", WALKED, laid(Layout(((64, 2), (8, 1)), ((16, 1), (2, 1024)))), "coverage", "exactly once"),
    ("nothing is stored", WALKED, unstored, "coverage", "exactly once"),
    ("no mask of the rows", WALKED, unmasked("M"), "bounds", "M"),
    ("no mask of the row", WALKED, unmasked("N"), "bounds", "N"),
    ("no promise on the row", WALKED, spec_with(divisible={}), "bounds", "N"),
    ("a tensor of wider accesses", WALKED, widened, "bounds", "N"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "change", "kind", "says"), [row[1:] for row in BROKEN], ids=[f"{row[1][19:23]} {row[0]}" for row in BROKEN]
)
def test_a_broken_plan_fails_the_claim_that_it_must(text: str, change: Break, kind: str, says: str) -> None:
    plan = planned(text)
    assert not failing(plan)
    broken = change(plan)
    assert broken != plan
    wrong = [claim for claim in failing(broken) if claim.kind == kind]
    assert wrong, list(claims(broken))
    if kind == "bounds":
        assert any(claim.text.startswith(says) or f" {says} " in f" {claim.text} " for claim in wrong), wrong
    else:
        assert any(says in claim.text for claim in wrong), wrong


def test_what_is_wrong_is_said_with_a_thread_and_its_row() -> None:
    broken = laid(Layout(((4, 8), (4, 2)), ((1, 4), (8, 128))))(planned(KEPT))
    claim = next(claim for claim in failing(broken) if "lie in one row" in claim.text)
    assert any("thread 1 has an element of row 1" in line for line in claim.because), claim.because
    assert claim.because[0] == "thread t has row t // 4 of 8 rows"


def test_a_walked_row_may_be_longer_than_a_tile() -> None:
    plan = planned(WALKED)
    assert not failing(replace(plan, spec=replace(plan.spec, static={"N": 5 * 1024 + 8})))


def test_pieces_without_a_mask_need_a_promise_of_the_whole_tile() -> None:
    plan = unmasked("N")(planned(WALKED))
    assert failing(plan) and not failing(replace(plan, spec=replace(plan.spec, divisible={"N": 1024})))
    assert failing(replace(plan, spec=replace(plan.spec, divisible={"N": 512})))


# ------------------------------------------------------------------------------------------ any layout, right or wrong

SIDES = st.lists(st.sampled_from([0, 1, 2, 4, 8, 16, 32, 64, 128]), min_size=4, max_size=4)


@quick
@given(SIDES, st.sampled_from([((4, 8), (4, 2)), ((8, 4), (4, 2)), ((4, 8), (2, 4)), ((2, 16), (4, 2))]))
def test_coverage_holds_exactly_where_each_row_is_dealt_out_to_its_threads(
    strides: list[int], shape: tuple[tuple[int, int], tuple[int, int]]
) -> None:
    """By the definition: the places of a tile with M fastest, and the row of each thread."""
    (a, b), (c, d) = shape
    s, t, u, v = strides
    layout = Layout(shape, ((s, t), (u, v)))
    places = {}
    for thread in range(a * b):
        start = thread % a * s + thread // a * t
        places[thread] = [start + i % c * u + i // c * v for i in range(c * d)]
    assume(max(max(own) for own in places.values()) < 8 * 32)
    met = sorted(place for own in places.values() for place in own)
    once = met == list(range(8 * 32))
    own_row = all(place % 8 == thread // 4 for thread, own in places.items() for place in own)
    plan = laid(layout)(planned(KEPT))
    wrong = [claim.text for claim in failing(plan) if claim.kind == "coverage"]
    assert any("exactly once" in text for text in wrong) == (not once)
    assert any("lie in one row" in text for text in wrong) == (not own_row)
