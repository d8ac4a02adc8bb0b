"""Rows of a block that there are not, and how many blocks walk all rows: mistakes that ordinary numbers do not show."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest
from kept_kit import changed, module_of, plan_of

from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import fewest_threads, rows_with
from cutegen.hostchecks import grids
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.sizes import small
from cutegen.verification.asked import family_of
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.forms import runners_of_forms
from cutegen.verification.runner import verify_case
from cutegen.verification.tensors import make_tensors

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

# Clusters with rows of lanes of one warp, four to a block, and places for the sums of 320 clusters, of which 264 run
SUMMED = """\
cutegen: 1
kernel: summed
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  r: {shape: [M], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: out}
compute:
  - x = X * r
  - dX = dY - x * mean(dY * x, N)
  - dW = sum(dY * x, M)
schedule: {shorter: fewer_threads, threads_per_row: 32, tiler: {N: 256}, cluster: {N: 2}, scheduler: {blocks: 640}}
targets: [sm_90a]
"""
ANY_N = SUMMED.replace("schedule: {", "# {")
NARROW, PLACES = "a row alone, narrow", "more rows than places"
MISTAKES = {
    "        if has_row:\n            tdYrdW.store": "        if True:\n            tdYrdW.store",
    "cutlass.min(row_tiles, blocks // CLUSTER)": "cutlass.min(row_tiles, blocks)",
}


def found(folder: Path, names: tuple[str, ...], changes: Mapping[str, str]) -> tuple[list[str], list[str]]:
    """The problems of the module with those changes: in some of its cases, and in the checks of grids."""
    module, text = module_of(SUMMED), changed(module_of(SUMMED), changes)
    path = folder / "summed.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor, cases = load_module(path), EmulatorExecutor(lines=False), derive_cases(module.plan)
    chosen = [next(case for case in cases if case.name == name) for name in names]
    reports = [verify_case(module.plan, case, loaded, executor) for case in chosen]
    usual = Case("wrong calls", "", small(module.spec), "padded", "integers")
    host = Host(module.plan, loaded, executor, usual, make_tensors(module.spec, usual, "cpu"))
    wrong = [f"{one.name}: {one.message}" for one in reports if one.status != "passed"]
    return wrong, [problem for check in grids.checks(host) if (problem := check.run())]


def test_a_right_module_passes(tmp_path: Path) -> None:
    assert found(tmp_path, (NARROW, PLACES), {}) == ([], [])


def test_a_row_that_there_is_not_and_too_many_clusters_are_found(tmp_path: Path) -> None:
    """Each by its own case, and by no other: such a row adds 0 to sums, and most launches have places for all."""
    names = ("rows", "offset residue, narrow", "rows of two turns, narrow", NARROW, PLACES)
    wrong, of_grids = found(tmp_path, names, MISTAKES)
    assert [problem.split(":")[0] for problem in wrong] == [NARROW, PLACES]
    assert "nan, expected" in wrong[0] and "past the end of workspace" in wrong[1]
    (said,) = of_grids
    assert said.endswith(": 1056 blocks are launched, and not 528")


def test_each_kernel_has_more_rows_than_places_and_one_of_each_form_three_turns() -> None:
    """Each kernel of a module has its own memory for sums, and its own launches."""
    plan = module_of(ANY_N).plan
    cases, runners = derive_cases(plan), runners_of_forms(plan)
    assert len(runners) < len(plan.kernels) == 4
    for place, kernel in enumerate(plan.kernels):
        assert isinstance(kernel, RowwisePlan)
        tiles, turns = [], []
        for sizes in (case.sizes for case in cases if case.of == (kernel.case, 0)):
            threads = fewest_threads(kernel.flat, sizes["N"])
            of_block = rows_with(kernel.flat, threads) if kernel.fewer_threads else kernel.rows
            clusters = family_of(kernel.spec).blocks(kernel, {**sizes, "M": 1 << 20}) // kernel.cluster
            tiles.append(-(-sizes["M"] // of_block))
            turns.append(-(-tiles[-1] // clusters))
        assert max(tiles) > kernel.column_rows, kernel.case
        assert max(turns) >= (3 if place in runners else 2), kernel.case


def test_what_hides_infinities_of_others_has_them_alone() -> None:
    """Where the sum needs a mean of the row, which is NaN with them."""
    apart = SUMMED.replace("x = X * r\n", "x = X * r * rsqrt(mean(X * X, N) + 0.01)\n")
    alone = {case.name: case.infinite for case in derive_cases(plan_of(apart)) if "alone, " in case.name}
    assert alone["a row alone, dY"] == ("dY",) and alone["a row alone, X, narrow"] == ("X",)
    (together,) = (case.infinite for case in derive_cases(plan_of(SUMMED)) if case.name == NARROW)
    assert together == ("dY", "X")
