"""Tensors of 2^32 bytes that overlap are refused by name, unless their sizes are refused before."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.hostchecks import host_checks
from cutegen.verification.executor import EmulatorExecutor, load_module

SPEC = """\
cutegen: 1
kernel: small_steps
op: elementwise
tensors:
  X: {shape: [M, N], dtype: u8, align: 1}
  Y: {shape: [M, N], dtype: f32, align: 4, role: out}
  C: {shape: [M, N], dtype: u8, align: 4, role: inout}
compute: [Y = X, C = C + X]
schedule: {threads: 128, scheduler: {raster: M}}
divisible: {M: 2, N: 1}
targets: [sm_80]
"""


def test_more_tiles_than_can_be_are_told_before_what_they_overlap(tmp_path: Path) -> None:
    """A thread has one element of rows of any length: 2^32 bytes are as many tiles, which no launch has."""
    pytest.importorskip("cutlass")
    (module,) = generate(SPEC, "x.yaml").modules
    path = tmp_path / "small_steps.py"
    path.write_text(module.text, encoding="utf-8")
    checks = host_checks(module.plan, load_module(path), EmulatorExecutor())
    found = [check for check in checks if "2^32 bytes" in check.what]
    assert found and all(check.status == "passed" for check in found), found
