"""Gemms whose tensors stand anywhere: a spec, and what fails of a module in the cases that copy some of them."""

from __future__ import annotations

from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

SPEC = """\
cutegen: 1
kernel: anywhere
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16, major: N}
  bias: {shape: [N], dtype: f32}
  C: {shape: [M, N], dtype: bf16, role: inout}
compute: C = A @ B.T + bias + C
schedule:
  tiler: {M: 64, N: 32, K: 32}
  mma: {atom: wgmma}
"""


def made(text: str = SPEC) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def failures(module: Module, folder: Path, text: str | None = None, names: str = "") -> list[str]:
    path = folder / "anywhere.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if _tells(case) and names in case.name]
    assert cases
    reports = {case.name: verify_case(module.plan, case, loaded, executor) for case in cases}
    return [f"{name}: {report.message}" for name, report in reports.items() if report.message]


def _tells(case: Case) -> bool:
    return any(what in case.name for what in ("workspaces", "alone", "one more", "long rows"))
