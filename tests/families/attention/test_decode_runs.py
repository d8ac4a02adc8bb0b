"""Kernels of few rows, whose walk several blocks share: they are right, and each of many small mistakes is seen."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from sweep_kit import sampled

from cutegen.codegen import Module, generate
from cutegen.families.attention.mma_sync.filling import parts_at
from cutegen.families.attention.mma_sync.plan import AttentionPlan
from cutegen.verification.cases import Case
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case

LN2 = 0.6931471805599453
SPEC = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {{shape: [B, M, G, R, D], dtype: bf16}}
  K: {{shape: [B, N, G, D], dtype: bf16}}
  V: {{shape: [B, N, G, E], dtype: bf16}}
  slope: {{shape: [G, R], dtype: f32}}
  gate: {{shape: [B, M, G, R, E], dtype: f32}}
  O: {{shape: [B, M, G, R, E], dtype: bf16, role: out}}
  lse: {{shape: [B, G, R, M], dtype: f32, role: out}}
scalars: {{scale: f32, left: i32}}
compute:
  - d = coord(M) - coord(N) + len(N) - len(M)
  - s = where(d >= 0 and d <= left, sum(Q * K, D) * scale + slope * coord(N), -inf)
  - m = max(s, N)
  - p = exp(s - m)
  - l = sum(p, N)
  - O = sum(cast(p, bf16) * V, N) / l * gate
  - lse = m + log(l)
static: {{D: 64, E: 64}}
schedule: {{{schedule}}}
targets: [sm_80]
"""
SHARED = "tiler: {M*R: 16, N: 32}, mma: {warps: 2}, split: {N: 3}"  # warps share the elements of a tile
ALONE = "tiler: {M*R: 16, N: 32}, mma: {warps: 1}, split: {N: 5}"
ROWS = "tiler: {M: 32, N: 32}, mma: {warps: 2}, split: {N: 2}"  # warps share the rows of a tile
PACKED = "tiler: {M*R: 32, N: 32}, mma: {warps: 2}"
FILLING = "tiler: {M*R: 16, N: 32}, mma: {warps: 2}, split: {N: auto}"
SCHEDULES = {"shared": SHARED, "alone": ALONE, "rows": ROWS, "packed": PACKED, "filling": FILLING}
OUTER = {"B": 2, "G": 2, "D": 64, "E": 64}
CASES = (  # parts of 2 and 3 tiles; tiles of rows that begin within a group; parts that a window leaves empty
    Case("tiles", "", {**OUTER, "R": 3, "M": 7, "N": 261}, "padded", "random", 1, {"scale": 0.1, "left": 200}),
    Case("narrow", "", {**OUTER, "R": 5, "M": 4, "N": 133}, "padded", "integers", 2, {"scale": LN2, "left": 5}),
    Case("short", "", {**OUTER, "R": 4, "M": 9, "N": 7}, "compact", "random", 3, {"scale": 0.1, "left": 40}),
    Case("one row", "", {**OUTER, "R": 1, "M": 1, "N": 97}, "compact", "random", 4, {"scale": 0.1, "left": 400}),
)
MISTAKES = {
    "a part's sums are not scaled": ("own.load() * m_own", "own.load()"),
    "nor are those before": ("merged.load() * m_grown", "merged.load()"),
    "nor is the sum of a row": ("given[BLK_E + 1] * m_own", "given[BLK_E + 1]"),
    "a maximum that is not kept": ("        carried[0] = largest\n", "        pass\n"),
    "a difference of infinities": (' if largest == float("-inf") else largest', " if largest == 1e30 else largest"),
    "the last part is left out": ("PARTS, tidx, acc_mn", "PARTS - 1, tidx, acc_mn"),
    "the last warp is left out": ("WARPS, run % runs, merged", "WARPS - 1, run % runs, merged"),
    "parts have a tile together": ("part * share + cutlass.min(part, longer)", "part * share"),
    "the rest of the tiles is walked by nobody": ("share + cutlass.Int32(part < longer)", "share"),
    "parts begin with the first tile": ("first_tile = first_tile + part * share", "first_tile = part * share"),
    "each part stands where the first does": ("stored = workspace_O[part, ", "stored = workspace_O[0, "),
    "rows of the first group": ("rows_before + row_place, None", "row_place, None"),
    "carried for the row behind": ("of_warps[warp_idx, rows[row], BLK_E + 1]", "of_warps[warp_idx, rows[row], BLK_E]"),
    "half of a row's lanes": ("for lanes in range(1, 3):", "for lanes in range(1, 2):"),
    "another base of the logarithm": ("cute.math.log(l)", "cute.math.log2(l)"),
    "a row without elements": ("+ undefined", "+ 0.0"),
    "elements of the first warp": (" + warp_idx * KEYS", ""),
    "values of the first warp": ("STAGES), (0, warp_idx, 0))", "STAGES), (0, 0, 0))"),
    "a row of the next group": ("row_place = row_tile * BLK_ROWS + tQcQ", "row_place = 1 + row_tile * BLK_ROWS + tQcQ"),
    "heads by the number of rows": ("at_R = row_place % size_R\n        if", "at_R = row_place % size_M\n        if"),
    "a window by heads": ("first_row = first_row // size_R", "first_row = first_row"),
    "its end by heads": ("BLK_ROWS - 1) // size_R", "BLK_ROWS - 1) // size_M"),
    "a place among all rows": ("at_M = row_place // size_R\n            at_R", "at_M = row_place\n            at_R"),
    "a merged row of another head": ("at_R, place = place % size_R", "at_R, place = place % size_M"),
    "a result of the columns behind": ("], (4,), (tidx,))", "], (4,), (tidx ^ 1,))"),
    "warps that read before all have written": (
        "    cute.arch.sync_threads()\n    # A thread merges",
        "    # A thread merges",
    ),
}  # fmt: skip


@cache
def made(name: str) -> Module:
    return generate(SPEC.format(schedule=SCHEDULES[name]), "specs/small.yaml").modules[0]


def first_failure(folder: Path, name: str, text: str) -> str:
    """The message of the first case that fails; empty where all pass."""
    module = made(name)
    (folder / module.name).write_text(text, encoding="utf-8")
    loaded = load_module(folder / module.name)
    executor = EmulatorExecutor(lines=False)  # which compiles the module once
    reports = (verify_case(module.plan, case, loaded, executor) for case in CASES)
    return next((report.message for report in reports if report.status != "passed"), "")


@pytest.mark.parametrize("name", SCHEDULES)
def test_it_is_right(tmp_path: Path, name: str) -> None:
    pytest.importorskip("cutlass")
    assert first_failure(tmp_path, name, made(name).text) == ""


def test_schedules_differ_in_what_warps_share() -> None:
    plans = {name: made(name).plan for name in SCHEDULES}
    found = {}
    for name, plan in plans.items():
        assert isinstance(plan, AttentionPlan)
        found[name] = (plan.parts, plan.key_warps, plan.packed)
    assert found == {
        "shared": (3, 2, ("R",)),
        "alone": (5, 1, ("R",)),
        "rows": (2, 1, ()),
        "packed": (1, 1, ("R",)),
        "filling": (256, 2, ("R",)),
    }


@pytest.mark.parametrize(
    ("right", "wrong"),
    [
        ("", ""),
        ("workspace_O.shape[0], tidx", "workspace_O.shape[0] - 1, tidx"),
        ("parts = workspace_O.shape[0]", "parts = workspace_O.shape[0] - 1"),
        ("new_empty((parts, rows, GIVEN)", "new_empty((parts, rows, GIVEN - 4)"),
    ],
)
def test_as_many_parts_as_fill_the_gpu(tmp_path: Path, right: str, wrong: str) -> None:
    pytest.importorskip("cutlass")
    module, sizes = made("filling"), {**OUTER, "R": 3, "M": 2, "N": 1061}
    assert isinstance(module.plan, AttentionPlan) and parts_at(module.plan, sizes) == 7
    assert right in module.text
    (tmp_path / module.name).write_text(module.text.replace(right, wrong) if right else module.text, encoding="utf-8")
    case = Case("long", "", sizes, "compact", "random", 5, {"scale": 0.1, "left": 2000})
    report = verify_case(module.plan, case, load_module(tmp_path / module.name), EmulatorExecutor(lines=False))
    assert (report.status == "passed") == (not right), report.message


@pytest.mark.parametrize("mistake", sampled(list(MISTAKES), 5))
def test_each_mistake_is_seen(tmp_path: Path, mistake: str) -> None:
    pytest.importorskip("cutlass")
    text, (right, wrong) = made("shared").text, MISTAKES[mistake]
    assert right in text
    assert first_failure(tmp_path, "shared", text.replace(right, wrong))
