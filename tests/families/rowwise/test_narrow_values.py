"""Threads have half as many values where accesses are narrow, and blocks of few rows are small."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch
from kept_kit import module_of, plan_of, problems_in

from cutegen.emulator.host.builds import builds
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import rows_with
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module

pytest.importorskip("cutlass")

SOFTMAX = """\
cutegen: 1
kernel: unit
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
schedule: {keep: registers, tiler: {M: 1, N: 4096}, threads_per_row: 128, shorter: fewer_threads, longer: reload}
targets: [sm_80]
"""
NORM = """\
cutegen: 1
kernel: unit
op: rowwise
tensors:
  X: {shape: [M, N], dtype: bf16}
  W: {shape: [N], dtype: f32}
  b: {shape: [N], dtype: f32}
  Y: {shape: [M, N], dtype: bf16, role: out}
compute: Y = (X - mean(X, N)) * W + b
targets: [sm_90a]
"""


@pytest.mark.parametrize(
    ("old", "new", "narrow"),
    [
        ("cutegen: 1", "cutegen: 1", 16),
        ("longer: reload", "longer: refuse", 32),  # rows of 4096 elements at odd addresses would be too long
        ("Y: {shape: [M, N], dtype: bf16", "Y: {shape: [M], dtype: f32", 32),  # loads alone
        ("longer: reload", "longer: reload, copy: {fallback: refuse}", 32),
        (", shorter: fewer_threads, longer: reload}", "}\nstatic: {N: 4096}", 32),
        ("N: 4096", "N: 1024", 8),  # one access of 128 bits, and 8 of one element
        ("N: 4096", "N: 3072", 24),  # three such accesses, of which there is no half
    ],
)
def test_values_of_narrow_accesses(old: str, new: str, narrow: int) -> None:
    text = SOFTMAX.replace(old, new)
    if "Y: {shape: [M]," in text:
        text = text.replace("  - Y = e / sum(e, N)", "  - Y = log(sum(e, N))")
    plan = plan_of(text)
    assert plan.narrow_values == narrow
    assert ("NARROW_VALUES" in module_of(text).text) == (narrow != plan.values)
    narrow_ways = [way for way in plan.ways if way.way and re.search("words|one element|narrow", way.way)]
    assert {way.values for way in narrow_ways} <= {narrow}


def test_ways_of_narrow_accesses_have_their_own_lengths() -> None:
    plan = plan_of(SOFTMAX)
    held = {way.way: way.tile["N"] for way in plan.ways}
    wide = [tile for way, tile in held.items() if "narrow" not in way and "words" not in way]
    assert max(wide) == 4096
    assert max(tile for way, tile in held.items() if "narrow" in way or "words" in way) == 2048


@pytest.mark.parametrize(
    "changes",
    [
        {"values = cutlass.Int32(NARROW_VALUES)": "values = cutlass.Int32(VALUES)"},  # half of each row is left out
        {"accesses_fit == cutlass.Boolean(False)": "accesses_fit"},
        {"NARROW_VALUES = 16": "NARROW_VALUES = 8"},  # right, and as many elements: half the threads' values
    ],
)
def test_a_launch_with_too_few_threads_for_narrow_accesses_is_found(changes: dict[str, str], tmp_path: Path) -> None:
    cases = [case for case in derive_cases(plan_of(SOFTMAX)) if case.name.startswith("rows")]
    problem = next(problems_in(SOFTMAX, cases, tmp_path, changes), None)
    assert bool(problem) == ("NARROW_VALUES = 16" not in changes), problem


def test_a_whole_warp_with_narrow_accesses_meets_as_several_do(tmp_path: Path) -> None:
    """Its accesses are a constant way apart there: rows of 333 bf16 took 0.83 of the time on an H200, of 501 0.90."""
    path = tmp_path / "softmax.py"
    path.write_text(module_of(SOFTMAX).text, encoding="utf-8")
    module, spec, executor = load_module(path), plan_of(SOFTMAX).spec, EmulatorExecutor(lines=False)
    entries = builds(module, lines=False)[0].ptx.split(".visible .entry ")[1:]
    text = {entry.split("(")[0]: entry for entry in entries}

    def meets_at_a_barrier(size: int) -> bool:
        tensors = [torch.zeros(9, size, dtype=torch.bfloat16) for _ in range(2)]
        ((launch,),) = executor.launched(module, spec, tensors)
        assert launch.block[0] <= 32
        return "bar.sync" in text[launch.kernel] or "barrier.sync" in text[launch.kernel]

    assert [size for size in (129, 255, 256, 257, 510, 511, 512, 1024) if meets_at_a_barrier(size)] == [257, 510, 511]


@pytest.mark.parametrize(
    ("tiler", "threads", "rows"),
    [("M: 1, N: 4096", 8, 8), ("M: 1, N: 4096", 128, 1), ("M: 4, N: 1024", 32, 4), ("M: 4, N: 1024", 8, 16)],
)
def test_a_block_has_two_warps_unless_the_tiler_says_more(tiler: str, threads: int, rows: int) -> None:
    own = 32 if "M: 4" in tiler else 128
    plan = plan_of(SOFTMAX.replace("M: 1, N: 4096", tiler).replace("threads_per_row: 128", f"threads_per_row: {own}"))
    assert rows_with(plan.flat, threads) == rows


@pytest.mark.parametrize(
    ("old", "new", "crowded"),
    [
        ("cutegen: 1", "cutegen: 1", True),
        ("f32}\n  b", "bf16}\n  b", False),  # W and b take as many registers as a row's values
        (" + b", " + b + Y_in", False),  # a second row
    ],
)
def test_few_registers_for_what_broadcasts(old: str, new: str, crowded: bool) -> None:
    text = NORM.replace(old, new)
    if "Y_in" in text:
        text = text.replace("  W:", "  Y_in: {shape: [M, N], dtype: bf16}\n  W:")
    last = module_of(text).plan.kernels[-1]
    assert isinstance(last, RowwisePlan) and last.is_crowded == crowded
    assert ("RESIDENT = 1024" in module_of(text).text) == crowded
