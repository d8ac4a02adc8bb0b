"""What the proof claims of a plan, against the accesses that the printed kernel makes, enumerated size by size."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import lru_cache
from math import prod
from typing import Any

import pytest
from analysis_by_hand import extents, found_by_hand, image, problems, sizes_of
from hypothesis import HealthCheck, assume, event, given, settings
from hypothesis import strategies as st
from planning_specs import document, elementwise, gemm, probe
from tensor_layouts import Layout

from cutegen.analysis.claims import Claim, claims
from cutegen.language import SpecError, read_specs
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.plan import ElementwisePlan, GemmPlan, Operand, Plan, ProbePlan
from cutegen.planning.report import Report

quick = settings(
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much, HealthCheck.data_too_large],
)


def plan_of(text: str) -> Plan | None:
    """None for a spec that is refused."""
    try:
        spec = read_specs(text, "x.yaml")[0]
    except SpecError:
        return None
    report = Report(spec.source)
    spec = resolve(spec, report)
    if not report.failed:
        check(spec, report, advise=False)
    return None if report.failed else make_plan(spec)


def failing(plan: Plan) -> list[Claim]:
    return [claim for claim in claims(plan) if not claim.holds]


# ------------------------------------------------------------------------------------------------- sound plans hold


@settings(quick, max_examples=60)
@given(st.one_of(elementwise(), gemm()))
def test_claims_hold_of_every_plan_that_is_made_and_by_hand(text: str) -> None:
    plan = plan_of(text)
    assume(plan is not None)
    assert plan is not None
    assert not failing(plan), failing(plan)
    assert {claim.kind for claim in claims(plan)} == {"coverage", "bounds"}
    checked = list(sizes_of(plan, 3))
    event(f"{len(checked) > 0}")
    for sizes in checked:
        assert not problems(plan, sizes), (sizes, plan)


@settings(quick, max_examples=20)
@given(probe())
def test_claims_hold_of_every_probe(text: str) -> None:
    plan = plan_of(text)
    assume(plan is not None)
    assert isinstance(plan, ProbePlan) and not failing(plan)
    stretched = replace(plan, tv_layout=Layout(plan.tv_layout.shape, times(plan.tv_layout.stride, 2)))
    assert bool(failing(stretched)) == bool(2 * max(image(plan.tv_layout)) >= prod(plan.tiler))


@pytest.mark.parametrize("raster", ["M", "N", "P"])
def test_tiles_of_threads_may_be_walked_along_any_mode(raster: str) -> None:
    tensors = {name: {"shape": ["M", "N", "P"], "dtype": "bf16"} for name in "SD"}
    tensors["D"]["role"] = "out"
    schedule = {"partition": "inner", "tiler": {"M": 2, "N": 1, "P": 8}, "scheduler": {"raster": raster}}
    plan = plan_of(document("elementwise", tensors, "D = S", schedule))
    assert plan is not None and plan.pointwise.vector == 8
    assert not failing(plan) and not found_by_hand(plan)


def times(stride: Any, factor: int) -> Any:
    return tuple(times(s, factor) for s in stride) if isinstance(stride, tuple) else stride * factor


# ------------------------------------------------------------------------------------------------ broken plans fail


@lru_cache
def made(name: str) -> Plan:
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
    plan = plan_of(texts[name])
    assert plan is not None
    return plan


def with_spec(plan: Plan, **fields: Any) -> Plan:
    return replace(plan, spec=replace(plan.spec, **fields))


def wider(plan: Plan, factor: int = 2) -> Plan:
    """Accesses of twice as many elements, predicates included."""
    point = plan.pointwise
    operands = tuple(replace(o, vector=o.vector * factor) for o in point.operands)
    return replace(plan, pointwise=replace(point, vector=point.vector * factor, operands=operands))


def narrower(plan: Plan) -> Plan:
    """Accesses of half as many elements."""
    point = plan.pointwise
    operands = tuple(replace(o, vector=o.vector // 2) for o in point.operands)
    return replace(plan, pointwise=replace(point, vector=point.vector // 2, operands=operands))


def wider_operand(plan: Plan) -> Plan:
    """One operand's accesses go beyond what a predicate covers."""
    first, *rest = plan.pointwise.operands
    wide: Operand = replace(first, vector=2 * plan.pointwise.vector)
    return replace(plan, pointwise=replace(plan.pointwise, operands=(wide, *rest)))


def unmasked(plan: Plan, mode: str) -> Plan:
    masked = tuple(m for m in plan.pointwise.masked if m != mode)
    return replace(plan, pointwise=replace(plan.pointwise, masked=masked))


def copy(plan: Plan, **fields: Any) -> Plan:
    assert isinstance(plan, GemmPlan)
    return replace(plan, a=replace(plan.a, **fields))


def space(plan: Plan, **fields: Any) -> Plan:
    assert isinstance(plan, GemmPlan) and plan.a.workspace is not None
    return copy(plan, workspace=replace(plan.a.workspace, **fields))


def swapped(layout: Layout) -> Layout:
    first, second = layout.stride
    return Layout(layout.shape, (second, first))


Break = Callable[[Any], Plan]
COVERAGE: list[tuple[str, str, Break, str]] = [
    ("threads", "thread_value", lambda p: replace(p, threads=16), "16 threads run"),
    ("threads of inner_outer", "inner_outer", lambda p: replace(p, threads=16), "16 threads run"),
    ("tiler too long", "thread_value", lambda p: replace(p, tiler=(8, 33)), "never met"),
    ("tiler too short", "thread_value", lambda p: replace(p, tiler=(7, 32)), "outside"),
    ("inner's tiler", "inner_outer", lambda p: replace(p, tiler=(9, 16)), "no multiple of 4 threads"),
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
    ("runs down the columns", "inner_outer in runs", lambda p: replace(p, run=(4, 1)), "no multiple of 4 threads with"),
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
BOUNDS: list[tuple[str, str, Break, str]] = [
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


@pytest.mark.parametrize(("name", "change", "says"), [row[1:] for row in COVERAGE], ids=[row[0] for row in COVERAGE])
def test_a_broken_plan_fails_its_coverage(name: str, change: Break, says: str) -> None:
    plan = made(name)
    assert not failing(plan) and not found_by_hand(plan)
    broken = change(plan)
    wrong = [claim for claim in failing(broken) if claim.kind == "coverage"]
    assert any(says in line for claim in wrong for line in (claim.text, *claim.because)), claims(broken)
    # Of the thread-value layout the kernel has a comment only: it makes it of the other two.
    comment = getattr(broken, "tv_layout", None) != getattr(plan, "tv_layout", None)
    assert comment or found_by_hand(broken), "by hand nothing is wrong"


@pytest.mark.parametrize(("name", "change", "says"), [row[1:] for row in BOUNDS], ids=[row[0] for row in BOUNDS])
def test_a_broken_plan_fails_its_bounds(name: str, change: Break, says: str) -> None:
    plan = made(name)
    assert not failing(plan) and not found_by_hand(plan)
    broken = change(plan)
    wrong = [claim for claim in failing(broken) if claim.kind == "bounds"]
    assert any(claim.text.startswith(says) for claim in wrong), claims(broken)
    assert found_by_hand(broken) & {"bounds", "broken"}, "by hand nothing is wrong"


def surplus(plan: Plan) -> Claim:
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


def test_a_broken_probe_fails() -> None:
    tensors = {
        "A": {"shape": ["M", "N"], "dtype": "f32", "major": "M"},
        "D": {"shape": ["T", "V"], "dtype": "f32", "role": "out"},
    }
    plan = plan_of(document("probe", tensors, "D = A", {"tv_layout": "(4,6):(1,4)", "tiler": {"M": 24, "N": 1}}))
    assert isinstance(plan, ProbePlan) and claims(plan)[0].holds
    for change in (
        {"tv_layout": Layout((4, 6), (1, 5))},
        {"tiler": (23, 1)},
        {"threads": 5},
        {"values": 7},
        {"tv_layout": Layout((4, 5), (1, 4))},
        {"spec": replace(plan.spec, static={**plan.spec.static, "M": 20})},
        {"spec": replace(plan.spec, static={**plan.spec.static, "V": 5})},
    ):
        assert not claims(replace(plan, **change))[0].holds, change  # type: ignore[arg-type]


# ----------------------------------------------------------------------------------------- any change, right or wrong


@st.composite
def changed(draw: st.DrawFn, texts: st.SearchStrategy[str], kinds: Sequence[str]) -> Plan:
    """A plan with one thing in it that is another than planned; it may still be right."""
    name = draw(st.sampled_from(kinds))
    plan = plan_of(draw(texts))
    assume(plan is not None and prod(plan.tile.values()) <= 1 << 17)
    assert plan is not None
    modes = plan.spec.output.shape
    mode = draw(st.sampled_from(modes))
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
    if isinstance(plan, ElementwisePlan):
        by = draw(st.sampled_from([1, -1, plan.tile[mode]]))
        tile = {m: max(1, t + by * (m == mode)) for m, t in plan.tile.items()}
        changes: dict[str, Any] = {
            "tiler": {"tiler": tuple(tile.values()), "tile": tile},
            "run": {"run": None if plan.run else tuple(1 + (m == mode) for m in modes)},
            "check": {"check_threads": False},
            "guard": {"guard_tiles": False},
        }
        return replace(plan, **changes[name])
    assert isinstance(plan, GemmPlan)
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


ALIKE = ("threads", "wider", "an operand wider", "mask", "divisible", "values")
OF_ELEMENTWISE = (*ALIKE, "tiler", "run", "check", "guard")
OF_GEMM = (*ALIKE, "residue", "rows", "permutation", "tile", "A's mask", "A's width", "A's threads")


def assert_claims_are_no_weaker_than_what_happens(plan: Plan) -> None:
    wrong = failing(plan)
    event(f"claims {'fail' if wrong else 'hold'}")
    if not wrong:
        assert not found_by_hand(plan), plan


@settings(quick, max_examples=150)
@given(changed(elementwise(), OF_ELEMENTWISE))
def test_no_changed_elementwise_plan_holds_and_goes_wrong(plan: Plan) -> None:
    assert_claims_are_no_weaker_than_what_happens(plan)


@settings(quick, max_examples=80)
@given(changed(gemm(), OF_GEMM))
def test_no_changed_gemm_holds_and_goes_wrong(plan: Plan) -> None:
    assert_claims_are_no_weaker_than_what_happens(plan)
