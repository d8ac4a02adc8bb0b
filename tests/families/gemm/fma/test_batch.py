"""Batches of multistage gemms, on tensor cores and on CUDA cores: what is proved and refused, kernels that run, and
mistakes in the text of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.staged.pictures import walk_of
from cutegen.families.gemm.staged.plan import MultistagePlan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TYPES = {"mma_sync": "bf16", "fma": "f32"}
TILES = {"mma_sync": "{M: 32, N: 32, K: 32}", "fma": "{M: 32, N: 32, K: 8}"}
# Two matrices of two tiles along M and three along N
CASE = Case("matrices", "", {"L": 2, "M": 40, "N": 72, "K": 40}, "padded", "integers")
EPILOGUE = "relu(A @ B.T + bias + column) * row + each - R + coord(L)"
READ = """\
  each: {shape: [L], dtype: f32}
  row: {shape: [L, M], dtype: f32}
  column: {shape: [L, N], dtype: f32}
  bias: {shape: [N], dtype: f32}
  R: {shape: [L, M, N], dtype: f32}
"""


def spec(
    atom: str = "mma_sync",
    compute: str = "A @ B.T",
    schedule: str = "  scheduler: {swizzle: 2}\n",
    more: str = "",
    a: str = "[L, M, K]",
    b: str = "[L, N, K]",
    c: str = "[L, M, N]",
    end: str = "",
) -> str:
    return f"""\
cutegen: 1
kernel: products
op: gemm
tensors:
  A: {{shape: {a}, dtype: {TYPES[atom]}}}
  B: {{shape: {b}, dtype: {TYPES[atom]}}}
{more}  C: {{shape: {c}, dtype: f32, role: out}}
compute: C = {compute}
schedule:
  mma: {{atom: {atom}}}
  tiler: {TILES[atom]}
{schedule}targets: [sm_80]
{end}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def outcomes(module: Module, folder: Path, text: str | None = None) -> list[str]:
    path = folder / "products.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    report = verify_case(module.plan, CASE, loaded, executor)
    return [report.message] if report.message else []


@pytest.mark.parametrize("atom", TYPES)
@pytest.mark.parametrize(
    ("a", "b", "c", "compute", "schedule"),
    [
        ("[L, M, K]", "[L, N, K]", "[L, M, N]", EPILOGUE, "  scheduler: {swizzle: 2}\n"),
        ("[M, K], major: M", "[L, N, K]", "[L, M, N], major: M", EPILOGUE, "  scheduler: {swizzle: 1}\n"),
        ("[L, M, K]", "[N, K], major: N", "[L, M, N]", "A @ B.T", "  scheduler: {swizzle: 1, raster: N}\n"),
    ],
)
def test_right(atom: str, a: str, b: str, c: str, compute: str, schedule: str, tmp_path: Path) -> None:
    module = made(spec(atom, compute, schedule, READ if "row" in compute else "", a, b, c))
    assert outcomes(module, tmp_path) == []


MISTAKES = {
    "A is of the first matrix": ("mA = mA[None, None, l_tile]", "mA = mA[None, None, 0]"),
    "B is of the other matrix": ("mB = mB[None, None, l_tile]", "mB = mB[None, None, 1 - l_tile]"),
    "C is of the first matrix": ("mC = mC[None, None, l_tile]", "mC = mC[None, None, 0]"),
    "the epilogue reads the first matrix": ("mR = mR[None, None, l_tile]", "mR = mR[None, None, 0]"),
    "what broadcasts steps along the batch": ("stride=(0, 0, mbias.stride[0])", "stride=(1, 0, mbias.stride[0])"),
    "the coordinate is that of a tile": ("coords_L[value_idx] = l_tile", "coords_L[value_idx] = bidx"),
    "blocks are of one matrix": ("grid=[grid_m * grid_n * grid_l, 1, 1]", "grid=[grid_m * grid_n, 1, 1]"),
    "a matrix has the tiles of a row": ("bidx // (grid_m * grid_n)", "bidx // grid_n"),
    "tiles of later matrices are numbered on": ("bidx % (grid_m * grid_n)\n", "bidx\n"),
    "the modes of B are those of its memory": ("mB.layout, mode=[1, 2, 0]", "mB.layout, mode=[0, 2, 1]"),
}


@pytest.mark.parametrize("mistake", sampled(MISTAKES))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = MISTAKES[mistake]
    atom = list(TYPES)[list(MISTAKES).index(mistake) % 2]  # both print the same lines
    module = made(spec(atom, EPILOGUE, more=READ))
    assert module.text.count(old) == 1, module.text
    assert outcomes(module, tmp_path, module.text.replace(old, new))


@pytest.mark.parametrize("atom", TYPES)
@pytest.mark.parametrize("swizzle", [1, 3])
def test_blocks_of_all_matrices_are_numbered_counted_and_proved(atom: str, swizzle: int) -> None:
    module = made(spec(atom, schedule=f"  scheduler: {{swizzle: {swizzle}, raster: N}}\n"))
    plan = module.plan
    assert isinstance(plan, MultistagePlan) and plan.largest is None and plan.batch == "L"
    family, sizes = plan.spec.family, {"L": 70000, "M": 33, "N": 65, "K": 8}
    assert family.blocks(plan, sizes) == 70000 * 2 * 3 and family.covered(plan)["L"] == 1
    assert module.text.count("tiles <= MOST_TILES") == 2 and '* sizes["L"]' in module.text
    claims = list(family.claims(plan))
    assert all(claim.holds for claim in claims)
    assert [claim.kind for claim in claims if " L" in claim.text] == ["coverage", "bounds"]
    wrong = replace(plan, tile_order=(plan.tile_order[0], plan.tile_order[0]))
    assert not all(claim.holds for claim in family.claims(wrong))
    over = walk_of(plan).over((2, 64, 96))
    first, last = over.block((0, 0, 0))[0], over.block((1, 32, 64))[0]
    assert first == 0 and last >= 6 and over.blocks == 12


def test_the_cases_of_a_kernel_have_several_matrices_of_several_tiles_and_none() -> None:
    plan = made(spec()).plan
    counts = [
        (case.sizes["L"], *(-(-case.sizes[mode] // plan.tile[mode]) for mode in "MN")) for case in derive_cases(plan)
    ]
    assert any(min(count) > 1 and count[0] > 2 for count in counts) and {0, 1, 2} <= {count[0] for count in counts}


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (spec(schedule="  predication: {L: mask}\n"), "CG203", "a tile has one matrix"),
        (spec("fma").replace("{M: 32,", "{L: 2, M: 32,"), "CG203", "a tile has one matrix"),
        (spec("fma", schedule="  scheduler: {raster: L}\n"), "CG116", "not a mode here"),
        (spec(a="[L, M, K], major: L"), "CG130", "contiguous along L, the batch"),
        (spec("fma", c="[L, M, N], major: L"), "CG130", "contiguous along L, the batch"),
        (spec("fma", schedule="  workspace: {A: {major: M}}\n"), "CG203", "cannot go through a workspace"),
        (spec(compute="A @ B.T * l_tile", end="scalars: {l_tile: f32}\n"), "CG113", "the kernel uses the scalar name"),
        (spec(end="static: {L: 2000000, M: 65536, N: 65536}\n"), "CG259", "the fixed sizes make"),
    ],
)
def test_refused(text: str, code: str, words: str) -> None:
    found = found_in(text)
    assert [d for d in found if d.code == code and words in d.message], found
