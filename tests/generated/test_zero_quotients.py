"""0 divided by 0 is NaN in every kernel, also where the compiler knows that neither side is one."""

from __future__ import annotations

from pathlib import Path

import pytest
from telling_kit import telling_cases

pytest.importorskip("cutlass")
pytest.importorskip("torch")

from cutegen.codegen import generate
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

# The compiler leaves out a quotient only where one product is all that is made of it
ELEMENTWISE = """\
op: elementwise
tensors:
  I: {shape: [M, N], dtype: i32}
  U: {shape: [N], dtype: u8}
  A: {shape: [M, N], dtype: f32, role: out}
  B: {shape: [M, N], dtype: f64, role: out}
  C: {shape: [M, N], dtype: f32, role: out}
  D: {shape: [M, N], dtype: bool, role: out}
scalars: {count: i32}
compute:
  - nothing = 0.0
  - A = 0.0 / coord(N) * 2
  - B = nothing / cast(I, f64) * 3
  - C = (I - I) / U / 4 + -0.0 / count * 0.5
  - D = (nothing / (I > 0)) * 7 == 0
"""
ROWWISE = """\
op: rowwise
tensors:
  I: {shape: [M, N], dtype: i32}
  A: {shape: [M, N], dtype: f32, role: out}
  B: {shape: [M], dtype: f32, role: out}
scalars: {count: i32}
compute:
  - nothing = 0.0
  - largest = max(nothing / (I + 1) * 3, N)
  - A = nothing / coord(N) * 2 + I
  - B = nothing / coord(M) * 5 + largest + nothing / count * 7
"""
GEMM = """\
op: gemm
tensors:
  A: {shape: [M, K], dtype: f32}
  B: {shape: [N, K], dtype: f32}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T + 0 / coord(N) * 2
schedule: {tiler: {M: 16, N: 16, K: 8}, mma: {thread_layout: "(4,8,1)"}}
"""


@pytest.mark.parametrize("text", [ELEMENTWISE, ROWWISE, GEMM])
def test_0_divided_by_0_is_nan(text: str, tmp_path: Path) -> None:
    (module,) = generate(f"cutegen: 1\nkernel: quotients\ntargets: [sm_80]\n{text}", "x.yaml").modules
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    cases = telling_cases(module.plan)
    assert len(cases) >= 4
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        assert report.status == "passed", f"{case.name}: {report.message}"
