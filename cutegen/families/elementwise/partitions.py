"""Who has what: the (thread, value) layouts of every partition that an elementwise kernel is printed with.

Each is a function of strides, so that one layout gives elements of memory, places in a tile or coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence

from tensor_layouts import Layout, compose, right_inverse

from cutegen import layouts
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.layouts import pair, plane


def thread_values(plan: ElementwisePlan, strides: Sequence[int]) -> Layout:
    """The layout (thread, value) -> element of a tensor with these strides along the output's modes."""
    tile = plane(plan.tiler, strides)
    if plan.partition == "thread_value":
        assert plan.tv_layout is not None
        threads, values = (compose(tile, mode) for mode in layouts.modes_of(plan.tv_layout))
        return pair(threads, values)
    if plan.partition == "inner_outer":
        assert plan.thread_layout is not None
        sides = layouts.mode_sizes(plan.thread_layout)
        run = plan.run or (1,) * len(sides)
        starts = [stride * own for stride, own in zip(strides, run, strict=True)]
        share = [extent // (side * own) for extent, side, own in zip(plan.tiler, sides, run, strict=True)]
        spread = [start * side for start, side in zip(starts, sides, strict=True)]
        values = plane(share, spread)
        if plan.run is not None:
            values = pair(plane(run, strides), values)
        return pair(compose(plane(sides, starts), right_inverse(plan.thread_layout)), values)
    values = tile if plan.value_layout is None else compose(tile, plan.value_layout)
    return pair(_walk(plan, strides), values)


def _walk(plan: ElementwisePlan, strides: Sequence[int]) -> Layout:
    """The layout thread -> start of its tile, where each thread has a tile of its own.

    It counts as many tiles along a mode as there are threads, unless the mode's size is fixed. Fixed sizes may leave
    the layout with a few more threads than a block has.
    """
    modes, left = plan.spec.lead.shape, plan.threads
    shape, steps = [], []
    for i in plan.tile_order:
        tiles = -(-plan.spec.static[modes[i]] // plan.tiler[i]) if modes[i] in plan.spec.static else left
        extent = left if i == plan.tile_order[-1] else min(tiles, left)
        shape.append(extent)
        steps.append(plan.tiler[i] * strides[i])
        left = -(-left // extent)
    return plane(shape, steps)
