"""Elementwise kernels of tensors with one value for each block of a mode, run on the CPU."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")


def text(shape: str, modes: str, more: str = "", schedule: str = "") -> str:
    return f"""\
cutegen: 1
kernel: dequantize
op: elementwise
targets: [sm_90a]
tensors:
  X: {{shape: [M, N], dtype: f8e4m3}}
  s: {{shape: {shape}, dtype: f32{more}}}
  Y: {{shape: [M, N], dtype: bf16, role: out}}
modes: {modes}
compute: Y = X * s
{schedule}"""


NB = "{NB: {blocks: N, size: 128}}"
SPECS = {
    "each row": text("[M, NB]", NB, ", major: M"),
    "whole columns": text("[NB]", NB),
    "blocks of both modes": text("[MB, NB]", "{NB: {blocks: N, size: 16}, MB: {blocks: M, size: 4}}"),
    "a tile for each thread": text("[M, NB]", NB, schedule="schedule: {partition: inner}\n"),
}


@pytest.mark.parametrize("name", SPECS)
def test_right(name: str, tmp_path: Path) -> None:
    made = generate(SPECS[name], "specs/x.yaml").modules[0]
    path = tmp_path / "dequantize.py"
    path.write_text(made.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    for case in derive_cases(made.plan)[::6]:
        assert verify_case(made.plan, case, loaded, executor).message == ""


def test_mistaken_blocks_fail(tmp_path: Path) -> None:
    made = generate(SPECS["each row"], "specs/x.yaml").modules[0]
    wrong = made.text.replace("(128, ms.shape[1])", "(64, ms.shape[1])", 1)
    assert wrong != made.text
    path = tmp_path / "dequantize.py"
    path.write_text(wrong, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    assert any(verify_case(made.plan, case, loaded, executor).message for case in derive_cases(made.plan)[::6])
