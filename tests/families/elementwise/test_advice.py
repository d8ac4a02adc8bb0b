"""Advice on the speed of elementwise kernels: what it says is true, and what it suggests takes it away."""

from __future__ import annotations

import pytest
from lint_kit import advice

COPY = """\
cutegen: 1
kernel: twice
op: elementwise
tensors:
  S: {shape: [M, N], dtype: f32, align: 16}
  D: {shape: [M, N], dtype: f32, align: 16, role: out}
compute: D = 2 * S
"""


def test_an_inferred_copy_needs_no_advice() -> None:
    assert not advice(COPY)


@pytest.mark.parametrize(
    ("tiler", "bits", "place", "help"),
    [
        # Threads have 1 or 6 elements of a row, which is no whole number of accesses of 4.
        ("{M: 32, N: 32}", "", "thread_layout: ", "write `N: 128` in the tiler and `copy: {bits: 128}`"),
        ("{M: 32, N: 192}", "", "thread_layout: ", "write `N: 256` in the tiler and `copy: {bits: 128}`"),
        ("{M: 32, N: 256}", "  copy: {bits: 64}\n", "bits: ", "write `bits: 128`"),
    ],
)
def test_threads_of_an_inner_outer_partition_may_deal_out_wider_accesses(
    tiler: str, bits: str, place: str, help: str
) -> None:
    text = f"{COPY}schedule:\n  partition: inner_outer\n  tiler: {tiler}\n  thread_layout: (8,32):(32,1)\n{bits}"
    (found,) = advice(text)
    assert (found.code, found.help) == ("CG272", help)
    assert found.span is not None and text.split("\n")[found.span.line - 1].strip().startswith(("copy:", place))


def test_tensors_of_one_kind_are_told_together() -> None:
    (found,) = advice(COPY + "schedule: {partition: inner, tiler: {M: 1, N: 8}}\n")
    assert found.message == "S and D are accessed in 32 sectors per request instead of 16"


def test_threads_that_walk_across_the_contiguous_mode_are_told_of_the_raster() -> None:
    schedule = "schedule: {partition: inner, tiler: {M: 1, N: 4}, scheduler: {raster: M}}\n"
    (found,) = advice(COPY + schedule)
    assert found.code == "CG271" and found.help == "write `raster: N`"
    assert not advice(COPY + schedule.replace("raster: M", "raster: N"))


def test_a_transpose_is_walked_in_tiles_that_suit_both() -> None:
    """S is contiguous along M and D along N: rows of a warp suit D alone, and what is inferred suits both."""
    transposed = COPY.replace("dtype: f32, align: 16}\n  D", "dtype: f32, major: M, align: 16}\n  D")
    assert not advice(transposed)
    (found,) = advice(transposed + "schedule: {thread_layout: '(8,32):(32,1)'}\n")
    assert found.code == "CG271" and found.help == (
        'write `thread_layout: "(16,16):(16,1)"` and `value_layout: "(4,4):(4,1)"`'
    )
    assert not advice(transposed + "schedule:\n  thread_layout: (16,16):(16,1)\n  value_layout: (4,4):(4,1)\n")


def test_the_walk_of_threads_beyond_the_last_tile_needs_its_predicate() -> None:
    schedule = "schedule: {partition: inner, tiler: {M: 1, N: 4}, predication: {M: mask}}\n"
    assert not advice(COPY + schedule)


def test_a_width_that_bits_asks_for_is_told_at_bits() -> None:
    text = COPY + "schedule:\n  value_layout: (4,4):(4,1)\n  copy: {bits: 64}\n"
    (found,) = [d for d in advice(text) if d.code == "CG272"]
    line = text.splitlines()[found.span.line - 1]
    assert (
        found.code == "CG272" and line[found.span.column - 1 :].startswith("64") and found.help == "write `bits: 128`"
    )
