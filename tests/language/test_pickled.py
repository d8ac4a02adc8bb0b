"""Specs that go from one process to another, as those of a job go to a worker."""

from __future__ import annotations

import pickle
import subprocess
import sys

import pytest

from cutegen.language.reader import read_specs

PRODUCT = """cutegen: 1
kernel: product
op: gemm
tensors:
  A: {shape: [M, K], dtype: bf16}
  B: {shape: [N, K], dtype: bf16}
  C: {shape: [M, N], dtype: bf16, role: out}
compute: C = A @ B.T
"""
SUMS = """cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M], dtype: f32, role: out}
compute: Y = sum(X, N)
"""
SCHEDULES = {
    "a gemm that names no atom": PRODUCT,
    "a gemm that names its atom": f"{PRODUCT}schedule: {{mma: {{atom: wgmma}}}}\n",
    "rows": SUMS,
    "cases": f'{SUMS}schedule: [{{for: {{N: "<= 64"}}}}, {{}}]\n',
}


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_a_spec_has_its_family_in_a_process_that_has_opened_none(schedule: str) -> None:
    (spec,) = read_specs(SCHEDULES[schedule])
    code = "import pickle, sys; spec = pickle.load(sys.stdin.buffer); print(spec.family.name, spec.op)"
    told = subprocess.run([sys.executable, "-c", code], input=pickle.dumps(spec), capture_output=True, check=False)
    assert (told.stdout.decode().split(), told.returncode) == ([spec.family.name, spec.op], 0), told.stderr.decode()
