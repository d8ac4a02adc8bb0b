"""Rows that tell: of kernels whose maximum takes too much, or too little, which ordinary rows do not show."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import problems_of

from cutegen.codegen import generate
from cutegen.families.rowwise.cases import FEWEST_ROWS, LONG_ROWS_ELEMENTS
from cutegen.verification.cases import derive_cases
from cutegen.verification.data import KINDS_OF_ROWS

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


def test_long_rows_have_all_kinds_once() -> None:
    """Of each kernel of a module: rows of two pieces are as few as the elements are many, and addresses need one."""
    cases = derive_cases(generate(SOFTMAX, "telling.yaml").modules[0].plan)
    of = {case.of[0] for case in cases}
    kinds = {case.of[0]: case.sizes["M"] for case in cases if case.name.startswith("rows, case")}
    assert len(of) > 2 and kinds.keys() == of and min(kinds.values()) >= KINDS_OF_ROWS
    pieces = [case.sizes for case in cases if case.name.startswith("rows of two pieces")]
    assert len({sizes["M"] for sizes in pieces}) > 1, "rows of all lengths are as many"
    for sizes in pieces:
        rows, elements = sizes["M"], sizes["M"] * sizes["N"]
        assert rows >= KINDS_OF_ROWS or elements <= LONG_ROWS_ELEMENTS or rows == FEWEST_ROWS
    places = [case.sizes["M"] for case in cases if "alone st" in case.name]
    assert places and set(places) == {1}
