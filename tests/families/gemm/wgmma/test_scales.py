"""Products whose operands have a scale for each block along k, run; and mistakes in the text of one."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")


def module(
    shapes: str = "[M, KB] [NB, KB]",
    dtype: str = "f8e4m3",
    compute: str = "C = (A * sA) @ (B * sB).T",
    schedule: str = "tiler: {M: 128, N: 128, K: 128}",
    more: str = "",
    batch: str = "",
) -> Module:
    """A kernel whose scales have these shapes, with words behind them; one that is `none` is left out."""
    parts = [part.lstrip("[").split("]") for part in shapes.split(" [")]
    declared = [
        f"  {name}: {{shape: [{shape}], dtype: f32{more_words}}}\n"
        for name, (shape, more_words) in zip(("sA", "sB"), parts, strict=True)
        if shape != "none"
    ]
    modes = {"KB": "{blocks: K, size: 128}", "MB": "{blocks: M, size: 128}", "NB": "{blocks: N, size: 128}"}
    text = f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [{batch}M, K], dtype: {dtype}}}
  B: {{shape: [{batch}N, K], dtype: {dtype}}}
{"".join(declared)}  C: {{shape: [{batch}M, N], dtype: f32, role: out}}
{more}modes:
{"".join(f"  {mode}: {what}{chr(10)}" for mode, what in modes.items() if mode in shapes)}compute: {compute}
schedule:
  mma: {{atom: wgmma}}
  {schedule.replace("; ", chr(10) + "  ")}
"""
    return generate(text, "specs/x.yaml").modules[0]


CASES = (
    Case("borders", "", {"M": 150, "N": 140, "K": 520}, "padded", "integers", 1),
    Case("a short block", "", {"M": 130, "N": 130, "K": 140}, "offset", "random", 2),
    Case("more steps than stages", "", {"M": 40, "N": 264, "K": 1200}, "padded", "random", 3),
    Case("one element", "", {"M": 1, "N": 1, "K": 1}, "padded", "integers", 4),
    Case("nothing", "", {"M": 3, "N": 4, "K": 0}, "padded", "integers", 5),
    Case("special", "", {"M": 140, "N": 150, "K": 300}, "padded", "special", 6),
)


def problems(made: Module, folder: Path, cases: tuple[Case, ...] = CASES) -> Iterator[str]:
    """Yields what is wrong in each case in which something is."""
    path = folder / "product.py"
    path.write_text(made.text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    for case in cases:
        if (report := verify_case(made.plan, case, loaded, executor)).message:
            yield report.message


@pytest.mark.parametrize(
    "kernel",
    [
        {"shapes": "[M, KB], major: M [NB, KB]"},
        {"schedule": "tiler: {M: 256, N: 128, K: 128}; cluster: {M: 1, N: 2}"},
        {"schedule": "tiler: {M: 128, N: 192, K: 128}", "shapes": "[M, KB] [NB, KB], major: NB"},
        {"schedule": "tiler: {M: 64, N: 96, K: 64}; cluster: {M: 1, N: 1}"},
        {"schedule": "tiler: {M: 128, N: 64, K: 128}; warps: {roles: pingpong}"},
        {"schedule": "tiler: {M: 128, N: 128, K: 128}; cluster: {M: 1, N: 1, K: 2}"},
        {"shapes": "[MB, KB] [NB, KB]", "dtype": "bf16", "schedule": "tiler: {M: 128, N: 128, K: 64}"},
        {"shapes": "[M, KB] [none]", "compute": "C = (A * sA) @ B.T"},
        {"shapes": "[none] [KB]", "compute": "C = 2 * (A @ (B * sB).T)"},
    ],
    ids=str,
)
def test_right(kernel: dict[str, str], tmp_path: Path) -> None:
    assert [*problems(module(**kernel), tmp_path)] == []


def test_batches(tmp_path: Path) -> None:
    made = module("[L, M, KB] [L, NB, KB]", batch="L, ")
    cases = tuple(Case(c.name, "", {"L": 2, **c.sizes}, c.layout, c.data, c.seed) for c in CASES[:3])
    assert [*problems(made, tmp_path, cases)] == []


def test_epilogues(tmp_path: Path) -> None:
    compute = "C = relu((A * sA) @ (B * sB).T + bias)"
    more = "  bias: {shape: [N], dtype: f32}\n"
    assert [*problems(module(compute=compute, more=more), tmp_path, CASES[:2])] == []


WRONG = {
    "the scale of the block before": ("cutlass.min(k_tile + 1, msA", "cutlass.min(k_tile, msA"),
    "the scale of B of the block before": ("cutlass.min(k_tile + 1, msB", "cutlass.min(k_tile, msB"),
    "the scale of the next row": ("row = first + thr_rows[i][0]", "row = first + thr_rows[i][0] + 1"),
    "the scale of the next block of columns": ("(first + i * width) // 128", "(first + i * width) // 128 + 1"),
    "the last block left out": (
        "                add_scaled(acc, 0, acc_block, scales)",
        "                if k_tile + 1 < k_tiles:\n                    add_scaled(acc, 0, acc_block, scales)",
    ),
    "products of a step that are added to those before": (
        "                tiled_mma.set(warpgroup.Field.ACCUMULATE, False)\n",
        "                tiled_mma.set(warpgroup.Field.ACCUMULATE, k_tile > 0)\n",
    ),
    "sums that begin with those of the tile before": ("acc.fill(0.0)", "pass"),
    "rows of the first tile": ("m_tile * BLK_M, thr_rows", "0, thr_rows"),
    "rows beyond the end": ("mS[cutlass.min(row, mS.shape[0] - 1), k]", "mS[row, k]"),
    "the scales of rows exchanged": (
        "added = products[None, None, row, chunk]",
        "added = products[None, None, 1 - row, chunk]",
    ),
    "one scale left out": ("next_A[row] * next_B[chunk]", "next_A[row]"),
    "scales that are never loaded again": ("multiply_scales(next_A, next_B, scales)\n", "pass\n"),
}


@pytest.mark.parametrize("mistake", WRONG)
def test_mistakes_fail(mistake: str, tmp_path: Path) -> None:
    made = module("[M, KB], major: M [NB, KB]", schedule="tiler: {M: 128, N: 128, K: 128}; scheduler: {blocks: 2}")
    old, new = WRONG[mistake]
    assert made.text.count(old) in (1, 2), old
    wrong = replace(made, text=made.text.replace(old, new))
    cases = (CASES[0], Case("many tiles", "", {"M": 300, "N": 264, "K": 300}, "padded", "integers", 7), *CASES[1:3])
    assert next(problems(wrong, tmp_path, cases), None) is not None
