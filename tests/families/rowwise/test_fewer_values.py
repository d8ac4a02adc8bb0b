"""Rows that as many threads hold with three quarters of their values: a launch of their own has these."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

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
schedule: {keep: registers, tiler: {M: 1, N: 4096}, threads_per_row: 128, shorter: fewer_threads, longer: refuse}
targets: [sm_80]
"""
FEWER = "OWN_VALUES=FEWER_VALUES"


@lru_cache
def _module(text: str) -> Module:
    (module,) = generate(text, "x.yaml").modules
    return module


def _plan(text: str) -> RowwisePlan:
    plan = _module(text).plan
    assert isinstance(plan, RowwisePlan)
    return plan


@pytest.mark.parametrize(
    ("old", "new", "values"),
    [
        ("", "", 24),
        ("dtype: bf16", "dtype: f32", 24),
        ("N: 4096", "N: 2048", 0),  # twelve values are no whole accesses
        ("{M: 1, N: 4096}, threads_per_row: 128", "{M: 4, N: 1024}, threads_per_row: 32", 0),  # lanes of one warp alone
        ("max(X, N)", "1.0", 0),  # threads meet once
        ("targets:", "divisible: {N: 8}\ntargets:", 24),
        ("longer: refuse", "longer: refuse, copy: {fallback: refuse}", 24),
    ],
)
def test_three_quarters_of_the_values(old: str, new: str, values: int) -> None:
    text = SOFTMAX.replace(old, new)
    assert _plan(text).fewer_values == values
    assert _module(text).text.count(FEWER) == (2 if values else 0)  # lanes of one warp, and whole warps


def test_a_module_of_cases_has_kernels_of_fewer_values() -> None:
    """The constants of a case have numbers there where those of another differ, and a parameter has none."""
    held = SOFTMAX[SOFTMAX.index("{keep") : SOFTMAX.index("targets")].strip()
    first = held.replace("{", "{for: {N: '<= 4096'}, ", 1)
    cases = f"[{first}, {{keep: reload, tiler: {{N: 2048}}, threads_per_row: 128}}]"
    printed = _module(SOFTMAX.replace(held, cases)).text
    assert printed.count(FEWER) == 2
    kernel = printed[: printed.index("def launch")]
    assert "OWN_VALUES: cutlass.Constexpr[int]" in kernel
    assert "load().reshape((OWN_VALUES,))" in kernel


def _problem(cases: list[Case], folder: Path, old: str = "", new: str = "") -> str:
    """The first problem of some cases of the module in whose text `old` is replaced; empty if there is none."""
    module = _module(SOFTMAX)
    assert old in module.text, f"{old} is not in the module: adapt the change"
    path = folder / "softmax.py"
    path.write_text(module.text.replace(old, new) if old else module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    reports = (verify_case(module.plan, case, loaded, executor) for case in cases)
    return next((f"{report.name}: {report.message}" for report in reports if report.status != "passed"), "")


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("<= row_threads * FEWER_VALUES", "<= row_threads * FEWER_VALUES + VECTOR"),
        ("is_short = is_short & accesses_fit", "is_short = is_short & (mX.shape[1] > 0)"),
        ("FEWER_VALUES = 24", "FEWER_VALUES = 16"),
    ],
    ids=["rows longer than that", "accesses that do not fit", "fewer than the launch was planned for"],
)
def test_cases_tell_which_rows_have_fewer_values(old: str, new: str, tmp_path: Path) -> None:
    """The third is right, only slower, and shows that the others fail for what they change."""
    cases = [case for case in derive_cases(_plan(SOFTMAX)) if max(case.sizes.values()) <= 4096]
    assert any("fewer values" in case.name for case in cases)
    problem = _problem(cases, tmp_path, old, new)
    assert bool(problem) == ("FEWER_VALUES = " not in old)
