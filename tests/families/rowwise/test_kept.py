"""Rows that wait in shared memory: right kernels pass on the emulator, mistakes in their text are found."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import module_of, problems_of
from sweep_kit import sampled

from cutegen.analysis.claims import claims
from cutegen.families.rowwise.plan import RowwisePlan

pytest.importorskip("cutlass")
pytest.importorskip("torch")

# Two blocks, of which one has a piece more, and the last piece is not whole; one tensor has too narrow accesses
PIECES = """\
cutegen: 1
kernel: two_blocks
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f16}
  Q: {shape: [M, N], dtype: i8}
  b: {shape: [N], dtype: f16}
  r: {shape: [M], dtype: f32}
  s: {shape: [M], dtype: f32, role: out}
  Y: {shape: [M, N], dtype: f16, role: out}
compute:
  - e = exp(X - max(X, N))
  - s = sum(e, N)
  - Y = e * r / s + b * Q
schedule: {keep: smem, threads_per_row: 64, tiler: {N: 512}, cluster: {N: 2}}
static: {N: 1304}
targets: [sm_90a]
"""
# Blocks that walk many rows, of bytes
BYTES = """\
cutegen: 1
kernel: bytes
op: rowwise
tensors:
  X: {shape: [P, M, N], dtype: u8}
  T: {shape: [P, M, N], dtype: bool}
  Y: {shape: [P, M, N], dtype: u8, role: out}
compute: Y = cast(max(where(T, X, 0), N) - minimum(X, coord(M)), u8)
schedule: {keep: smem, threads_per_row: 32, tiler: {N: 512}, scheduler: {blocks: 3}}
static: {N: 1040}
"""
# Clusters that walk many rows, sums over them, and an input that is written
SUMS = """\
cutegen: 1
kernel: sums
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32, role: inout}
  D: {shape: [M, N], dtype: f32}
  s: {shape: [N], dtype: f32, role: out}
compute:
  - X = D - X * mean(X * D, N)
  - s = sum(D, M)
schedule: {keep: smem, threads_per_row: 32, tiler: {N: 128}, cluster: {N: 2}, scheduler: {blocks: 4}}
static: {N: 512}
"""
LINE = """\
cutegen: 1
kernel: line
op: rowwise
tensors:
  X: {shape: [N], dtype: f64}
  Y: {shape: [N], dtype: f64, role: out}
compute: Y = (X - mean(X, N)) * coord(N)
schedule: {keep: smem, copy: {fallback: refuse}}
static: {N: 700}
"""
TEXTS = {"two_blocks": PIECES, "bytes": BYTES, "sums": SUMS, "line": LINE}
CASES = (
    *("rows", "rows of two pieces", "primes", "special values", "M = 0", "N alone does not fit"),
    *("padded residue", "X alone starts elsewhere", "rows, narrow", "all one more, narrow"),
)


@pytest.mark.parametrize(
    ("name", "kept", "slots", "narrows"),
    [("two_blocks", ("X",), 2, True), ("bytes", ("X", "T"), 3, True), ("sums", ("X", "D"), 2, True),
     ("line", ("X",), 2, False)],
)  # fmt: skip
def test_rows_in_shared_memory_are_right(
    name: str, kept: tuple[str, ...], slots: int, narrows: bool, tmp_path: Path
) -> None:
    module = module_of(TEXTS[name])
    plan = module.plan
    assert isinstance(plan, RowwisePlan)
    assert (plan.keep, plan.kept, plan.slots) == ("smem", kept, slots)
    assert ("keep_row" in module.text) and plan.spec.schedule.narrows == narrows
    assert [claim.text for claim in claims(plan) if not claim.holds] == []
    assert problems_of(TEXTS[name], CASES, tmp_path) == []


BARRIER = "mbarrier_init(loaded, 1)\n        cute.arch.mbarrier_init_fence()"
MUTANTS = [
    ("two_blocks", "nothing is waited for", {"cute.arch.mbarrier_wait(loaded, 0)": "pass"}),
    ("two_blocks", "less is waited for", {"(loaded, elements * 2)": "(loaded, elements)"}),
    ("two_blocks", "the last piece is not counted", {"elements = elements + 280": "pass"}),
    (
        "two_blocks",
        "the last piece is copied nowhere",
        {"neighbours(sX, (0, 2 // CLUSTER": "neighbours(sX, (0, 0 * CLUSTER"},
    ),
    ("bytes", "pieces of one place", {"neighbours(sX, (0, 0, piece * TILER[2])": "neighbours(sX, (0, 0, 0 * piece)"}),
    ("two_blocks", "the pieces of the other block", {"(tile_M, piece * TILER[1])": "(tile_M, (piece + 1) * TILER[1])"}),
    (
        "two_blocks",
        "a barrier that nobody has made yet",
        {"cute.arch.sync_threads()\n    # Partial": "pass\n    # Partial"},
    ),
    (
        "two_blocks",
        "the largest begins at 0",
        {'row_max = cutlass.Float32(float("-inf"))': "row_max = cutlass.Float32(0.0)"},
    ),
    (
        "two_blocks",
        "what is beyond the row is a 0 among the largest",
        {'x1, cute.full_like(x1, float("-inf"))': "x1, cute.full_like(x1, 0.0)"},
    ),
    ("bytes", "a barrier that copies do not see", {BARRIER: BARRIER.split("\n")[0]}),
    ("bytes", "the next row is copied over this one", {"cute.arch.sync_threads()  # before the next row": "pass  #"}),
    ("bytes", "the phase of the first row", {"(loaded, turn % 2)": "(loaded, 0 * turn)"}),
    ("bytes", "one of two tensors is counted", {"elements * 2": "elements"}),
    ("sums", "rows of another block", {"tile_M, rank, tv_layout": "tile_M, 1 - rank, tv_layout"}),
]


@pytest.mark.parametrize(
    ("name", "what", "changes"), sampled(MUTANTS), ids=[f"{name}: {what}" for name, what, _ in MUTANTS]
)
def test_a_mistake_is_found(name: str, what: str, changes: dict[str, str], tmp_path: Path) -> None:
    assert problems_of(TEXTS[name], CASES, tmp_path, changes), what
