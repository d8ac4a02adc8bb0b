"""Properties of inference and plans for every spec, compared with counting by hand."""

from __future__ import annotations

import ast
import itertools
from collections import Counter
from math import prod

import pytest
from hypothesis import HealthCheck, event, given, settings
from planning_specs import FLOATS, VALID, anything, document, elementwise, gemm
from tensor_layouts import Layout

from cutegen.codegen import generate
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.language.diagnostics import SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report

quick = settings(
    max_examples=120,
    deadline=None,
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)


def resolved(text: str) -> tuple[KernelSpec, Report]:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    return resolve(spec, report), report


@quick
@given(VALID)
def test_resolving_what_was_resolved_changes_nothing(text: str) -> None:
    spec, report = resolved(text)
    if report.failed:
        return
    again, second = resolved(write_spec(spec))
    assert again == spec
    assert not second.failed and not second.inferred, second.inferred


@quick
@given(VALID)
def test_what_passes_its_checks_becomes_a_module(text: str) -> None:
    try:
        made = generate(text, "x.yaml")
    except SpecError as error:
        codes = {d.code for d in error.diagnostics if d.severity == "error"}
        event(f"refused: {sorted(codes)}")
        # What the strategies leave to chance: copies that are not found, shared memory and its padding, and whether the
        # layout of a probe composes with its tile.
        assert codes <= {"CG221", "CG254", "CG251", "CG257"}, error.diagnostics
        return
    event("built")
    ast.parse(made.modules[0].text)


# ------------------------------------------------------------------------------------- counting threads and values


def place(layout: Layout, *index: int) -> int:
    return int(layout(*index)) if len(index) > 1 else int(layout(index[0]))


def coordinate(index: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    found = []
    for extent in shape:
        found.append(index % extent)
        index //= extent
    return tuple(found)


def sizes(layout: Layout) -> tuple[int, ...]:
    shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    return tuple(prod(flat(s)) for s in shape)


def flat(shape: object) -> list[int]:
    return [x for s in shape for x in flat(s)] if isinstance(shape, tuple) else [int(shape)]  # type: ignore[call-overload]


def dealt_out(thread_layout: Layout, value_layout: Layout) -> dict[tuple[int, int], tuple[int, ...]]:
    """(thread, value) -> coordinate in the tile, by the definition: neighbours in the tile belong to one thread."""
    threads, values = sizes(thread_layout), sizes(value_layout)
    found = {}
    for where in itertools.product(*(range(t * v) for t, v in zip(threads, values, strict=True))):
        outer = tuple(x // v for x, v in zip(where, values, strict=True))
        inner = tuple(x % v for x, v in zip(where, values, strict=True))
        found[at(thread_layout, outer, threads), at(value_layout, inner, values)] = where
    return found


def at(layout: Layout, where: tuple[int, ...], extents: tuple[int, ...]) -> int:
    index, step = 0, 1
    for x, extent in zip(where, extents, strict=True):
        index, step = index + x * step, step * extent
    return place(layout, index)


def values_of_threads(plan: ElementwisePlan) -> dict[int, list[tuple[int, ...]]]:
    """Thread -> the coordinates of its values in the tile, in order; for inner all threads are alike."""
    tiler = plan.tiler
    if plan.partition == "inner":
        layout = plan.value_layout or Layout(prod(tiler))
        return {0: [coordinate(place(layout, v), tiler) for v in range(prod(tiler))]}
    assert plan.thread_layout is not None
    if plan.partition == "thread_value":
        assert plan.tv_layout is not None and plan.value_layout is not None
        by_hand = dealt_out(plan.thread_layout, plan.value_layout)
        count = plan.pointwise.values
        assert len(by_hand) == plan.threads * count == prod(tiler)
        for (thread, value), where in by_hand.items():
            assert coordinate(place(plan.tv_layout, thread, value), tiler) == where
        return {t: [by_hand[t, v] for v in range(count)] for t in range(plan.threads)}
    # Threads deal out what one access moves, a run along the contiguous mode: each has one of as many as there are.
    output, run, bits = plan.spec.output, [1] * len(tiler), plan.spec.schedule.copy.bits  # type: ignore[union-attr]
    widest = max(t.dtype.bits for t in plan.spec.tensors if len(t.shape) == len(tiler))
    run[output.shape.index(str(output.major))] = bits // widest
    threads = sizes(plan.thread_layout)
    share = tuple(e // (t * r) for e, t, r in zip(tiler, threads, run, strict=True))
    found = {}
    for where in itertools.product(*map(range, threads)):
        starts = [
            tuple((x + i * t) * r for x, i, t, r in zip(where, coordinate(v, share), threads, run, strict=True))
            for v in range(prod(share))
        ]
        inside = [coordinate(e, tuple(run)) for e in range(prod(run))]
        own = [tuple(x + j for x, j in zip(start, e, strict=True)) for start in starts for e in inside]
        found[at(plan.thread_layout, where, threads)] = own
    return found


def assert_accesses_are_neighbours(coordinates: list[tuple[int, ...]], vector: int, axis: int) -> None:
    assert len(coordinates) % vector == 0
    for i in range(0, len(coordinates), vector):
        first = coordinates[i]
        assert first[axis] % vector == 0
        for j in range(vector):
            wanted = tuple(x + j * (a == axis) for a, x in enumerate(first))
            assert coordinates[i + j] == wanted, (vector, axis, coordinates)


@quick
@given(elementwise())
def test_elementwise_plans_cover_their_tile_once_in_whole_accesses(text: str) -> None:
    spec, report = resolved(text)
    check(spec, report)
    assert not report.failed, report.diagnostics
    plan = spec.family.variants(make_plan(spec))[0]
    spec = plan.spec
    assert isinstance(plan, ElementwisePlan)
    owned = values_of_threads(plan)
    met = Counter(where for own in owned.values() for where in own)
    assert met == Counter(itertools.product(*map(range, plan.tiler)))
    assert sorted(owned) == list(range(1 if plan.partition == "inner" else plan.threads))
    for own in owned.values():
        assert len(own) == plan.pointwise.values
        assert_accesses_are_neighbours(own, plan.pointwise.vector, spec.output.shape.index(str(spec.output.major)))
    for operand in plan.pointwise.operands:
        assert plan.pointwise.vector % operand.vector == 0
        whole = len(operand.tensor.shape) == len(spec.output.shape)
        assert operand.vector in (1, plan.pointwise.vector) or not whole or operand.bits == 128
        assert operand.bits <= 128
        assert operand.vector == 1 or operand.vector * operand.tensor.dtype.bytes <= (operand.tensor.align or 0)
        assert operand.vector == 1 or operand.tensor.major == spec.output.major
    major = str(spec.output.major)
    known = spec.static.get(major) or spec.divisible.get(major, 1)
    assert known % plan.pointwise.vector == 0, "a predicate guards a whole access"


@pytest.mark.parametrize("major", ["M", "N"])
def test_the_inferred_access_is_the_widest_one_for_every_order_of_values(major: str) -> None:
    found = Counter()
    for steps in itertools.permutations((1, 2, 4, 8)):
        layout = f"((2,2),(2,2)):(({steps[0]},{steps[1]}),({steps[2]},{steps[3]}))"
        tensors = {
            name: {"shape": ["M", "N"], "dtype": "f16", "major": major, "role": role}
            for name, role in (("S", "in"), ("D", "out"))
        }
        schedule = {"thread_layout": "(4,2):(2,1)", "value_layout": layout}
        spec, _ = resolved(document("elementwise", tensors, "D = S", schedule))
        plan = make_plan(spec)
        assert isinstance(plan, ElementwisePlan)

        def fits(vector: int, plan: ElementwisePlan = plan) -> bool:
            try:
                for own in values_of_threads(plan).values():
                    assert_accesses_are_neighbours(own, vector, "MN".index(major))
            except AssertionError:
                return False
            return True

        assert plan.pointwise.vector == max(v for v in (1, 2, 4, 8) if fits(v)), layout
        found[plan.pointwise.vector] += 1
    assert found == {1: 18, 2: 4, 4: 2}  # of 24 orders, 6 start along the mode, and 2 of them stay on it


def copied(x: GemmOperand, depth: int) -> dict[int, list[tuple[int, int]]]:
    by_hand = dealt_out(x.thread_layout, x.value_layout)
    threads = 1 + max(t for t, _ in by_hand)
    count = len(by_hand) // threads
    own_tile = tuple(t * v for t, v in zip(sizes(x.thread_layout), sizes(x.value_layout), strict=True))
    repeats = list(itertools.product(range(x.block // own_tile[0]), range(depth // own_tile[1])))
    return {
        t: [
            (by_hand[t, v][0] + r * own_tile[0], by_hand[t, v][1] + s * own_tile[1])
            for r, s in repeats
            for v in range(count)
        ]
        for t in range(threads)
    }


def accumulated(plan: GemmPlan) -> dict[int, list[tuple[int, int]]]:
    """Thread -> its accumulators' (m, n), the output's contiguous mode first."""
    sides = sizes(plan.thread_layout)
    own = []
    for side, (mode, permutation) in enumerate(((plan.m, plan.permutation_m), (plan.n, plan.permutation_n))):
        layout, extent = permutation or Layout(sides[side]), plan.tile[mode]
        length = prod(flat(layout.shape))
        own.append(
            [
                [
                    r * length + place(layout, t + sides[side] * v)
                    for r in range(extent // length)
                    for v in range(length // sides[side])
                ]
                for t in range(sides[side])
            ]
        )
    found = {}
    for tm, tn in itertools.product(range(sides[0]), range(sides[1])):
        ms, ns = own[0][tm], own[1][tn]
        pairs = [(m, n) for m in ms for n in ns] if plan.row_first else [(m, n) for n in ns for m in ms]
        found[at(plan.thread_layout, (tm, tn, 0), sides)] = pairs
    return found


@quick
@given(gemm())
def test_gemm_plans_copy_and_compute_their_tiles_once(text: str) -> None:
    spec, report = resolved(text)
    if not report.failed:
        check(spec, report)
    event(str(sorted({d.code for d in report.diagnostics if d.severity == "error"})))
    if report.failed:
        return
    plan = make_plan(spec)
    assert isinstance(plan, GemmPlan)
    depth = plan.tile[plan.k]
    for x in (plan.a, plan.b):
        owned = copied(x, depth)
        assert sorted(owned) == list(range(plan.threads))
        assert Counter(w for own in owned.values() for w in own) == Counter(
            itertools.product(range(x.block), range(depth))
        )
        for own in owned.values():
            assert_accesses_are_neighbours(own, x.vector, int(x.tensor.major == plan.k))
            assert_accesses_are_neighbours(own, x.smem_vector, 0)
        need = x.vector * x.tensor.dtype.bytes
        written = x.smem_vector * x.tensor.dtype.bytes
        assert x.smem_stride * x.tensor.dtype.bytes % written == 0, "columns of shared memory are aligned"
        assert need <= (x.tensor.align or 0) or x.vector == 1
        assert x.smem_vector == 1 or x.tensor.major != plan.k
        assert x.atom == "universal" or (need in (4, 8, 16) and x.smem_vector == x.vector)
        mode = plan.k if x.tensor.major == plan.k else x.mode
        known = spec.static.get(mode) or spec.divisible.get(mode, 1)
        assert (known if x.workspace is None else x.workspace.write) % x.vector == 0
        if x.workspace is not None:
            source, step = x.workspace.tensor, x.workspace.read * x.tensor.dtype.bytes
            assert (source.major, x.tensor.major) == (plan.k, x.mode) and step <= (source.align or 0)
            assert (spec.static.get(plan.k) or spec.divisible.get(plan.k, 1)) % x.workspace.read == 0
    owned = accumulated(plan)
    assert Counter(w for own in owned.values() for w in own) == Counter(
        itertools.product(range(plan.tile[plan.m]), range(plan.tile[plan.n]))
    )
    for own in owned.values():
        assert len(own) == plan.pointwise.values
        assert_accesses_are_neighbours(own, plan.pointwise.vector, int(plan.row_first))
    for operand in plan.pointwise.operands:
        assert operand.bits <= 128
        assert operand.vector == 1 or operand.vector * operand.tensor.dtype.bytes <= (operand.tensor.align or 0)
    assert plan.smem_bytes <= 163 * 1024


# --------------------------------------------------------------------------------------------------- all combinations


@pytest.mark.parametrize("dtype", sorted(FLOATS))
def test_a_gemm_with_only_a_tiler_resolves_for_every_majorness_and_alignment(dtype: str) -> None:
    tilers = ({"M": 128, "N": 128, "K": 8}, {"M": 64, "N": 128, "K": 16}, {"M": 32, "N": 64, "K": 32})
    for majors in itertools.product("MK", "NK", "MN"):
        for align in sorted({FLOATS[dtype], 4, 8, 16} - set(range(FLOATS[dtype]))):
            for tiler in tilers:
                shapes = {"A": ["M", "K"], "B": ["N", "K"], "C": ["M", "N"]}
                tensors = {
                    name: {"shape": shape, "dtype": dtype, "major": major, "align": align}
                    for (name, shape), major in zip(shapes.items(), majors, strict=True)
                }
                tensors["C"]["role"] = "out"
                text = document("gemm", tensors, "C = A @ B.T", {"tiler": tiler})
                spec, report = resolved(text)
                if not report.failed:
                    check(spec, report)
                codes = [d.code for d in report.diagnostics]
                # 128 rows of 8 in f16, 256 threads: 2 elements a thread at least; all else must be found.
                assert not codes or (codes == ["CG221"] * len(codes)), (majors, align, tiler, report.diagnostics)
                assert all(d.help for d in report.diagnostics)
                if tiler["K"] == 8 and dtype in ("f32", "f64"):
                    assert not codes
                if not report.failed:
                    assert isinstance(spec.schedule, GemmSchedule)
                    widths = [spec.schedule.copies[name].bits for name in "ABC"]
                    limit = min(128, align * 8)
                    for name, major, width in zip("ABC", majors, widths, strict=True):
                        assert width == FLOATS[dtype] * 8 if major == "K" else width and width <= limit, (name, text)


# ---------------------------------------------------------------------------------------------------------- anything


@settings(max_examples=400, deadline=None, derandomize=True, suppress_health_check=[HealthCheck.too_slow])
@given(anything())
def test_broken_schedules_are_told_and_never_crash(text: str) -> None:
    try:
        made = generate(text, "x.yaml")
    except SpecError as error:
        event("refused")
        assert error.diagnostics
        return
    event("built")
    ast.parse(made.modules[0].text)
