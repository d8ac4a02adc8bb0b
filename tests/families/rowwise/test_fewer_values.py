"""Rows that as many threads hold with three quarters of their values: a launch of their own has these."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import module_of, plan_of, problems_in

from cutegen.verification.cases import derive_cases

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
    assert plan_of(text).fewer_values == values
    assert module_of(text).text.count(FEWER) == (2 if values else 0)  # lanes of one warp, and whole warps


def test_a_module_of_cases_has_kernels_of_fewer_values() -> None:
    """The constants of a case have numbers there where those of another differ, and a parameter has none."""
    held = SOFTMAX[SOFTMAX.index("{keep") : SOFTMAX.index("targets")].strip()
    first = held.replace("{", "{for: {N: '<= 4096'}, ", 1)
    cases = f"[{first}, {{keep: reload, tiler: {{N: 2048}}, threads_per_row: 128}}]"
    printed = module_of(SOFTMAX.replace(held, cases)).text
    assert printed.count(FEWER) == 2
    kernel = printed[: printed.index("def launch")]
    assert "OWN_VALUES: cutlass.Constexpr[int]" in kernel
    assert "load().reshape((OWN_VALUES,))" in kernel


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
    cases = [case for case in derive_cases(plan_of(SOFTMAX)) if max(case.sizes.values()) <= 4096]
    assert any("fewer values" in case.name for case in cases)
    problem = next(problems_in(SOFTMAX, cases, tmp_path, {old: new}), "")
    assert bool(problem) == ("FEWER_VALUES = " not in old)
