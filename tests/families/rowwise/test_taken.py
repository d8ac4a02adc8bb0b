"""Row kernels whose rows are taken at places: they are right on the CPU, and each kind of mistake is found there."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

PERMUTED = """\
cutegen: 1
kernel: taken
op: rowwise
tensors:
  X: {shape: [T, N], dtype: bf16, at: {T: rows}}
  rows: {shape: [M], dtype: i32}
  weight: {shape: [T], dtype: f32, at: {T: rows}}
  slots: {shape: [M], dtype: i64}
  Q: {shape: [S, N], dtype: i8, role: out, at: {S: slots}}
  scale: {shape: [S], dtype: f32, role: out, at: {S: slots}}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - x = X * weight
  - scale = maximum(max(abs(x), N) / 127, 1e-10)
  - Q = cast(round(x / scale), i8)
  - Y = x
static: {N: 256}
targets: [sm_90a]
"""
KEPT = PERMUTED.replace("static: {N: 256}", "static: {N: 2048}\nschedule: {keep: smem}")
SHARED = PERMUTED.replace("static: {N: 256}", "static: {N: 2048}\nschedule: {cluster: {N: 2}}")
TOLD = ("tile", "all one less", "all one more", "primes")
MUTANTS = [
    ("rows of X at place 0", "cutlass.Int64(rows) * mX.stride[2]", "cutlass.Int64(0)"),
    ("the next row of X", "cutlass.Int64(rows) * mX", "cutlass.Int64(rows + 1) * mX"),
    ("rows of X at the places of Q", "cutlass.Int64(rows) * mX", "cutlass.Int64(slots) * mX"),
    ("steps along the row", "rows) * mX.stride[2]", "rows) * mX.stride[1]"),
    ("rows of Q that are not taken", "cutlass.Int64(slots) * mQ.stride[2]", "cutlass.Int64(row_M) * mQ.stride[2]"),
    ("places of another row", "mrows[row_M]", "mrows[0]"),
    ("a scale at its own row", "mscale[slots]", "mscale[row_M]"),
    ("a weight at its own row", "mweight[rows]", "mweight[row_M]"),
]


def failures(module: Module, text: str, folder: Path) -> list[str]:
    path = folder / "taken.py"
    path.write_text(text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name.partition(",")[0] in TOLD]
    assert cases
    reports = (verify_case(module.plan, case, loaded, executor) for case in cases)
    return [report.message for report in reports if report.message]


@pytest.mark.parametrize("text", [PERMUTED, KEPT, SHARED], ids=["registers", "shared memory", "cluster"])
def test_kernels_are_right(text: str, tmp_path: Path) -> None:
    (module,) = generate(text, "specs/taken.yaml").modules
    assert failures(module, module.text, tmp_path) == []


@pytest.mark.parametrize(("broken", "old", "new"), MUTANTS, ids=[m[0] for m in MUTANTS])
def test_a_mistake_is_found(broken: str, old: str, new: str, tmp_path: Path) -> None:
    (module,) = generate(PERMUTED, "specs/taken.yaml").modules
    assert old in module.text
    assert failures(module, module.text.replace(old, new), tmp_path), broken


@pytest.mark.parametrize(
    ("old", "new", "told"),
    [
        ("static: {N: 256}", "schedule: {scheduler: {kind: persistent}}", "blocks that walk many rows"),
        ("rows: {shape: [M]", "rows: {shape: [N]", "has the mode `N`"),
        ("  - Y = x\n", "  - Y = x\n  - w = sum(x, M)\n", "reduces over the rows"),
        (
            "Y: {shape: [M, N], dtype: bf16, role: out}",
            "Y: {shape: [M], dtype: bf16, role: out}",
            "without `at`",
        ),
    ],
)
def test_what_row_kernels_do_not_take_is_said(old: str, new: str, told: str) -> None:
    text = PERMUTED.replace(old, new)
    if "w = sum" in new:
        text = text.replace("compute:", "  w: {shape: [N], dtype: f32, role: out}\ncompute:")
    if "[M], dtype: bf16" in new:
        text = text.replace("Y = x", "Y = sum(x, N)")
    with pytest.raises(SpecError) as raised:
        read_specs(text, "specs/taken.yaml")
    assert any(told in f"{d.message} {d.help}" for d in raised.value.diagnostics), raised.value.diagnostics
