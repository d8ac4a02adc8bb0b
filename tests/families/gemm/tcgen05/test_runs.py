"""Gemms in tensor memory are right on the CPU: of ragged sizes, majornesses, epilogues, types and batches."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")

TEXT = """\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [{batch}M, K], dtype: {a}, major: {major_a}}}
  B: {{shape: [N, K], dtype: {b}, major: {major_b}}}
{more}
  C: {{shape: [{batch}M, N], dtype: {c}, major: {major_c}, role: out}}
compute:
{compute}
schedule:
  tiler: {{M: 128, N: {columns}, K: {depth}}}
  mma: {{atom: tcgen05}}
  pipeline: {{stages: 2}}
  scheduler: {{raster: {raster}}}
targets: [sm_100a]
"""
PLAIN = {"batch": "", "a": "bf16", "b": "bf16", "c": "f32", "major_a": "K", "major_b": "K", "major_c": "N", "more": ""}
PLAIN |= {"compute": "  - C = A @ B.T", "columns": "64", "depth": "32", "raster": "M"}
RAGGED = {"M": 131, "N": 70, "K": 171}
EPILOGUE = {
    "more": "  bias: {shape: [N], dtype: f32}\n  R: {shape: [M, N], dtype: bf16}\n  s: {shape: [M], dtype: f32}\n"
    "  H: {shape: [M, N], dtype: f16, role: out}",
    "compute": "  - H = A @ B.T * s + bias\n  - C = relu(H) + R + coord(N)",
}
TWO = {"more": "  U: {shape: [N, K], dtype: bf16}", "compute": "  - C = silu(A @ B.T) * (A @ U.T)"}
KERNELS = {
    "plain": ({}, RAGGED),
    "m-major": ({"major_a": "M", "major_b": "N", "major_c": "M", "depth": "64"}, RAGGED),
    "an epilogue with two outputs": (EPILOGUE, RAGGED),
    "columns of no power of two": ({"columns": "48", "raster": "N"}, RAGGED),
    "256 columns": ({"columns": "256"}, {"M": 100, "N": 300, "K": 40}),
    "f16": ({"a": "f16", "b": "f16", "c": "f16"}, RAGGED),
    "two kinds of 8 bits": ({"a": "f8e4m3", "b": "f8e5m2", "depth": "64"}, RAGGED),
    "8 bits along m": ({"a": "f8e4m3", "b": "f8e4m3", "major_a": "M", "depth": "64"}, RAGGED),
    "two products": (TWO, RAGGED),
    "a batch": ({"batch": "L, "}, {**RAGGED, "L": 3}),
    "no sum": ({}, {"M": 5, "N": 9, "K": 0}),
    "less than a product": ({}, {"M": 1, "N": 1, "K": 1}),
}


@pytest.mark.parametrize("name", sampled(KERNELS, 3))
def test_right(name: str, tmp_path: Path) -> None:
    changes, sizes = KERNELS[name]
    module = generate(TEXT.format_map(PLAIN | changes), "specs/product.yaml").modules[0]
    path = tmp_path / "product.py"
    path.write_text(module.text, encoding="utf-8")
    report = verify_case(
        module.plan, Case(name, "", sizes, "padded", "integers"), load_module(path), EmulatorExecutor()
    )
    assert report.status == "passed", report.message
