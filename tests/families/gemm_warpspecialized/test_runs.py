"""Gemms on Hopper's tensor cores, run: majornesses, types and epilogues, and mistakes in the text of one."""

from __future__ import annotations

from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")


def module(
    a: str = "K", b: str = "K", dtype: str = "bf16", tensors: str = "", compute: str = "A @ B.T", more: str = ""
) -> Module:
    text = f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, major: {a}}}
  B: {{shape: [N, K], dtype: {dtype}, major: {b}}}
  C: {{shape: [M, N], dtype: f32, role: inout}}
{tensors}scalars: {{beta: f32}}
compute: C = {compute} + beta * C
schedule:
  tiler: {{M: 128, N: 64, K: 32}}
  mma: {{atom: wgmma}}
{more}"""
    return generate(text, "specs/x.yaml").modules[0]


CASES = (
    Case("ragged", "", {"M": 150, "N": 75, "K": 104}, "padded", "integers"),
    Case("random", "", {"M": 128, "N": 64, "K": 200}, "offset", "random", 1),
    Case("small", "", {"M": 1, "N": 2, "K": 8}, "padded", "integers", 2),
    Case("nothing", "", {"M": 3, "N": 5, "K": 0}, "padded", "integers", 3),
)


def outcomes(made: Module, folder: Path, text: str | None = None, cases: tuple[Case, ...] = CASES) -> list[str]:
    path = folder / "product.py"
    path.write_text(made.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor()
    return [report.message for case in cases if (report := verify_case(made.plan, case, loaded, executor)).message]


@pytest.mark.parametrize(
    ("a", "b", "dtype", "tensors", "compute"),
    [
        ("K", "K", "bf16", "  bias: {shape: [N], dtype: bf16}\n", "relu(A @ B.T + bias)"),
        ("M", "N", "f16", "", "2 * (A @ B.T)"),
        ("K", "N", "bf16", "  R: {shape: [M, N], dtype: bf16}\n", "where(coord(M) > 3, A @ B.T, R)"),
        ("M", "K", "f16", "", "A @ B.T"),
    ],
)
def test_right(a: str, b: str, dtype: str, tensors: str, compute: str, tmp_path: Path) -> None:
    assert outcomes(module(a, b, dtype, tensors, compute), tmp_path) == []


def test_whole_tiles_of_a_fixed_depth_have_no_masks_and_nothing_to_clear(tmp_path: Path) -> None:
    made = module(more="divisible: {M: 128, N: 64}\nstatic: {K: 96}\n")
    assert "elem_less" not in made.text and "acc.fill" not in made.text
    whole = Case("whole", "", {"M": 256, "N": 128, "K": 96}, "padded", "integers")
    assert outcomes(made, tmp_path, cases=(whole,)) == []


COUNT = "cute.arch.mbarrier_init(empty + stage, {})"
CLEARED = """\
        if k_tiles == 0:
            acc.fill(0.0)  # which the first product would not add to
"""
MISTAKES = {
    "a tile is given back before it is multiplied": ("            warpgroup.wait_group(0)\n", ""),
    "one warpgroup gives a tile back": (COUNT.format("CONSUMERS"), COUNT.format("1")),
    "the first wait for a free stage waits": ("(turn + 1) % 2", "turn % 2"),
    "fewer bytes are expected": ("STAGE_BYTES = 12288", "STAGE_BYTES = 8192"),
    "no zeros where there is nothing to sum": (CLEARED, ""),
    "all steps multiply the first": ("tCrB[None, None, k_block, stage]", "tCrB[None, None, 0, stage]"),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    made = module()
    assert made.text.count(old) == 1, made.text
    assert outcomes(made, tmp_path, made.text.replace(old, new))
