"""A kernel that takes one element type for another, or rounds as another does, is told by the cases of its own spec."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

import pytest

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from cutegen.codegen import Module, generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TELLING = ("tile integers", "special values", "small primes")
WHOLE = """
cutegen: 1
kernel: whole
op: elementwise
tensors:
  L: {shape: [M, N], dtype: i64}
  U: {shape: [M, N], dtype: u32}
  J: {shape: [N], dtype: i16}
  target: {shape: [M], dtype: i64}
  A: {shape: [M, N], dtype: i64, role: out}
  B: {shape: [M, N], dtype: bool, role: out}
  C: {shape: [M, N], dtype: u32, role: out}
  D: {shape: [M, N], dtype: i16, role: out}
  E: {shape: [M, N], dtype: i64, role: out}
  F: {shape: [M, N], dtype: i64, role: out}
compute:
  - A = L - 3000000000
  - B = U > J
  - C = U + J
  - D = J * 3
  - E = where(coord(N) == target, L, 0)
  - F = maximum(cast(J, u32), U)
targets: [sm_90a]
"""
SMALL = """
cutegen: 1
kernel: small
op: elementwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Q: {shape: [M, N], dtype: f8e5m2}
  A: {shape: [M, N], dtype: f8e4m3, role: out}
  B: {shape: [M, N], dtype: f8e5m2, role: out}
  C: {shape: [M, N], dtype: f32, role: out}
  D: {shape: [M, N], dtype: f8e5m2, role: out}
  E: {shape: [M, N], dtype: f8e5m2, role: out}
compute:
  - A = X * 3
  - B = X * 3
  - C = Q
  - D = Q
  - E = cast(Q, f32)
schedule: {copy: {fallback: refuse}}
targets: [sm_90a]
"""
NAN = 'cute.full_like({0}, float("nan"))'


@lru_cache
def module_of(text: str) -> Module:
    (module,) = generate(text, "x.yaml").modules
    return module


def verdicts(text: str, folder: Path, old: str, new: str) -> list[str]:
    """The result of the most revealing cases on a modified kernel."""
    module = module_of(text)
    kernel, mark, rest = module.text.partition("\ndef reference(")
    assert old in kernel
    path = folder / module.name
    path.write_text(kernel.replace(old, new) + mark + rest, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = [case for case in derive_cases(module.plan) if case.name in TELLING]
    assert len(cases) == len(TELLING)
    return [verify_case(module.plan, case, loaded, executor).status for case in cases]


@pytest.mark.parametrize(
    ("text", "old", "new"),
    [
        (WHOLE, "l - 3000000000", "l.to(cutlass.Int32).to(cutlass.Int64) - 3000000000"),
        (WHOLE, "l - 3000000000", "(l.to(cutlass.Float64) - 3000000000.0).to(cutlass.Int64)"),
        (WHOLE, "u.to(cutlass.Int64) > j", "u.to(cutlass.Int32).to(cutlass.Int64) > j"),
        (WHOLE, "j.to(cutlass.Int32) * 3", "j.to(cutlass.Int8).to(cutlass.Int32) * 3"),
        (WHOLE, "j.to(cutlass.Int32).to(cutlass.Uint32)", "j.to(cutlass.Uint32)"),
        (WHOLE, "coord_N.to(cutlass.Int64) == target", "coord_N == target.to(cutlass.Int32)"),
        (SMALL, "result_A = x0.to(", "result_A = cute.where(x0 > 464, " + NAN.format("x0") + ", x0).to("),
        (SMALL, "result_A = x0.to(cutlass.", "result_A = x0.to(cutlass.BFloat16).to(cutlass."),
        (SMALL, "result_B = x1.to(cutlass.", "result_B = x1.to(cutlass.Float8E4M3FN).to(cutlass.Float32).to(cutlass."),
        (SMALL, "tArD_out.store(q", "tArD_out.store((q.to(cutlass.Float32) + 0.0).to(cutlass.Float8E5M2)"),
    ],
)
def test_mistakes_about_a_type_are_told(text: str, old: str, new: str, tmp_path: Path) -> None:
    assert "failed" in verdicts(text, tmp_path, old, new)


@pytest.mark.parametrize("text", [WHOLE, SMALL])
def test_what_is_right_is_called_right(text: str, tmp_path: Path) -> None:
    assert set(verdicts(text, tmp_path, "@cute.kernel", "@cute.kernel")) == {"passed"}
