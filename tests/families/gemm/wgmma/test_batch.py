"""Batches of gemms on Hopper's tensor cores: what is planned, proved and refused, kernels that run, and mistakes in the
text of one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma import FAMILY
from cutegen.families.gemm.wgmma.pictures import figures
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.language.writer import write_spec
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TILE = "  tiler: {M: 64, N: 32, K: 32}\n"
# Two matrices of two tiles of clusters along M and three along N, whose tiles two clusters take in turn
CASE = Case("matrices", "", {"L": 2, "M": 136, "N": 72, "K": 40}, "padded", "integers", blocks=4)


def spec(
    compute: str = "A @ B.T",
    schedule: str = TILE,
    more: str = "",
    a: str = "[L, M, K], dtype: bf16",
    b: str = "[L, N, K], dtype: bf16",
    c: str = "bf16",
    rows: str = "M",
    end: str = "",
) -> str:
    return f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: {a}}}
  B: {{shape: {b}}}
{more}  C: {{shape: [L, M, N], dtype: {c}, role: out}}
compute: C = {compute}
schedule:
  mma: {{atom: wgmma, rows: {rows}}}
{schedule}{end}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def outcomes(module: Module, folder: Path, text: str | None = None) -> list[str]:
    path = folder / "product.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    persistent = module.plan.persistent  # type: ignore[attr-defined]
    case = CASE if persistent else replace(CASE, blocks=None)
    report = verify_case(module.plan, case, loaded, executor)
    return [report.message] if report.message else []


BIASES = """\
  each: {shape: [L], dtype: f32}
  row: {shape: [L, M], dtype: f32}
  column: {shape: [L, N], dtype: f32}
  bias: {shape: [N], dtype: bf16}
  R: {shape: [L, M, N], dtype: bf16}
"""
ROW, F8 = BIASES.splitlines()[1] + "\n", "dtype: f8e4m3"
RIGHT = {
    "what has the batch, and what has not": spec("relu(A @ B.T + bias + column) * row + each - R", more=BIASES),
    "one A for all": spec(a="[M, K], dtype: bf16", schedule=TILE + "  cluster: {M: 2, N: 2}\n"),
    "one B for all, in turn": spec(
        a="[L, M, K], dtype: f16", b="[N, K], dtype: f16", schedule=f"{TILE}  warps: {{roles: pingpong}}\n"
    ),
    "rows of the product are columns": spec(
        "(A @ B.T) * row + coord(L) * 100 + coord(N)", "  tiler: {M: 32, N: 64, K: 32}\n", more=ROW, rows="N"
    ),
    "stored from registers": spec(
        schedule=f"{TILE}  copies: {{C: {{atom: universal}}}}\n",
        a="[L, M, K], dtype: bf16, major: M",
        c="f32, major: M",
    ),
    "an output whose neighbours are of other matrices": spec(
        schedule=f"{TILE}  scheduler: {{swizzle: 1, raster: N}}\n", c="bf16, major: L"
    ),
    "several products, of 8 bits": spec(
        "maximum(A @ B.T, A @ U.T)",
        "  tiler: {M: 64, N: 32, K: 64}\n",
        more=f"  U: {{shape: [L, N, K], {F8}}}\n",
        a=f"[L, M, K], {F8}",
        b=f"[L, N, K], {F8}",
    ),
    "two blocks have parts of a sum": spec(schedule=f"{TILE}  cluster: {{M: 1, N: 1, K: 2}}\n", c="f32"),
    "a block for each tile": spec(schedule=f"{TILE}  scheduler: {{kind: grid}}\n"),
    "of sizes that are fixed": spec(end="static: {L: 2, M: 136}\n"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    assert outcomes(made(RIGHT[name]), tmp_path) == []


PLACE, NEXT = "(BLK_M, BLK_N), (m_tile, n_tile, l_tile)", "k_tile, l_tile],\n                        tBsB"
STRIDES = "cute.make_layout(mC.shape, stride=({}, 0, mbias.stride[0]))"
MISTAKES = {
    "tiles of A are those of the first matrix": ("+ box, k_tile, l_tile]", "+ box, k_tile, 0]"),
    "tiles of B are those of the next matrix": (NEXT, NEXT.replace("l_tile", "l_tile + 1")),
    "tiles of C go to the first matrix": ("to_gC[None, row, column, l_tile]", "to_gC[None, row, column, 0]"),
    "matrices are stored in the other order": ("row, column, l_tile]", "row, column, tiles_l - 1 - l_tile]"),
    "a batch has one matrix": ("tiles_m * tiles_n * tiles_l\n\n", "tiles_m * tiles_n\n\n"),
    "a matrix has the tiles of a column": ("divisor_v2(tiles_m * tiles_n)", "divisor_v2(tiles_m)"),
    "tiles of later matrices are numbered on": ("l_tile, tile = divmod", "l_tile, _ = divmod"),
    "the modes of B are those of its memory": ("mB.layout, mode=[1, 2, 0]", "mB.layout, mode=[0, 2, 1]"),
}
READ = "from_gR[None, row, column, {}]"
EPILOGUES = {
    "the epilogue reads the first matrix": (
        "from_gR[None, row, column, l_tile]",
        "from_gR[None, row, column, 0]",
    ),
    "a row is of the first matrix": (f"mrow, {PLACE}", f"mrow, {PLACE}".replace("l_tile", "0")),
    "what broadcasts over the batch steps along it": (STRIDES.format(0), STRIDES.format(1)),
}


@pytest.mark.parametrize("mistake", sampled([*MISTAKES, *EPILOGUES]))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = (MISTAKES | EPILOGUES)[mistake]
    module = made(spec() if mistake in MISTAKES else RIGHT["what has the batch, and what has not"])
    assert module.text.count(old) == 1, module.text
    assert outcomes(module, tmp_path, module.text.replace(old, new))


def test_the_cases_of_a_kernel_have_several_matrices_of_several_tiles_and_none() -> None:
    plan = plan_of(spec())
    sizes = [case.sizes for case in derive_cases(plan)]
    tiles = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    counts = [[size["L"], *(-(-size[mode] // tile) for mode, tile in tiles.items())] for size in sizes]
    assert any(min(count) > 1 and len(set(count[1:])) > 1 for count in counts)
    assert {0, 1, 2} <= {size["L"] for size in sizes}


@pytest.mark.parametrize("schedule", ["  scheduler: {swizzle: 1}\n", "  scheduler: {swizzle: 3, raster: N}\n"])
def test_the_walk_is_proved_to_take_every_tile_of_every_matrix_once(schedule: str) -> None:
    plan = plan_of(spec(schedule=TILE + schedule))
    assert all(claim.holds for claim in FAMILY.claims(plan))
    assert any("every matrix of L" in claim.text for claim in FAMILY.claims(plan))
    wrong = replace(plan, tile_order=(plan.tile_order[0], plan.tile_order[0]))
    assert not all(claim.holds for claim in FAMILY.claims(wrong))
    walk = figures(plan)[0]
    assert walk.caption is not None and "1 of L x" in walk.caption and "of tile 0" not in walk.caption


def test_blocks_are_those_of_all_matrices() -> None:
    sizes = {"L": 70000, "M": 65, "N": 33, "K": 8}
    grid = plan_of(spec(schedule=TILE + "  scheduler: {kind: grid}\n  cluster: {M: 1, N: 1}\n"))
    assert FAMILY.blocks(grid, sizes | {"L": 5}) == 5 * 2 * 2
    assert FAMILY.blocks(grid, sizes) == 70000 * 2 * 2 and "MOST_TILES = 2**29" in made(write_spec(grid.spec)).text
    persistent = plan_of(spec(schedule=TILE + "  scheduler: {blocks: 8}\n"))
    assert FAMILY.blocks(persistent, sizes) == 8 and FAMILY.blocks(persistent, sizes | {"L": 1, "M": 1}) == 4


@pytest.mark.parametrize(("matrices", "parts"), [(2, 2), (64, 1)])
def test_sums_are_parted_where_all_matrices_have_few_tiles(matrices: int, parts: int) -> None:
    sizes = f"static: {{L: {matrices}, M: 256, N: 512, K: 8192}}\n"
    assert plan_of(spec(schedule="", end=sizes)).split == parts


def test_the_host_counts_the_tiles_of_a_matrix_and_then_of_all() -> None:
    text = made(spec()).text
    matrix = '-(-sizes["M"] // (BLK_M * CLUSTER_M)) * -(-sizes["N"] // (BLK_N * CLUSTER_N))'
    assert text.count("tiles <= MOST_TILES") == 2 and matrix in text and '* sizes["L"]' in text


def test_tune_walks_along_the_modes_of_a_matrix() -> None:
    tried = [choice["scheduler",] for choice in FAMILY.refinements(plan_of(spec()).spec) if ("scheduler",) in choice]
    assert {walk["raster"] for walk in tried} == {"M", "N"}  # type: ignore[index]
    for _, choices in FAMILY.axes([plan_of(spec()).spec]):
        assert all("L" not in choice.get(("tiler",), {}) | choice.get(("cluster",), {}) for choice in choices)  # type: ignore[operator]


@pytest.mark.parametrize(
    ("text", "code", "words"),
    [
        (spec(schedule="  tiler: {L: 1}\n"), "CG203", "a tile has one matrix"),
        (spec(schedule="  cluster: {L: 2}\n"), "CG203", "a tile has one matrix"),
        (spec(schedule="  predication: {L: mask}\n"), "CG203", "a tile has one matrix"),
        (spec(schedule="  scheduler: {raster: L}\n"), "CG116", "not a mode here"),
        (spec(a="[L, M, K], dtype: bf16, major: L"), "CG306", "contiguous along L, the batch"),
        (spec(c="bf16, major: L", schedule="  copies: {C: {atom: tma}}\n"), "CG308", "contiguous along L, the batch"),
        (spec("A @ B.T * l_tile", end="scalars: {l_tile: f32}\n"), "CG113", "the kernel uses the scalar name"),
    ],
)
def test_refused(text: str, code: str, words: str) -> None:
    found = found_in(text)
    assert [d for d in found if d.code == code and words in d.message], found
