"""One value of a whole row is stored at every place of the row."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import plan_of, problems_in
from sweep_kit import sampled

from cutegen.verification.cases import derive_cases

pytest.importorskip("cutlass")

SPREAD = """\
cutegen: 1
kernel: spread
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = mean(X, N)
targets: [sm_90a]
"""
FIXED = "static: {N: 300}\ntargets:"
ROOM = "keep: registers, tiler: {M: 1, N: 1024}, threads_per_row: 64"
SHORT = f"schedule: {{{ROOM}, shorter: fewer_threads, longer: reload}}"


@pytest.mark.parametrize(
    ("dtype", "value"),
    [
        ("bf16", "mean(X, N)"),
        ("f32", "max(X, N)"),
        ("i8", "cast(max(X, N), i8)"),
        ("bool", "max(X, N) > 1"),
        ("i64", "7"),
    ],
)
@pytest.mark.parametrize("more", [FIXED, f"{SHORT}\ntargets:"], ids=["fixed", "fewer threads"])
def test_a_row_is_filled_with_its_value(dtype: str, value: str, more: str, tmp_path: Path) -> None:
    text = SPREAD.replace("Y: {shape: [M, N], dtype: bf16", f"Y: {{shape: [M, N], dtype: {dtype}")
    text = text.replace("Y = mean(X, N)", f"Y = {value}").replace("targets:", more)
    if value == "7":  # beside what makes it a kernel of rows
        text = text.replace("role: out}\n", "role: out}\n  S: {shape: [M], dtype: f32, role: out}\n")
        text = text.replace("compute: Y = 7", "compute:\n  - S = sum(X, N)\n  - Y = 7")
    cases = {case.of[0]: case for case in derive_cases(plan_of(text)) if case.name.split(", ")[0] in ("tile", "primes")}
    assert cases and not list(problems_in(text, list(cases.values()), tmp_path))


@pytest.mark.parametrize(
    ("dtype", "more"), sampled([(dtype, more) for dtype in ("u8", "u32") for more in (FIXED, f"{SHORT}\ntargets:")])
)
def test_integers_without_a_sign_are_loaded_and_stored_as_such(dtype: str, more: str, tmp_path: Path) -> None:
    """In memory a kernel takes them for signed ones, so that registers must be told what they hold."""
    text = SPREAD.replace("dtype: bf16", f"dtype: {dtype}").replace("targets:", more)
    text = text.replace("  Y:", "  Z: {shape: [M, N], dtype: f32, role: out}\n  Y:")
    text = text.replace("compute: Y = mean(X, N)", "compute:\n  - Z = X - max(X, N)\n  - Y = X")
    cases = [case for case in derive_cases(plan_of(text)) if case.name.split(", ")[0] in ("tile", "primes")]
    assert cases and not list(problems_in(text, cases[:4], tmp_path))
