"""Reductions beside sums, means and extremes: torch's values, of NaN, infinities, ties and of no elements too."""

from __future__ import annotations

from pathlib import Path

import pytest
from lint_kit import found_in

from cutegen.codegen import generate
from cutegen.emulator import install, on_device
from cutegen.hostchecks.checks import host_checks
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.report import CaseReport
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

INF, NAN = float("inf"), float("nan")
SPECIAL = [
    [1.0, 2.0, 3.0, 2.0],
    [1.0, NAN, 3.0, NAN],
    [3.0, 1.0, 3.0, 1.0],
    [-INF, -INF, -INF, -INF],
    [INF, 1.0, INF, -2.0],
    [INF, -INF, 0.0, 1.0],
    [-1.0, -2.0, -INF, -4.0],
    [0.0, -0.0, 0.0, 0.0],
    [0.0, NAN, 0.0, 0.0],
    [1e18, 1e18, 0.5, 2.0],
    [1e-30, 5.0, 1e-6, 1e15],
    [100.0, -100.0, 88.0, 90.0],
    [16777216.0, 16777217.0, 16777219.0, 1.0],
]
NAMES = ["argmax", "argmin", "logsumexp", "var", "std", "prod", "any", "all"]
ALL = """\
cutegen: 1
kernel: all_of_them
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  argmax: {shape: [M], dtype: i64, role: out}
  argmin: {shape: [M], dtype: i32, role: out}
  logsumexp: {shape: [M], dtype: f32, role: out}
  var: {shape: [M], dtype: f32, role: out}
  std: {shape: [M], dtype: f32, role: out}
  prod: {shape: [M], dtype: f32, role: out}
  any_: {shape: [M], dtype: bool, role: out}
  all_: {shape: [M], dtype: bool, role: out}
compute:
  - argmax = argmax(X, N)
  - argmin = argmin(X, N)
  - logsumexp = logsumexp(X, N)
  - var = var(X, N)
  - std = std(X, N)
  - prod = prod(X, N)
  - any_ = any(X, N)
  - all_ = all(X, N)
"""
# As parts of expressions, of values that are computed and of several types, however a row is shared
PARTS = """\
cutegen: 1
kernel: parts
op: rowwise
tensors:
  X: {shape: [M, N], dtype: DTYPE}
  w: {shape: [N], dtype: f32}
  a: {shape: [M], dtype: i64, role: out}
  v: {shape: [M], dtype: f32, role: out}
  p: {shape: [M], dtype: PRODUCT, role: out}
  t: {shape: [M], dtype: bool, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - a = argmax(X, N) + 2 * argmin(X * w + 1, N)
  - v = var(X * w, N)
  - p = prod(X, N)
  - t = any(X > 3, N) and not all(X, N)
  - Y = X - logsumexp(X * w, N) + std(X, N)
"""
WAYS = {
    "lanes": ("i32", "i32", "schedule: {threads_per_row: 8, tiler: {M: 4}}\nstatic: {N: 20}\ntargets: [sm_80]"),
    "reload": ("f32", "f32", "schedule: {keep: reload, threads_per_row: 32, tiler: {N: 128}}\ntargets: [sm_80]"),
    "cluster": (
        "f16", "f32",
        "schedule: {threads_per_row: 64, tiler: {M: 2}, cluster: {N: 4}}\nstatic: {N: 500}\ntargets: [sm_90a]",
    ),
}  # fmt: skip
CASES = ("rows", "special values", "rows of two pieces")


def _cases(text: str, folder: Path, *names: str) -> list[CaseReport]:
    (module,) = generate(text, "x.yaml").modules
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name in names]
    return [verify_case(module.plan, case, loaded, executor) for case in cases]


def test_every_reduction_is_torchs_of_special_values(tmp_path: Path) -> None:
    (module,) = generate(f"{ALL}static: {{N: 4}}\ntargets: [sm_80]\n", "x.yaml").modules
    path = tmp_path / "all_of_them.py"
    path.write_text(module.text, encoding="utf-8")
    loaded = load_module(path)
    install(loaded, "all_of_them", lines=False)
    x = torch.tensor(SPECIAL)
    outputs = {t.name: torch.empty(len(x), dtype=getattr(torch, t.dtype.torch)) for t in module.spec.outputs}
    loaded.all_of_them(x=on_device(x), **{name: on_device(output) for name, output in outputs.items()})
    for name in NAMES:
        found, wanted = outputs.get(name, outputs.get(f"{name}_")), getattr(torch, name)(x, -1)
        assert torch.allclose(found.double(), wanted.double(), rtol=1e-6, atol=0, equal_nan=True), name


@pytest.mark.parametrize("way", WAYS)
def test_reductions_are_right_however_a_row_is_shared(way: str, tmp_path: Path) -> None:
    dtype, product, rest = WAYS[way]
    found = _cases(PARTS.replace("DTYPE", dtype).replace("PRODUCT", product) + rest + "\n", tmp_path, *CASES)
    assert {"rows", "special values"} <= {one.name for one in found}
    assert [(one.name, one.message) for one in found if one.status != "passed"] == []
    ordinary = [one for one in found if one.name != "special values"]
    assert all(one.unbounded < one.elements / 2 for one in ordinary), "most elements are judged"


def test_of_no_elements_they_are_what_torch_has(tmp_path: Path) -> None:
    """There is no place of an extreme of none: torch refuses those."""
    kept = [line for line in ALL.splitlines() if "arg" not in line]
    schedule = "schedule: {keep: reload, threads_per_row: 8, tiler: {M: 2, N: 32}}\ntargets: [sm_80]\n"
    (found,) = _cases("\n".join([*kept, schedule]), tmp_path, "N = 0")
    assert found.status == "passed" and found.unbounded == 0, found.message


def test_rows_without_elements_keep_no_place_from_being_built(tmp_path: Path) -> None:
    """Where torch refuses, the reference has what the kernel's definition gives: host checks go on."""
    kept = [line for line in ALL.splitlines() if "arg" in line or "X:" in line or not line.startswith("  ")]
    schedule = "schedule: {keep: reload, threads_per_row: 8, tiler: {M: 2, N: 32}}\ntargets: [sm_80]\n"
    (module,) = generate("\n".join([*kept, schedule]), "x.yaml").modules
    path = tmp_path / "all_of_them.py"
    path.write_text(module.text, encoding="utf-8")
    found = list(host_checks(module.plan, load_module(path), EmulatorExecutor(lines=False)))
    assert [check.what for check in found if "where N is 0" in check.what]
    assert [(check.what, check.message) for check in found if check.status == "failed"] == []


def test_over_all_rows_there_are_some_of_them_only() -> None:
    text = ALL.replace("  prod: {shape: [M]", "  prod: {shape: [N]").replace("prod(X, N)", "prod(X, M)")
    assert not [d for d in found_in(text) if d.severity == "error"]
    text = ALL.replace("  var: {shape: [M]", "  var: {shape: [N]").replace("var(X, N)", "var(X, M)")
    (error,) = [d for d in found_in(text) if d.severity == "error"]
    assert error.code == "CG127" and "sum, mean, max, min and prod" in str(error.help)
