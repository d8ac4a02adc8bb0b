"""Gemms on Hopper's tensor cores whose rows are cut into segments: kernels that run, what is refused, and mistakes in
the text of one.
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

import pytest
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

TILE = "  tiler: {M: 64, N: 32, K: 32}\n  warps: {roles: cooperative}\n"
BUFFERS = "  copies: {C: {columns: 16, stages: 2}}\n"
# Segments without rows, of one row, of a tile, of a row more; two rows belong to none. Few blocks walk all tiles
LENGTHS = (0, 1, 64, 0, 65, 3, 0)
ENDS = tuple(accumulate(LENGTHS))
CASE = Case(
    "segments", "", {"M": ENDS[-1] + 2, "N": 72, "K": 40, "X": len(ENDS)}, "padded", "integers", blocks=2, ends=ENDS
)


def spec(
    compute: str = "A @ W.T",
    schedule: str = TILE,
    more: str = "",
    dtype: str = "bf16",
    c: str = "bf16, align: 16",
    a: str = "",
    end: str = "",
) -> str:
    return f"""\
cutegen: 1
kernel: product
op: gemm
tensors:
  A: {{shape: [M, K], dtype: {dtype}, align: 16{a}}}
  W: {{shape: [X, N, K], dtype: {dtype}, align: 16}}
  ends: {{shape: [X], dtype: i32}}
{more}  C: {{shape: [M, N], dtype: {c}, role: out}}
modes:
  M: {{of: X, offsets: ends}}
compute: C = {compute}
schedule:
  mma: {{atom: wgmma}}
{schedule}divisible: {{N: 8, K: 8}}
{end}"""


def made(text: str) -> Module:
    return generate(text, "specs/x.yaml").modules[0]


def plan_of(text: str) -> WarpspecializedPlan:
    plan = made(text).plan
    assert isinstance(plan, WarpspecializedPlan)
    return plan


def outcomes(module: Module, folder: Path, text: str | None = None, case: Case = CASE) -> list[str]:
    path = folder / "product.py"
    path.write_text(module.text if text is None else text, encoding="utf-8")
    report = verify_case(module.plan, case, load_module(path), EmulatorExecutor(lines=False))
    return [report.message] if report.message else []


MORE = """\
  row: {shape: [M], dtype: f32}
  each: {shape: [X], dtype: f32}
  bias: {shape: [X, N], dtype: f32, align: 8}
  column: {shape: [N], dtype: bf16}
  R: {shape: [M, N], dtype: bf16, align: 16}
"""
U = "  U: {shape: [X, N, K], dtype: bf16, align: 16}\n"
RIGHT = {
    "rows, segments, columns and all elements": spec("relu((A @ W.T) * each + bias) * row + column - R", more=MORE),
    "stored from registers": spec(
        "(A @ W.T) * row + bias",
        f"{TILE}  copies: {{C: {{atom: universal}}}}\n",
        more="".join(MORE.splitlines(keepends=True)[:3:2]),
        c="f32",
    ),
    "two products in turn": spec(
        "silu(A @ W.T) * (A @ U.T)", "  tiler: {M: 64, N: 32, K: 32}\n  warps: {roles: pingpong}\n", more=U
    ),
    "blocks along N share loads": spec(schedule=f"{TILE}  cluster: {{N: 2}}\n", dtype="f16", c="f32, align: 16"),
    "blocks along M share loads": spec(schedule=f"{TILE}  cluster: {{M: 2, N: 1}}\n", a=", major: M"),
    "in boxes, in the other order": spec(
        schedule=f"{TILE}  copies: {{A: {{box: 16}}, W: {{box: 16}}}}\n  scheduler: {{raster: M, swizzle: 1}}\n",
        end="static: {X: 7}\n",
    ),
    "of 8 bits": spec(schedule="  tiler: {M: 64, N: 32, K: 64}\n", dtype="f8e4m3", end="").replace("K: 8", "K: 16"),
}


@pytest.mark.parametrize("name", RIGHT)
def test_right(name: str, tmp_path: Path) -> None:
    case = (
        CASE
        if "8 bits" not in name
        else Case("", "", {**CASE.sizes, "K": 80}, "padded", "integers", blocks=2, ends=ENDS)
    )
    assert outcomes(made(RIGHT[name]), tmp_path, case=case) == []


MISTAKES = {
    "a segment begins a row late": ("return start, cutlass.max(", "return start + 1, cutlass.max("),
    "a segment has a row of the next one": (
        "return segment, before, start, end - start",
        "return segment, before, start, end - start + 1",
    ),
    "a segment lacks its last row": (
        "return segment, before, start, end - start",
        "return segment, before, start, end - start - 1",
    ),
    "rows are multiplied by the next matrix": ("k_tile, segment],", "k_tile, segment + 1],"),
    "rows are multiplied by the first matrix": ("k_tile, segment],", "k_tile, 0],"),
    "segments without rows have a tile": (
        "own = cute.ceil_div(end - start, BLK_M)",
        "own = cutlass.max(1, cute.ceil_div(end - start, BLK_M))",
    ),
    "a tile of a segment is one of the next": ("while tile >= before + own", "while tile > before + own"),
    "the first row is counted from the last segment": ("* cutlass.Int32(segment > 0)", ""),
    "fewer tiles are counted": (
        "cutlass.range(cute.arch.lane_idx(), ends.shape[0], 32",
        "cutlass.range(cute.arch.lane_idx(), ends.shape[0] - 2, 32",
    ),
    "tiles are counted by one thread": (
        "return cute.arch.warp_reduction(count, lambda x, y: x + y) * tiles_n",
        "return count * tiles_n",
    ),
    "a piece that a segment ends in is stored whole": (
        "if segment_rows >= 64 * (row + 1):",
        "if segment_rows > 64 * row:",
    ),
    "a piece that a segment ends in is not stored": ("if in_rows and COLUMNS", "if False and in_rows and COLUMNS"),
    "its rows are stored one further": (
        "in_rows = 64 * row + place[0] < segment_rows",
        "in_rows = 64 * row + place[0] <= segment_rows",
    ),
    "its columns go beyond the end": (" + place[1] < mC.shape[1]", " + place[1] < mC.shape[1] + 8"),
    "rows are stored from another buffer": ("[None, i, 0, buffer]", "[None, i, 0, 0]"),
    "no group for a piece that threads store": (
        "                    cute.arch.cp_async_bulk_commit_group()\n",
        "                    if segment_rows >= 64 * (row + 1):\n"
        "                        cute.arch.cp_async_bulk_commit_group()\n",
    ),
    "tiles of A are those of the tensor": ("cute.domain_offset((first_row, 0), mA)", "mA"),
    "pieces of C are those of the tensor": ("cute.domain_offset((first_row, 0), tma_tensor_C)", "tma_tensor_C"),
}
EPILOGUES = {
    "a row's value is another row's": ("cute.domain_offset((first_row, 0), mrow)", "mrow"),
    "a segment's value is the first one's": ("(m_tile, n_tile, segment)", "(m_tile, n_tile, 0)"),
    "a segment's row is the first one's": ("mbias[None, None, segment]", "mbias[None, None, 0]"),
    "what is added is of other rows": ("cute.domain_offset((first_row, 0), mR)", "mR"),
}


@pytest.mark.parametrize("mistake", sampled([*MISTAKES, *EPILOGUES]))
def test_a_mistake_is_seen(mistake: str, tmp_path: Path) -> None:
    old, new = (MISTAKES | EPILOGUES)[mistake]
    module = made(
        spec(schedule=TILE + BUFFERS) if mistake in MISTAKES else RIGHT["rows, segments, columns and all elements"]
    )
    assert old in module.text
    assert outcomes(module, tmp_path, module.text.replace(old, new))


def test_cases_have_segments_of_all_lengths() -> None:
    """Around a tile, none, one row, many segments, and rows that belong to none: without being asked."""
    plan = plan_of(spec())
    found = [case for case in derive_cases(plan) if case.ends]
    lengths = {end - start for case in found for start, end in zip((0, *case.ends), case.ends, strict=False)}
    assert {0, 1, 63, 64, 65} <= lengths
    assert all(case.ends[-1] < case.sizes["M"] for case in found)
    assert max(len(case.ends) for case in found) > 2 * 32
    assert any(case.blocks == plan.cluster_size for case in found)


@pytest.mark.parametrize(
    ("schedule", "words"),
    [
        ("  mma: {atom: wgmma, rows: N}\n  tiler: {M: 32, N: 64, K: 32}\n", "not columns"),
        (f"{TILE}  cluster: {{K: 2}}\n", "cannot split `K`"),
        (f"{TILE}  scheduler: {{kind: grid}}\n", "not known when the kernel is launched"),
        (f"{TILE}  predication: {{M: none}}\n", "rows need predicates"),
        (f"{TILE}  copies: {{A: {{misaligned: workspace}}}}\n", "copy nothing to workspaces"),
    ],
)
def test_a_schedule_that_walks_no_segments_is_refused(schedule: str, words: str) -> None:
    text = spec(schedule=schedule)
    text = text.replace("  mma: {atom: wgmma}\n", "") if "rows: N" in schedule else text
    found = [problem for problem in found_in(text) if problem.code == "CG313"]
    assert len(found) == 1 and words in found[0].message


@pytest.mark.parametrize("atom", ["mma_sync", "fma"])
def test_other_families_take_no_segments(atom: str) -> None:
    text = spec(schedule="").replace("atom: wgmma", f"atom: {atom}").replace("bf16", "f32" if atom == "fma" else "bf16")
    assert "CG144" in [problem.code for problem in found_in(text)]
