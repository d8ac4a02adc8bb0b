"""Inference of a row kernel: the threads that hold a row, its pieces and its guards; and proofs of these."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from typing import Any

import pytest
from claims_kit import failing, quick
from hypothesis import event, given
from hypothesis import strategies as st
from planning_specs import document
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.families.rowwise.case_inference import inferred_cases as all_cases
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import counts_of_threads, fewest_threads, rows_with
from cutegen.families.rowwise.schedule import RowwiseSchedule, Spec
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.report import Report
from cutegen.verification.cases import derive_cases

UNIT = """\
cutegen: 1
kernel: unit_rows
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute: Y = X * rsqrt(sum(X * X, N))
"""


ANY = "targets: [sm_80]\n"  # one that has neither clusters nor bulk copies
HOPPER = "targets: [sm_90a]\n"


def inferred(text: str) -> RowwisePlan:
    """The plan of a spec that has nothing to complain about, and one schedule; for sm_80 where it does not say."""
    found = generate(text if "targets:" in text else text + ANY, "x.yaml")
    assert found.warnings == ()
    (module,) = found.modules
    assert isinstance(module.plan, RowwisePlan)
    return module.plan


def of_rows(size: int | None, dtype: str = "f32", more: str = "") -> RowwisePlan:
    fixed = "" if size is None else f"static: {{N: {size}}}\n"
    return inferred(UNIT.replace("f32", dtype) + fixed + more)


@pytest.mark.parametrize(
    ("size", "threads", "rows", "extent", "vector"),
    [
        (1, 1, 128, 1, 1),
        (4, 1, 128, 4, 4),
        (7, 4, 32, 8, 1),
        (24, 4, 32, 32, 4),
        (100, 16, 8, 128, 4),
        (128, 32, 4, 128, 4),
        (1000, 32, 4, 1024, 4),
        (4096, 128, 1, 4096, 4),
        (8192, 256, 1, 8192, 4),
    ],
)
def test_a_row_of_fixed_size_is_held_by_few_threads_and_loaded_once(
    size: int, threads: int, rows: int, extent: int, vector: int
) -> None:
    plan = of_rows(size)
    assert (plan.keep, plan.walked) == ("registers", False)
    assert (plan.threads_per_row, plan.rows, plan.tile["N"], plan.vector) == (threads, rows, extent, vector)
    assert ("N" in plan.masked) == (extent != size) and ("M" in plan.masked) == (rows > 1)


SOFTMAX = """\
cutegen: 1
kernel: softmax
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
"""
NORM = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: bf16}
  B: {shape: [N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - x = X - mean(X, N)
  - Y = x * rsqrt(mean(x * x, N)) * W + B
"""
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  r: {shape: [M], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
  d: {shape: [N], dtype: f32, role: out}
compute:
  - Y = X * W * r - mean(X * W, N)
  - d = sum(X * r, M)
"""


HELD = "schedule: {keep: registers}\n"
SHORT = UNIT.replace("f32", "bf16")
WEIGHTED = SHORT.replace("  Y:", "  W: {shape: [N], dtype: bf16}\n  Y:").replace("Y = X", "Y = W * X")


@pytest.mark.parametrize(
    ("text", "size", "blocks", "threads", "tile"),
    [
        (SOFTMAX, 131072, 8, 128, 4096),
        (SOFTMAX, 128256, 8, 128, 4096),  # which registers would hold with masks
        (SOFTMAX, 17400, 1, 128, 2048),  # of which larger pieces would waste
        (NORM, 16640, 1, 256, 4096),
        (NORM, 65536, 4, 128, 4096),  # whose blocks meet once, with a mean and squares
        (WEIGHTED, 20480, 1, 512, 8192),  # one block keeps somewhat more
        (SHORT, 32768, 2, 256, 8192),
        (SHORT, 262144, 16, 256, 8192),
    ],
)
def test_a_long_row_waits_in_shared_memory(text: str, size: int, blocks: int, threads: int, tile: int) -> None:
    plan = inferred(text + f"static: {{N: {size}}}\n" + HOPPER)
    assert (plan.keep, plan.cluster, plan.threads, plan.tile["N"]) == ("smem", blocks, threads, tile)
    assert plan.slots * tile * blocks >= size and failing(plan) == []
    # not where a target has no bulk copies, where something else is written, or where bulk copies do not fit
    assert inferred(text + f"static: {{N: {size}}}\n").keep != "smem"
    assert inferred(text + f"static: {{N: {size}}}\nschedule: {{threads_per_row: 256}}\n" + HOPPER).keep != "smem"
    assert inferred(text + f"static: {{N: {size + 1}}}\n" + HOPPER).keep != "smem"


@pytest.mark.parametrize(
    ("text", "size", "cluster", "kind"),
    sampled(
        [
            (SOFTMAX, 8192, 1, "grid"),
            (SOFTMAX, 12296, 2, "grid"),
            (SOFTMAX, 65536, 8, "grid"),
            (SOFTMAX, 98304, 8, "grid"),
            (SOFTMAX, 196608, 16, "grid"),
            (SOFTMAX, 262144, 8, "persistent"),  # shares of which more than 16 blocks would be best
            (NORM, 16384, 1, "grid"),  # which reads weights, too
            (NORM, 65536, 4, "persistent"),
            (NORM, 49152, 4, "grid"),
            (NORM, 262144, 16, "persistent"),
            (SHORT, 16384, 1, "grid"),  # whose blocks would meet once
            (SHORT, 65536, 4, "persistent"),
            (SHORT, 98304, 4, "persistent"),
            (SHORT, 40000, 2, "grid"),  # with masks
            (SUMS, 1000, 1, "persistent"),
            (SUMS, 4096, 2, "persistent"),
            (SUMS, 8192, 2, "persistent"),
        ],
        3,
    ),
)
def test_a_cluster_shares_a_long_row(text: str, size: int, cluster: int, kind: str) -> None:
    plan = inferred(text + f"static: {{N: {size}}}\n" + HELD + HOPPER)
    assert (plan.cluster, plan.keep, plan.spec.schedule.scheduler.kind) == (cluster, "registers", kind)
    assert plan.row_tile >= size > plan.row_tile - plan.threads_per_row * plan.vector * cluster
    assert plan.ahead == (kind == "persistent") and (plan.blocks or cluster) % cluster == 0
    assert failing(plan) == []
    # where a target has none, a block has a row, or walks it
    assert inferred(text + f"static: {{N: {size}}}\n").cluster == 1


LOSS = """\
cutegen: 1
kernel: losses
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  t: {shape: [M], dtype: i64}
  loss: {shape: [M], dtype: f32, role: out}
compute:
  - m = max(X, N)
  - loss = m + log(sum(exp(X - m), N)) - sum(where(coord(N) == t, X, 0), N)
"""


def lengths_of(text: str) -> list[tuple[int | None, int, int | None, RowwiseSchedule]]:
    """Of each case but the last one: of how many rows at most, above which length of one and up to which, and how."""
    found = []
    for case in all_cases(read_specs(text + HOPPER, "x.yaml")[0])[:-1]:
        sizes = case.conditions.sizes
        bounds = {one.relation: one.number for one in sizes["N"]}
        most = next((one.number for one in sizes.get("M", ())), None)
        found.append((most, bounds[">"], bounds.get("<="), case.schedule))
    return found


def test_long_rows_of_any_length_have_more_blocks_each_the_longer_they_are() -> None:
    longer = [(2**i, 2 ** (i + 1)) for i in range(14, 18)]
    for text in (SOFTMAX, NORM):
        found = [case for case in lengths_of(text) if case[0] is None]
        assert [case[1:3] for case in found] == [(10240, 12288), *longer]
        assert all(schedule == RowwiseSchedule(keep="smem") for *_, schedule in found)
    read = SOFTMAX.replace(
        "Y = e / sum(e, N)", "Y = X / sum(e, N)"
    )  # threads hold what was read, and nothing beside it
    assert [case[1:3] for case in lengths_of(read) if case[0] is None] == longer
    wide = lengths_of(SOFTMAX.replace("bf16", "f32"))
    assert [low for most, low, *_ in wide if most is None] == [2**i for i in range(13, 17)]


def test_few_rows_have_many_blocks_each() -> None:
    found = [case for case in lengths_of(SOFTMAX) if case[0] is not None]
    assert [case[:3] for case in found] == [(32, 8192, 16384), (32, 16384, 65536)]
    assert [schedule.cluster for *_, schedule in found] == [{"N": 4}, {"N": 16}]
    for _, _, high, schedule in found:
        assert schedule.keep == "registers" and (schedule.tiler or {})["N"] * (schedule.cluster or {})["N"] == high
    several = SOFTMAX.replace("[M, N]", "[B, M, N]")  # nothing bounds the product of two sizes
    assert lengths_of(several) and all(most is None for most, *_ in lengths_of(several))


@pytest.mark.parametrize(
    ("rows", "softmax", "loss"),
    sampled(
        [
            (32, [8192, 16384, 2**16, 2**17], [65536, 16384, 10240]),
            (100, [10240, *(2**i for i in range(14, 18))], [65536, 10240]),
            (1000, [10240, *(2**i for i in range(14, 18))], [65536, 10240]),
        ],
        2,
    ),
)
def test_a_fixed_number_of_rows_leaves_the_cases_that_some_length_gets(
    rows: int, softmax: list[int], loss: list[int]
) -> None:
    for text, lows in ((SOFTMAX, softmax), (LOSS, loss)):
        fixed = f"{text}static: {{M: {rows}}}\n"
        assert [case[:2] for case in lengths_of(fixed)] == [(None, low) for low in lows]
        generate(fixed + HOPPER, "x.yaml")


def test_long_rows_that_are_walked_once_wait_nowhere() -> None:
    found = lengths_of(LOSS)
    assert [case[:3] for case in found] == [
        *((256, 65536, None), (64, 16384, None)),  # few rows, which several blocks share
        *((None, 65536, None), (None, 10240, None)),
    ]
    assert [schedule.cluster for *_, schedule in found] == [{"N": 8}, {"N": 4}, None, None]
    assert all(one.keep == "reload" for *_, one in found)


@pytest.mark.parametrize(
    ("text", "math"),
    [
        (LOSS, "fast"),
        (LOSS.replace("loss = m + log", "loss = exp(m) + log"), "precise"),
        (LOSS.replace("exp(X - m)", "exp(X)"), "precise"),
        (SOFTMAX, "fast"),
        (SOFTMAX.replace("Y: {shape: [M, N], dtype: bf16", "Y: {shape: [M, N], dtype: f32"), "precise"),
    ],
)
def test_exponentials_are_fast_where_results_hide_it_or_a_row_has_sums_of_them_only(text: str, math: str) -> None:
    assert inferred(text + "static: {N: 4096}\n").spec.schedule.math == math


SPREAD = {"softmax": SOFTMAX, "norm": NORM, "weighted": WEIGHTED, "f32": UNIT}
SIZES = (24, 200, 384, 1000, 1536, 2560, 5000, 5120, 5376, 7168, 8000, 8192)


@pytest.mark.parametrize(("kind", "size"), sampled(product(SPREAD, SIZES), 5))  # of each kind some
def test_a_row_of_fixed_size_has_no_more_idle_lanes_than_a_launch_for_any_size_gives_it(kind: str, size: int) -> None:
    text = SPREAD[kind]
    fixed, free = inferred(text + f"static: {{N: {size}}}\n" + HOPPER), inferred(text)
    assert free.fewer_threads and (fixed.keep, fixed.cluster) == ("registers", 1)
    held = fewest_threads(free.flat, size) * free.values
    assert size <= fixed.tile["N"] <= held and fixed.values <= free.values
    assert fixed.threads_per_row in counts_of_threads(1024)


def test_of_several_tensors_that_are_the_same_for_all_rows_threads_hold_few_values_or_load_them_late() -> None:
    for size, threads, early in ((1536, 64, False), (2560, 160, True), (7168, 448, False), (8000, 256, False)):
        plan = inferred(NORM + f"static: {{N: {size}}}\n" + HOPPER)
        assert (plan.threads_per_row, plan.broadcasts_early) == (threads, early)
    assert inferred(WEIGHTED + "static: {N: 7168}\n" + HOPPER).broadcasts_early  # one tensor takes few registers
    shared = "static: {N: 16000}\nschedule: {keep: registers, threads_per_row: 128, cluster: {N: 4}}\n"
    plan = inferred(NORM + shared + HOPPER)
    assert plan.values == 32 and plan.broadcasts_early  # few rows, which wait for memory once


def test_nothing_is_loaded_ahead_that_is_written_otherwise() -> None:
    plan = inferred(SUMS + "static: {N: 4096}\nschedule: {pipeline: {stages: 1}}\n" + HOPPER)
    assert (
        not plan.ahead and plan.persistent and "load_rows" not in generate(write_spec(plan.spec), "x").modules[0].text
    )


def test_what_broadcasts_is_loaded_late_by_large_blocks_only() -> None:
    few, many = (inferred(SUMS + f"static: {{N: {size}}}\nschedule: {{threads_per_row: {threads}}}\n")
                 for size, threads in ((4096, 256), (8192, 512)))  # fmt: skip
    assert few.broadcasts_early and not many.broadcasts_early


@pytest.mark.parametrize(  # every fourth one is of each type and of each size
    ("size", "dtype"),
    sampled(product([1, 3, 16, 31, 48, 333, 1024, 5000, 16384], ["f64", "f32", "f16", "bf16", "i32", "i8", "u8"]), 4),
)
def test_whoever_holds_a_row_holds_it_whole_with_few_values_each(dtype: str, size: int) -> None:
    text = UNIT.replace("rsqrt(sum(X * X, N))", "sum(X * X, N)").replace("f32", dtype)
    plan = inferred(text + f"static: {{N: {size}}}\n")
    assert plan.keep == "registers" and plan.tile["N"] >= size
    assert plan.tile["N"] - size < plan.threads_per_row * plan.vector, "no access of all threads is idle"
    assert plan.values * plan.threads_per_row == plan.tile["N"] and plan.values % plan.vector == 0
    bytes_each = Dtype[dtype].bytes
    assert plan.vector * bytes_each <= 16 and size % plan.vector == 0
    assert plan.vector == 16 // bytes_each or size % (2 * plan.vector), "as wide as the size allows"
    assert plan.values <= 64 and (plan.rows * plan.threads_per_row == 128 or plan.threads_per_row > 128)
    assert plan.threads_per_row <= 32 or plan.values > 16, "no more than a warp, unless it is full"


@pytest.mark.parametrize("dtype", ["f64", "f32", "f16", "i8"])
def test_a_row_of_any_length_has_as_few_threads_as_hold_it(dtype: str) -> None:
    text = UNIT.replace("rsqrt(sum(X * X, N))", "sum(X * X, N)").replace("f32", dtype)
    plan = inferred(text)
    vector = 16 // Dtype[dtype].bytes
    assert (plan.keep, plan.threads_per_row, plan.rows, plan.vector) == ("registers", 512, 1, vector)
    assert plan.fewer_threads and plan.tile == {"M": 1, "N": 512 * 32} and plan.masked == ("M", "N")
    longer = plan.longer
    assert longer is not None and longer.walked and longer.threads == 512 and longer.tile == plan.tile
    assert "N" not in plan.spec.divisible, "what wide accesses do not fit runs with narrow ones"
    refusing = inferred(text + "schedule: {copy: {fallback: refuse}}\n")
    assert refusing.spec.divisible["N"] == vector, "whole accesses, which the host asks for"


def test_a_row_that_no_block_holds_is_walked_again() -> None:
    sizes = {size: of_rows(size).keep for size in (4096, 16384, 131072, 10**6)}
    assert list(sizes.values()) == sorted(sizes.values()) and sizes[4096] == "registers"
    assert sizes[131072] == sizes[10**6] == "reload"


@pytest.mark.parametrize(
    "schedule", ["threads_per_row: 64", "tiler: {M: 2}", "scheduler: {blocks: 8}", "keep: reload", "cluster: {N: 2}"]
)
def test_what_fixes_the_threads_of_a_row_leaves_rows_of_any_length_to_be_walked(schedule: str) -> None:
    plan = inferred(UNIT + f"schedule: {{{schedule}}}\n" + (HOPPER if "cluster" in schedule else ""))
    assert plan.walked and not plan.fewer_threads and plan.longer is None


def cases_of(text: str) -> list[RowwisePlan]:
    """The plans of a module of several kernels, which hold."""
    (module,) = generate(text, "x.yaml").modules
    plans = [plan for plan in getattr(module.plan, "kernels", (module.plan,)) if isinstance(plan, RowwisePlan)]
    assert [failing(plan) for plan in plans] == [[]] * len(plans)
    return plans


def test_rows_of_any_length_that_are_summed_over_are_held_by_as_many_threads_and_blocks_as_they_need() -> None:
    *held, rest = cases_of(SUMS + HOPPER)
    assert [(plan.cluster, plan.spec.sizes_of("N")[1]) for plan in held] == [(1, 512), (2, 16384), (16, 131072)]
    for plan in held:
        assert plan.fewer_threads and plan.ahead and plan.longer is None and not plan.walked
        assert plan.row_tile == plan.spec.sizes_of("N")[1] and plan.threads_per_row in (32, 512)
        assert plan.column_rows == (plan.blocks or 0) // plan.cluster, "blocks add up what their rows have"
    assert rest.walked and rest.cluster == 16 and not rest.fewer_threads
    alone, walked = cases_of(SUMS + ANY)
    assert (alone.cluster, alone.row_tile, walked.walked, walked.cluster) == (1, 8192, True, 1)
    written = inferred(SUMS + "schedule: {copy: {fallback: refuse}}\n")
    assert written.walked and not written.fewer_threads, "one kernel for rows of any length"


def test_all_blocks_of_a_launch_run_at_once_whatever_their_size() -> None:
    """One that had to wait for another would take the time of all its rows again."""
    room = {1: 132, 2: 132, 16: 112}  # multiprocessors that clusters fill
    for plan in cases_of(SUMS + HOPPER)[:-1]:
        for threads in counts_of_threads(plan.threads_per_row):
            block = threads * rows_with(plan.flat, threads)
            blocks = plan.blocks_with(block)
            assert blocks % plan.cluster == 0 and 0 < blocks <= room[plan.cluster] * (512 // block)
            assert blocks == plan.blocks_with(block), "the same on every GPU"


@pytest.mark.parametrize(
    ("size", "cluster", "fewer"),
    [(64, 1, True), (500, 1, True), (1536, 2, True), (2560, 2, True), (4096, 2, False), (8192, 2, False)]
    + [(11008, 2, True), (16384, 2, True), (65536, 16, False), (262144, 16, False)],
)
def test_a_fixed_row_that_is_summed_over_has_the_kernel_of_its_length(size: int, cluster: int, fewer: bool) -> None:
    plan = inferred(SUMS + f"static: {{N: {size}}}\n" + HOPPER)
    assert (plan.cluster, plan.fewer_threads) == (cluster, fewer)
    assert plan.row_tile >= size or plan.walked
    assert failing(plan) == []


@pytest.mark.parametrize("most", [1, 8, 32, 64, 512, 1024])
def test_a_launch_has_as_few_threads_as_hold_a_row(most: int) -> None:
    plan = inferred(UNIT + f"schedule: {{shorter: fewer_threads, threads_per_row: {most}}}\n")
    counts = counts_of_threads(most)
    assert counts[-1] == most and counts == sorted(set(counts))
    for size in {1, 5, *(plan.values * n + more for n in counts for more in (-1, 0, 1))}:
        threads = fewest_threads(plan.spec, size)
        assert threads in counts and (threads * plan.values >= size or threads == most)
        assert threads == counts[0] or counts[counts.index(threads) - 1] * plan.values < size
    rows = {threads: rows_with(plan.spec, threads) for threads in counts}
    assert all(count * threads <= max(128, most) for threads, count in rows.items())
    assert failing(plan) == []


def test_the_more_a_row_needs_the_more_threads_share_it() -> None:
    few = inferred(UNIT + "static: {N: 2048}\n")
    others = "".join(f"  {name}: {{shape: [M, N], dtype: f32}}\n" for name in "STUV")
    more = UNIT.replace("compute: Y = X *", f"{others}compute: Y = S * T * U * V * X *")
    many = inferred(more + "static: {N: 2048}\n")
    assert few.threads_per_row < many.threads_per_row and few.values > many.values


def test_threads_of_a_row_never_fall_as_it_grows() -> None:
    found = [of_rows(4 * n).threads_per_row for n in (1, 2, 3, 5, 8, 13, 32, 100, 500, 1000, 2000, 4000, 8000)]
    assert found == sorted(found) and found[0] == 1 and found[-1] > 128


def test_what_is_written_is_left_as_it_is() -> None:
    schedule = "schedule: {threads_per_row: 16, tiler: {M: 2, N: 256}, keep: reload, predication: {N: mask}}\n"
    plan = of_rows(1000, more=schedule)
    assert (plan.threads_per_row, plan.tile, plan.keep) == (16, {"M": 2, "N": 256}, "reload")
    assert plan.masked == ("M", "N") and plan.values == 16


def test_a_tiler_that_does_not_hold_the_row_makes_it_be_walked() -> None:
    assert of_rows(1000, more="schedule: {tiler: {N: 512}}\n").keep == "reload"
    assert of_rows(1000, more="schedule: {tiler: {N: 1024}}\n").keep == "registers"


def test_a_narrow_alignment_makes_narrow_accesses() -> None:
    plan = inferred(UNIT.replace("dtype: f32, role", "dtype: f32, align: 8, role"))
    assert plan.vector == 2 and plan.spec.schedule.narrows
    odd = inferred(UNIT.replace("dtype: f32", "dtype: f32, align: 4"))
    assert odd.vector == 1 and odd.spec.divisible.get("N", 1) == 1


def test_a_row_alone_and_rows_of_several_modes() -> None:
    alone = inferred(UNIT.replace("[M, N]", "[N]"))
    assert alone.beside is None and alone.rows == 1 and alone.tile_order == () and alone.most_tiles is None
    deep = inferred(UNIT.replace("[M, N]", "[P, M, N]") + "static: {N: 16}\n")
    assert deep.beside == "M" and deep.tile["P"] == 1 and deep.tile["M"] == 128 // deep.threads_per_row
    assert deep.tile_order == (1, 0) and "P" not in deep.masked
    turned = inferred(UNIT.replace("[M, N]", "[P, M, N]") + "schedule: {scheduler: {raster: P}}\n")
    assert turned.tile_order == (0, 1)


def test_the_row_may_be_any_mode_that_is_contiguous() -> None:
    text = UNIT.replace(", N))", ", M))").replace("dtype: f32", "dtype: f32, major: M") + "static: {M: 32}\n"
    plan = inferred(text)
    assert (plan.row, plan.beside) == ("M", "N") and plan.tile["M"] == 32 and plan.rows == plan.tile["N"] == 16


def test_of_each_reduction_every_warp_has_its_partial_result() -> None:
    text = UNIT.replace("rsqrt(sum(X * X, N))", "sum(X, N) + max(X, N)") + "static: {N: 8192}\n"
    plan = inferred(text)
    assert plan.warps_per_row > 1 and len(plan.program.reductions) == 2
    assert plan.smem_bytes == 2 * -(-plan.rows * plan.warps_per_row * 4 // 16) * 16
    assert of_rows(128).smem_bytes == 0


# ----------------------------------------------------------------------------------------------------------- properties

KINDS = {"f64": 8, "f32": 4, "f16": 2, "bf16": 2, "i32": 4, "i8": 1, "u8": 1, "bool": 1}
COMPUTE = [
    ["Y = cast(sum(X, N) + B, f32)"],
    ["d = X - mean(X, N)", "Y = cast(d * mean(d * d, N) * B, f32)"],
    ["Y = cast(X - max(X, N), f32)", "s = min(X * B, N) + coord(N) * 0 + max(X, N)"],
]


@st.composite
def specs(draw: st.DrawFn) -> str:
    """Few fields of a schedule, of a kernel of any modes, types, sizes and promises."""
    modes = ["P", "M", "N"][draw(st.integers(0, 2)) :]
    shapes = {"X": modes, "B": ["N"], "Y": modes}
    if len(modes) > 1 and draw(st.booleans()):
        shapes["B"] = modes[:-1]
    tensors: dict[str, Any] = {}
    for name, shape in shapes.items():
        kind = "f32" if name == "Y" else draw(st.sampled_from(sorted(set(KINDS) - {"bool"})))
        tensors[name] = {"shape": shape, "dtype": kind}
        if draw(st.booleans()):
            tensors[name]["align"] = draw(st.sampled_from([a for a in (1, 2, 4, 8, 16) if a >= KINDS[kind]]))
    tensors["Y"]["role"] = "out"
    compute = draw(st.sampled_from(COMPUTE[:2]))
    schedule: dict[str, Any] = {}
    if draw(st.integers(0, 2)) == 0:
        schedule["threads_per_row"] = 1 << draw(st.integers(0, 8))
    if draw(st.integers(0, 2)) == 0:
        schedule["keep"] = "reload"
    if len(modes) > 1 and draw(st.integers(0, 2)) == 0:
        schedule["tiler"] = {modes[-2]: draw(st.sampled_from([1, 2, 3, 4]))}
    more: dict[str, Any] = {}
    sizes = st.one_of(st.integers(1, 70), st.sampled_from([96, 100, 1000, 1024, 4097, 8192, 100_000, 131_072]))
    if draw(st.booleans()):
        more["static"] = {mode: draw(sizes if mode == "N" else st.integers(1, 300)) for mode in modes if draw(
            st.booleans())}  # fmt: skip
    if draw(st.booleans()) and "N" not in more.get("static", {}):
        more["divisible"] = {"N": draw(st.sampled_from([1, 2, 3, 6, 8, 24, 512]))}
    more["targets"] = draw(st.sampled_from([["sm_80"], ["sm_90a"], ["sm_80", "sm_90a"]]))
    return document("rowwise", tensors, compute, schedule, **more)  # type: ignore[arg-type]


def resolved(text: str) -> tuple[Spec, Report]:
    spec = read_specs(text, "x.yaml")[0]
    report = Report(spec.source)
    return resolve(spec, report), report


@quick
@given(specs())
def test_what_is_inferred_is_right_and_proved(text: str) -> None:
    spec, report = resolved(text)
    if report.failed:
        assert "divisible" in text or "static" in text, report.diagnostics
        event("promises that clash")
        return
    check(spec, report, advise=False)
    assert not report.failed or "threads_per_row" in text, report.diagnostics
    if report.failed:
        event("too many threads")
        return
    kernels = spec.family.kernels(spec, report)
    event(f"{len(kernels)} kernels")
    for one, _ in kernels:
        plan = make_plan(one)
        assert isinstance(plan, RowwisePlan) and not failing(plan), failing(plan)
        event(plan.keep)
        assert plan.threads == plan.rows * plan.threads_per_row <= 1024 or plan.fewer_threads
        longest = one.static.get("N", one.sizes_of("N")[1])
        assert plan.walked or plan.longer or max(plan.slots, 1) * plan.row_tile >= longest


@quick
@given(specs())
def test_a_resolved_spec_resolves_to_itself(text: str) -> None:
    spec, report = resolved(text)
    if report.failed:
        return
    again, second = resolved(write_spec(spec))
    assert replace(again, source=spec.source) == spec
    assert not second.inferred, "nothing is left to infer"


@quick
@given(specs())
def test_everything_that_was_inferred_says_why(text: str) -> None:
    spec, report = resolved(text)
    if report.failed:
        return
    assert all(report.inferred.values())
    whole = ("schedule",) in report.inferred  # with its cases, and where each keeps its rows
    for one, told in spec.family.kernels(spec, report):
        for field in ("keep", "threads_per_row"):
            assert whole or (("schedule", field) in told.inferred) == (field not in text)
        assert set(one.schedule.tiler or {}) == set(one.lead.shape)


def test_a_schedule_that_is_not_sound_is_left_to_lint() -> None:
    for wrong in ("threads_per_row: 3", "threads_per_row: 2048", "tiler: {M: 4096}"):
        with pytest.raises(SpecError):
            generate(UNIT + f"schedule: {{{wrong}}}\n", "x.yaml")


def test_many_tiles_of_rows_are_blocks_that_run() -> None:
    """A sum over rows may have no rows, but then no block has a wrong number."""
    text = """\
cutegen: 1
kernel: columns
op: rowwise
tensors:
  X: {shape: [A, M, N], dtype: f32}
  s: {shape: [N], dtype: f32, role: out}
compute: s = sum(sum(X, A), M)
static: {N: 24}
"""
    plan = inferred(text)
    many = [case for case in derive_cases(plan) if case.name.startswith("more than")]
    assert many and all(plan.spec.family.blocks(plan, case.sizes) for case in many)
