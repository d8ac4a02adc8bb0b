"""Rows of any size up to a bound that wait in shared memory: right on the emulator, and mistakes are found."""

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

# Two blocks share a row, of which one has no piece of a short one
SHARED = """\
cutegen: 1
kernel: shared
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  Q: {shape: [M, N], dtype: i8}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f16, role: out}
compute:
  - s = max(X, N)
  - Y = X * s * Q
schedule:
  - {for: {N: "<= 600"}, keep: smem, threads_per_row: 32, tiler: {N: 256}, cluster: {N: 2}}
  - {keep: reload}
targets: [sm_90a]
"""
# Blocks that walk many rows, of two tensors, which may be empty
WALKED = """\
cutegen: 1
kernel: walked
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  D: {shape: [M, N], dtype: f32}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - s = sum(X * D, N)
  - Y = X * s
schedule:
  - {for: {N: "< 600"}, keep: smem, threads_per_row: 32, tiler: {N: 256}, scheduler: {blocks: 2}}
  - {keep: reload}
targets: [sm_90a]
"""
# Whole pieces only, so that there is no rest
WHOLE = SHARED.replace("targets", "divisible: {N: 256}\ntargets").replace("shared", "whole").replace("600", "1024")
TEXTS = {"shared": SHARED, "walked": WALKED, "whole": WHOLE}
CASES = (
    *("rows", "rows of two pieces", "primes", "special values", "all one less", "all 1", "N = 0", "the longest rows"),
    *("a piece and one more", "the longest rows, narrow", "all one more, narrow", "a piece and one more, narrow"),
)


@pytest.mark.parametrize(("name", "slots", "runs"), [("shared", 2, True), ("walked", 3, True), ("whole", 2, False)])
def test_rows_up_to_a_bound_are_right(name: str, slots: int, runs: bool, tmp_path: Path) -> None:
    module = module_of(TEXTS[name])
    plan = module.plan.kernels[0]
    assert isinstance(plan, RowwisePlan) and plan.kept and plan.slots == slots
    assert ("if (rest & run) != 0:" in module.text) == runs
    assert [claim.text for claim in claims(plan) if not claim.holds] == []
    assert problems_of(TEXTS[name], CASES, tmp_path) == []


def test_a_piece_of_one_access_leaves_no_rest() -> None:
    one = SHARED.replace("threads_per_row: 32, tiler: {N: 256}, cluster: {N: 2}", "threads_per_row: 1, tiler: {N: 8}")
    assert "rest" in module_of(SHARED).text and "rest" not in module_of(one).text.partition("@cute.kernel")[0]


MUTANTS = [
    ("shared", "the rest is copied nowhere", {"if (rest & run) != 0:": "if (rest & run) < 0:"}),
    ("shared", "the rest is not counted", {"elements = elements + rest": "pass"}),
    ("shared", "the smallest run is left out", {"range_constexpr(5)": "range_constexpr(4)"}),
    ("shared", "runs over each other", {"copied = rest // (2 * run) * (2 * run)": "copied = 0 * rest"}),
    ("shared", "the block beside the owner of the rest", {"whole % CLUSTER": "(whole + 1) % CLUSTER"}),
    ("shared", "all blocks have as many pieces", {"(whole + CLUSTER - 1 - rank)": "(whole + CLUSTER - 1)"}),
    ("shared", "the rest where the first piece is", {"whole // CLUSTER * TILER_1[1] + copied": "copied"}),
    ("shared", "shared memory for one piece less", {"cute.make_layout((1, 512)": "cute.make_layout((1, 256)"}),
    ("walked", "the whole pieces of a longer row", {"whole, rest = mX.shape[1] // TILER_1[1]": "whole, rest = 2"}),
]


@pytest.mark.parametrize(("name", "what", "changes"), sampled(MUTANTS), ids=[what for _, what, _ in MUTANTS])
def test_a_mistake_is_found(name: str, what: str, changes: dict[str, str], tmp_path: Path) -> None:
    assert problems_of(TEXTS[name], CASES, tmp_path, changes), what


def test_the_bound_is_what_shared_memory_needs_room_for() -> None:
    (hit,) = found_in(
        SHARED.replace("600", "150000").replace(
            "threads_per_row: 32, tiler: {N: 256}, cluster: {N: 2}", "cluster: {N: 1}"
        )
    )
    assert (hit.code, hit.help) == ("CG294", "write `cluster: {N: 2}`") and "150000 elements of X" in hit.notes[0]
    (hit,) = found_in(SHARED.replace('"<= 600"', '"> 600"'))
    assert hit.code == "CG294" and "N may have any length" in hit.message and "a case of the schedule" in hit.notes[0]


def test_what_is_inferred_of_a_bound_is_what_is_inferred_of_that_size() -> None:
    of_size = SHARED[: SHARED.index("schedule:")] + "static: {N: 120000}\nschedule: {keep: smem}\ntargets: [sm_90a]\n"
    bounded = SHARED.replace("600", "120000").replace(", threads_per_row: 32, tiler: {N: 256}, cluster: {N: 2}", "")
    one, (other, _) = module_of(of_size).plan, module_of(bounded).plan.kernels
    assert isinstance(one, RowwisePlan) and isinstance(other, RowwisePlan) and one.cluster > 1
    assert (one.cluster, one.threads, one.tiler) == (other.cluster, other.threads, other.tiler)
    assert (one.slots, one.smem_bytes) == (other.slots, other.smem_bytes)
