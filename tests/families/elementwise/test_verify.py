"""A kernel of several statements and outputs through the whole of `cutegen verify --on cpu`."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner

from cutegen.cli import cli

pytest.importorskip("cutlass")
pytest.importorskip("torch")

SPEC = """\
cutegen: 1
kernel: several
op: elementwise
tensors:
  P: {shape: [M, N], dtype: f32, role: inout}
  G: {shape: [M, N], dtype: bf16}
  b: {shape: [N], dtype: f32}
  H: {shape: [M, N], dtype: bf16, role: out}
  K: {shape: [M, N], dtype: bool, major: M, role: out}
scalars: {rate: f32}
compute:
  - step = rate * G + b
  - K = step > P and coord(N) <= coord(M)
  - P = where(K, -1e30, P - step)
  - H = P * 2
targets: [sm_80]
"""


def test_all_outputs_are_verified_on_the_cpu(tmp_path: Path) -> None:
    (tmp_path / "several.yaml").write_text(SPEC, encoding="utf-8")
    result = CliRunner().invoke(cli, ["verify", str(tmp_path / "several.yaml"), "--on", "cpu", "--format", "json"])
    assert result.exit_code == 0, result.output
    (kernel,) = json.loads(result.stdout)["kernels"]
    report = kernel["verification"]["report"]
    assert report["complete"] and {case["status"] for case in report["cases"]} == {"passed"}
    tile = next(case for case in report["cases"] if case["name"] == "tile")
    assert tile["elements"] == 3 * tile["sizes"]["M"] * tile["sizes"]["N"]  # of all three outputs
