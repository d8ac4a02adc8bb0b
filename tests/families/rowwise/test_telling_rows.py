"""Rows that tell: of kernels whose maximum takes too much, or too little, which ordinary rows do not show."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import problems_of

pytest.importorskip("cutlass")

SOFTMAX = """\
cutegen: 1
kernel: telling
op: rowwise
tensors:
  X: {shape: [M, N], dtype: f32}
  Y: {shape: [M, N], dtype: f32, role: out}
compute:
  - e = exp(X - max(X, N))
  - Y = e / sum(e, N)
targets: [sm_90a]
"""
HELD = (
    SOFTMAX + "schedule: {keep: registers, shorter: mask, longer: refuse, tiler: {M: 1, N: 512}, threads_per_row: 64}\n"
)
WALKED = SOFTMAX + (
    "schedule: {keep: reload, online: never, tiler: {N: 512}, threads_per_row: 64, cluster: {N: 4},\n"
    "  copy: {fallback: refuse}}\n"
)


@pytest.mark.parametrize(
    ("text", "case", "old", "new"),
    [
        (HELD, "rows, one less", 'cute.full_like(x1, float("-inf"))', "cute.full_like(x1, 0.0)"),
        (
            WALKED,
            "rows of all blocks",
            "for piece in cutlass.range(rank, pieces, CLUSTER):",
            "for piece in cutlass.range(rank, cutlass.min(pieces, CLUSTER), CLUSTER):",
        ),
    ],
    ids=["masked elements count as 0", "only a block's first piece counts"],
)
def test_a_wrong_maximum_is_seen(text: str, case: str, old: str, new: str, tmp_path: Path) -> None:
    names = ["rows", "special values", case]
    assert problems_of(text, names, tmp_path) == []
    (first,) = problems_of(text, names, tmp_path, {old: new})
    assert first.startswith(case), "no other case shows it"
