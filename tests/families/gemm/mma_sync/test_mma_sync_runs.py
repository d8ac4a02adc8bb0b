"""Gemms on the tensor cores of warps, run: majornesses, types and epilogues, and mistakes in the text of one."""

from __future__ import annotations

from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

pytest.importorskip("cutlass")


def module(
    majors: str = "KKN",
    dtype: str = "bf16",
    align: int = 16,
    more: str = "",
    tensors: str = "",
    compute: str = "A @ B.T",
    tiler: str = "{M: 64, N: 32, K: 32}",
    targets: str = "sm_80",
) -> Module:
    a, b, c = majors
    text = f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, major: {a}, align: {align}}}
  B: {{shape: [N, K], dtype: {dtype}, major: {b}, align: {align}}}
  C: {{shape: [M, N], dtype: f32, major: {c}, align: 4, role: inout}}
{tensors}scalars: {{beta: f32}}
compute: C = {compute} + beta * C
schedule:
  tiler: {tiler}
  mma: {{atom: mma_sync}}
{more}targets: [{targets}]
"""
    return generate(text, "specs/x.yaml").modules[0]


CASES = (
    Case("ragged", "", {"M": 72, "N": 40, "K": 168}, "padded", "integers"),
    Case("random", "", {"M": 64, "N": 32, "K": 200}, "offset", "random", 1),
    Case("small", "", {"M": 8, "N": 8, "K": 8}, "padded", "integers", 2),
    Case("nothing", "", {"M": 8, "N": 16, "K": 0}, "padded", "integers", 3),
)
OF_16 = (
    Case("ragged", "", {"M": 80, "N": 48, "K": 336}, "padded", "integers"),
    Case("random", "", {"M": 64, "N": 32, "K": 208}, "offset", "random", 1),
    Case("nothing", "", {"M": 16, "N": 16, "K": 0}, "padded", "integers", 3),
)
ODD = (Case("odd", "", {"M": 65, "N": 33, "K": 69}, "offset", "integers", 4),)


def outcomes(made: Module, folder: Path, text: str | None = None, cases: tuple[Case, ...] = CASES) -> list[str]:
    path = folder / "product.py"
    path.write_text(made.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    return [report.message for case in cases if (report := verify_case(made.plan, case, loaded, executor)).message]


@pytest.mark.parametrize(
    ("majors", "dtype", "tensors", "compute"),
    [
        ("KKM", "f16", "  bias: {shape: [N], dtype: bf16}\n", "relu(A @ B.T + bias)"),
        ("MNN", "bf16", "  R: {shape: [M, N], dtype: bf16}\n", "where(coord(M) > 3, A @ B.T, R)"),
        ("MKN", "f32", "", "2 * (A @ B.T)"),
        ("KNM", "f32", "", "A @ B.T"),
    ],
)
def test_right(majors: str, dtype: str, tensors: str, compute: str, tmp_path: Path) -> None:
    assert outcomes(module(majors, dtype, tensors=tensors, compute=compute), tmp_path) == []


@pytest.mark.parametrize(("majors", "dtype"), [("KKN", "f8e4m3"), ("MNM", "f8e5m2")])
def test_products_of_8_bits(majors: str, dtype: str, tmp_path: Path) -> None:
    """One operand that ldmatrix reads is like all others; those that it cannot transpose are read byte by byte."""
    made = module(majors, dtype, tiler="{M: 64, N: 32, K: 64}", targets="sm_89")
    assert outcomes(made, tmp_path, cases=OF_16) == []


def test_rows_at_odd_addresses_travel_through_registers(tmp_path: Path) -> None:
    made = module("KNN", align=2)
    assert "cp_async" not in made.text and outcomes(made, tmp_path, cases=(*CASES[:1], *ODD)) == []


def test_whole_tiles_of_a_fixed_depth_have_no_masks(tmp_path: Path) -> None:
    made = module(more="  pipeline: {stages: 2}\ndivisible: {M: 64, N: 32}\nstatic: {K: 96}\n")
    assert "elem_less" not in made.text and "domain_offset" not in made.text
    whole = Case("whole", "", {"M": 128, "N": 64, "K": 96}, "padded", "integers")
    assert outcomes(made, tmp_path, cases=(whole,)) == []


BARRIER = "    cute.arch.sync_threads()\n"
MISTAKES = {
    "sums overwrite what others still read": ("in one access\n" + BARRIER, "in one access\n"),
    "sums are read before they are there": ("partition_C(sC))\n" + BARRIER, "partition_C(sC))\n"),
    "a tile is used before it is there": ("                cute.arch.cp_async_wait_group(STAGES - 2)\n", ""),
    "the stages of B start in those of A": ("storage + 16384", "storage + 8192"),
    "A is turned": ("LdMatrix8x8x16bOp(False, 4), mA", "LdMatrix8x8x16bOp(True, 4), mA"),
    "all steps multiply the first": ("tCrB[None, None, k_block]", "tCrB[None, None, 0]"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    made = module()
    assert made.text.count(old) == 1, made.text
    found = outcomes(made, tmp_path, made.text.replace(old, new), cases=CASES[:1])
    assert found


def test_f32_is_judged_by_what_tf32_has_of_it() -> None:
    from cutegen.families.gemm.mma_sync import FAMILY

    assert FAMILY.factor_bits(module("KKN", "f32").spec) == 11
    assert FAMILY.factor_bits(module("KKN", "bf16").spec) is None
