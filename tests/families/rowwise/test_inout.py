"""Values of a row that are read and written: all threads of the row have the old one, however they share the row."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_kit import found_in

from cutegen.codegen import generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import CaseReport
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

SCALES = """\
cutegen: 1
kernel: scales
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  amax: {shape: [M], dtype: f32, role: inout}
  steps: {shape: [M], dtype: i32, role: inout}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - old = amax
  - steps = steps + 1
  - amax = maximum(amax, max(abs(X), N))
  - Y = X * old + amax * steps
schedule: {SCHEDULE}
"""
WAYS = {
    "lanes": ("threads_per_row: 4, tiler: {M: 8}", "static: {N: 24}\ntargets: [sm_80]"),
    "a thread": ("threads_per_row: 1, tiler: {M: 32}", "static: {N: 8}\ntargets: [sm_80]"),
    "warps": ("threads_per_row: 64, tiler: {M: 2}", "static: {N: 117}\ntargets: [sm_80]"),
    "reload": ("keep: reload, threads_per_row: 32, tiler: {M: 2, N: 128}", "targets: [sm_80]"),
    "smem, next": (
        "keep: smem, threads_per_row: 64, tiler: {N: 256}, pipeline: {stages: 2}, "
        "scheduler: {kind: persistent, blocks: 3}",
        "static: {N: 1024}\ntargets: [sm_90a]",
    ),
    "cluster": ("threads_per_row: 64, tiler: {M: 2}, cluster: {N: 4}", "static: {N: 500}\ntargets: [sm_90a]"),
    "cluster, next": (
        "threads_per_row: 32, tiler: {M: 2}, cluster: {N: 2}, scheduler: {blocks: 4}",
        "static: {N: 250}\ntargets: [sm_90a]",
    ),
    "next": (
        "keep: registers, threads_per_row: 32, tiler: {M: 2}, scheduler: {kind: persistent, blocks: 3}",
        "static: {N: 100}\ntargets: [sm_80]",
    ),
    "few": ("shorter: fewer_threads, threads_per_row: 64, tiler: {N: 512}", "targets: [sm_80]"),
}
MEET = "    # All threads of the row have read what is written now\n"
MISTAKES = [
    ("lanes", "lanes do not meet", (f"{MEET}    cute.arch.sync_threads()\n", "")),
    ("few", "lanes of one warp do not meet", ("        cute.arch.sync_threads()  # all threads", "        pass  #")),
    ("cluster", "blocks do not meet", (f"{MEET}    cute.arch.cluster_arrive()\n    cute.arch.cluster_wait()\n", "")),
    ("next", "the next values of another block's row", (
        "next_tile if next_tile < row_tiles else row_tile", "cutlass.min(next_tile, row_tiles - 1)",
    )),
]  # fmt: skip
CASES = ("rows", "rows of two pieces", "rows, 8 threads a row", "several rows a block", "rows of two turns")


def _reports(text: str, folder: Path, change: tuple[str, str] = ("", "")) -> list[CaseReport]:
    (module,) = generate(text, "x.yaml").modules
    path = folder / f"{module.spec.kernel}.py"
    assert change[0] in module.text
    path.write_text(module.text.replace(*change), encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name in CASES]
    return [verify_case(module.plan, case, loaded, executor) for case in cases]


def _text(way: str) -> str:
    schedule, rest = WAYS[way]
    return SCALES.replace("SCHEDULE", schedule) + rest + "\n"


@pytest.mark.parametrize("way", WAYS)
def test_old_values_are_read_before_new_ones_are_written(way: str, tmp_path: Path) -> None:
    found = _reports(_text(way), tmp_path)
    assert found and [(one.name, one.message) for one in found if one.status != "passed"] == []


@pytest.mark.parametrize(("way", "what", "change"), MISTAKES, ids=[what for _, what, _ in MISTAKES])
def test_a_new_value_that_may_come_before_an_old_one_is_read_is_found(
    way: str, what: str, change: tuple[str, str], tmp_path: Path
) -> None:
    found = _reports(_text(way), tmp_path, change)
    assert any("fault[unordered]" in one.message for one in found), what


COLUMNS = """\
cutegen: 1
kernel: columns
op: rowwise
tensors:
  dY: {shape: [M, N], dtype: bf16}
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  dX: {shape: [M, N], dtype: bf16, role: out}
  dW: {shape: [N], dtype: f32, role: inout}
  m: {shape: [N], dtype: bf16, role: inout}
  top: {shape: [N], dtype: f32, role: inout}
compute:
  - dX = dY * W - mean(dY * X, N)
  - dW = dW + sum(dY * X, M)
  - m = 0.5 * m + 0.5 * mean(X, M)
  - top = maximum(top, max(abs(X), M))
static: {N: 40}
targets: [sm_80]
"""


def test_an_old_value_of_a_column_is_part_of_what_is_made_of_all_rows(tmp_path: Path) -> None:
    """As gradients are accumulated: the rows stay along N, as torch's tensors have them."""
    (module,) = generate(COLUMNS, "x.yaml").modules
    assert all(tensor.major == "N" for tensor in module.spec.tensors)
    path = tmp_path / "columns.py"
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    wanted = ("primes", "special values", "several rows a block", "rows of two turns", "M = 0")
    cases = [case for case in derive_cases(module.plan) if case.name in wanted]
    found = [verify_case(module.plan, case, loaded, executor) for case in cases]
    assert {"primes", "special values"} < {one.name for one in found}
    assert [(one.name, one.message) for one in found if one.status != "passed"] == []


@pytest.mark.parametrize("compute", ["dW = dW * W + sum(X, M)", "dW = dW + sum(X, M) * coord(N)"])
def test_what_is_more_than_that_is_refused(compute: str) -> None:
    text = COLUMNS.replace("dW = dW + sum(dY * X, M)", compute)
    assert [d.code for d in found_in(text) if d.severity == "error"] == ["CG127"]
