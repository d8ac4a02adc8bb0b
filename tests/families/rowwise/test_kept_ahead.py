"""The next row comes to shared memory while a block computes on its own, and what is the same for all rows comes once:
right on the emulator, and mistakes are found.
"""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import module_of, problems_of
from lint_kit import found_in
from sweep_kit import sampled

from cutegen.analysis.claims import claims
from cutegen.families.rowwise.plan import RowwisePlan

pytest.importorskip("cutlass")
pytest.importorskip("torch")

# Clusters of two blocks; of what is the same for all rows one tensor has other accesses, and one too narrow ones
NORM = """\
cutegen: 1
kernel: norm
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  W: {shape: [N], dtype: f16}
  b: {shape: [N], dtype: f32}
  Q: {shape: [N], dtype: i8}
  Y: {shape: [M, N], dtype: f16, role: out}
compute: Y = X * mean(X, N) * W + b * Q
schedule:
  keep: smem
  threads_per_row: 64
  tiler: {N: 512}
  cluster: {N: 2}
  scheduler: {kind: persistent, blocks: 4}
  pipeline: {stages: 2}
static: {N: 1304}
targets: [sm_90a]
"""
# Rows along three modes, of any size up to a bound, with sums over them
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: f32, role: inout}
  W: {shape: [N], dtype: f32}
  s: {shape: [M, N], dtype: f32}
compute: X = X * W - mean(X, N) * s
schedule:
  - for: {N: "<= 300"}
    keep: smem
    threads_per_row: 32
    tiler: {N: 128}
    scheduler: {blocks: 3}
    pipeline: {stages: 2}
  - keep: reload
targets: [sm_90a]
"""
TEXTS = {"norm": NORM, "sums": SUMS}
CASES = (
    *("rows", "several rows a block", "special values", "the longest rows", "N = 1", "all one more, narrow"),
    "several rows a block, narrow",
)


@pytest.mark.parametrize(("name", "once", "slots"), [("norm", ("W", "b"), 2), ("sums", ("W",), 3)])
def test_rows_are_right(name: str, once: tuple[str, ...], slots: int, tmp_path: Path) -> None:
    plan = module_of(TEXTS[name]).plan.kernels[0]
    assert isinstance(plan, RowwisePlan)
    assert (plan.kept, plan.kept_once, plan.row_stages, plan.slots) == (("X", *once), once, 2, slots)
    assert [claim.text for claim in claims(plan) if not claim.holds] == []
    assert problems_of(TEXTS[name], CASES, tmp_path) == []


OTHER = "kept_tile = ((None, None), (0, piece // CLUSTER, next_stage))"
MUTANTS = [
    ("norm", "the stage of another row is read", {"fixed_tile = ": f"{OTHER}\n            fixed_tile = "}),
    ("norm", "nothing is waited for", {"cute.arch.mbarrier_wait(loaded + stage, turn // 2 % 2)": "pass"}),
    ("norm", "the phase of the first row", {"turn // 2 % 2": "0"}),
    ("norm", "the phase of each row", {"turn // 2 % 2": "turn % 2"}),
    ("norm", "the next row is copied over this one", {"next_tile, next_stage": "next_tile, stage"}),
    ("norm", "the barrier of this row", {"loaded + next_stage, next": "loaded + stage, next"}),
    ("norm", "a stage that others still read", {"cute.arch.sync_threads()  # before the row": "pass  #"}),
    ("norm", "the first row is in the other stage", {"cluster_idx, 0, rank": "cluster_idx, 1, rank"}),
    ("norm", "a row that there is not", {"if next_tile < row_tiles": "if next_tile <= row_tiles"}),
    ("norm", "what is the same is not waited for", {"cute.arch.mbarrier_wait(loaded + 2, 0)": "pass"}),
    ("norm", "one of two tensors is counted", {"elements * 6": "elements * 2"}),
    ("norm", "what is the same, of the other block", {"loaded + 2, rank": "loaded + 2, 1 - rank"}),
    ("sums", "a stage for a shorter row", {"stride=(0, 0, 1, 384)": "stride=(0, 0, 1, 128)"}),
]


@pytest.mark.parametrize(("name", "what", "changes"), sampled(MUTANTS), ids=[what for _, what, _ in MUTANTS])
def test_a_mistake_is_found(name: str, what: str, changes: dict[str, str], tmp_path: Path) -> None:
    assert problems_of(TEXTS[name], CASES, tmp_path, changes), what


def test_what_is_the_same_for_all_rows_stays_where_blocks_have_one_row() -> None:
    plan = module_of(
        NORM.replace("kind: persistent, blocks: 4", "kind: grid").replace("  pipeline: {stages: 2}\n", "")
    ).plan
    assert isinstance(plan, RowwisePlan)
    assert (plan.kept, plan.kept_once, plan.row_stages) == (("X",), (), 1)


def test_two_rows_need_twice_the_room() -> None:
    long = NORM.replace("1304", "200000").replace("{N: 2}", "{N: 8}").replace("blocks: 4", "blocks: 8")
    (hit,) = found_in(long)
    assert hit.code == "CG294" and "2 rows at a time" in hit.notes[0]
    assert found_in(long.replace("stages: 2", "stages: 1")) == ()
