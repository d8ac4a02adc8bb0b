"""Rows that tell: of kernels whose maximum takes too much, or too little, which ordinary rows do not show."""

from __future__ import annotations

from pathlib import Path

import pytest
from kept_kit import problems_of

from cutegen.codegen import generate
from cutegen.dtypes import Dtype
from cutegen.families.rowwise.cases import FEWEST_ROWS, LONG_ROWS_ELEMENTS
from cutegen.language.model import Tensor
from cutegen.verification.cases import derive_cases
from cutegen.verification.data import KINDS_OF_ROWS, data_for

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

MANY_WARPS = SOFTMAX + (
    "schedule: {keep: registers, shorter: mask, longer: refuse, tiler: {M: 1, N: 2048}, threads_per_row: 256}\n"
)


@pytest.mark.parametrize(
    ("text", "case", "old", "new"),
    [
        (
            MANY_WARPS,
            "rows with peaks",
            "other = others[i]\n        x = cute.arch.fmax",
            "other = others[i % 7]\n        x = cute.arch.fmax",
        ),
        (HELD, "rows, one less", 'cute.full_like(x1, float("-inf"))', "cute.full_like(x1, 0.0)"),
        (
            WALKED,
            "rows of all blocks",
            "for piece in cutlass.range(rank, pieces, CLUSTER):",
            "for piece in cutlass.range(rank, cutlass.min(pieces, CLUSTER), CLUSTER):",
        ),
    ],
    ids=["the last warp's does not count", "masked elements count as 0", "only a block's first piece counts"],
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


def test_each_warp_and_each_block_has_the_peak_of_a_row() -> None:
    """Of several results for a lane, which only the largest clusters have, even where the first of the form has not."""
    plan = generate(SOFTMAX, "telling.yaml").modules[0].plan
    cases = {case.of[0]: case for case in derive_cases(plan) if case.data == "peaks" and case.of[1] == 0}
    largest = [kernel for kernel in plan.kernels if kernel.warps_per_row * kernel.cluster > 32]  # type: ignore[attr-defined]
    assert len(cases) > len(largest) > 1
    for kernel in largest:
        assert cases[kernel.case].sizes["M"] >= kernel.cluster, kernel.case  # type: ignore[attr-defined]


@pytest.mark.parametrize("dtype", [Dtype.bf16, Dtype.f64, Dtype.f8e4m3, Dtype.i8, Dtype.i64])
def test_peaks_lie_in_all_parts_of_a_row(dtype: Dtype) -> None:
    rows, size = 8, 64
    data = data_for(Tensor("X", ("M", "N"), dtype, "N"), (rows, size), "peaks", 3, (1,)).double()
    for found in (data.argmax(1), data.argmin(1)):
        assert sorted((found // (size // rows)).tolist()) == list(range(rows))
    if dtype.is_float:
        top, low = data.sort(1).values[:, -2:], data.sort(1).values[:, :2]
        assert (top.diff() > 100).all() and (low.diff() > 100).all(), "a wrong maximum makes exponentials overflow"
