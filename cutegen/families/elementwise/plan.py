"""The plan of an elementwise kernel: every number and choice that its templates print."""

from __future__ import annotations

from dataclasses import dataclass

from tensor_layouts import Layout

from cutegen.families.common.pointwise import PointwisePlan
from cutegen.families.elementwise.schedule import Partition


@dataclass(frozen=True, kw_only=True)
class ElementwisePlan(PointwisePlan):
    """An elementwise kernel: which tile a thread or block has, and how it is dealt out."""

    partition: Partition
    tiler: tuple[int, ...]  # of the output's modes: of a thread for inner, of a block else
    thread_layout: Layout | None
    value_layout: Layout | None  # thread_value: of the partition; inner: the order of a thread's values, if not CuTe's
    tv_layout: Layout | None
    run: tuple[int, ...] | None  # inner_outer: the shape of what the threads deal out, if not single elements
    tile_order: tuple[int, ...]  # modes in the order in which consecutive blocks (inner: threads) walk the tiles
    check_threads: bool  # inner: the host demands a whole number of blocks
    guard_tiles: bool  # inner: threads beyond the last tile are found by their tile's index, not by its coordinates
    most_tiles: int | None  # that 32 bits can count; None if the sizes are fixed, and fewer
