"""Who has what: the (thread, value) layouts of every partition that a kernel is printed with.

Each is a function of strides, so that one layout gives elements of memory, places in a tile or coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from tensor_layouts import Layout, compose, right_inverse, size

from cutegen.language.layouts import make_layout_tv
from cutegen.planning import layouts
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, WorkspacePlan


def pair(threads: Layout, values: Layout) -> Layout:
    """(thread, value) -> the sum of both."""
    return Layout((threads.shape, values.shape), (threads.stride, values.stride))


def plane(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """A tile in memory."""
    return Layout(shape[0], strides[0]) if len(shape) == 1 else Layout(tuple(shape), tuple(strides))


def thread_values(plan: ElementwisePlan, strides: Sequence[int]) -> Layout:
    """(thread, value) -> element, of a tensor with these strides along the output's modes."""
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
    """Thread -> the start of its tile, where each thread has a tile of its own.

    As if there were as many tiles along a mode as there are threads, unless its size is fixed. Fixed sizes may leave
    the layout with a few more threads than a block has.
    """
    modes, left = plan.spec.output.shape, plan.threads
    shape, steps = [], []
    for i in plan.tile_order:
        tiles = -(-plan.spec.static[modes[i]] // plan.tiler[i]) if modes[i] in plan.spec.static else left
        extent = left if i == plan.tile_order[-1] else min(tiles, left)
        shape.append(extent)
        steps.append(plan.tiler[i] * strides[i])
        left = -(-left // extent)
    return plane(shape, steps)


def tiled_copy(x: GemmOperand, tile: Sequence[int], strides: Sequence[int]) -> Layout:
    """(thread, value) -> element, for all that a thread copies of a tile (m or n, k)."""
    tiler, tv = make_layout_tv(x.thread_layout, x.value_layout)
    threads, values = (compose(Layout(tiler, tuple(strides)), mode) for mode in layouts.modes_of(tv))
    rest = tuple(extent // covered for extent, covered in zip(tile, tiler, strict=True))
    steps = tuple(covered * stride for covered, stride in zip(tiler, strides, strict=True))
    return Layout(
        (threads.shape, (values.shape, *rest)),
        (threads.stride, (values.stride, *steps)),
    )


def tiled_write(x: GemmOperand, depth: int) -> Layout:
    """(thread, value) -> place in a stage of shared memory, for all that a thread writes of a tile `depth` long."""
    tile = (x.block, depth)
    if x.smem_layout is None:
        return tiled_copy(x, tile, (1, x.smem_stride))
    column = x.smem_layout
    stage = Layout((column.shape, depth), (column.stride, x.smem_stride))
    return compose(stage, tiled_copy(x, tile, (1, x.block)))


def workspace_values(x: WorkspacePlan, strides: Sequence[int], written: bool) -> Layout:
    """(thread, value) -> element, for all that a thread moves of a tile (m or n, k) to a workspace; values in the order
    in which they are read, along k first, or in that in which they are written."""
    shape = (x.write, x.read)
    tiler, tv = make_layout_tv(x.thread_layout, Layout(shape, (1, x.write) if written else (x.read, 1)))
    return pair(*(compose(Layout(tiler, tuple(strides)), mode) for mode in layouts.modes_of(tv)))


def epilogue_layout(plan: GemmPlan, strides: Sequence[int]) -> Layout:
    """(thread, accumulator) -> element, of a tensor with these strides along m and n; in the order of the epilogue."""
    threads, along_m = positions(plan, 0, strides)
    _, along_n = positions(plan, 1, strides)
    along_m = Layout(along_m.shape, _scaled(along_m.stride, strides[0]))
    along_n = Layout(along_n.shape, _scaled(along_n.stride, strides[1]))
    order = (along_n, along_m) if plan.row_first else (along_m, along_n)
    return pair(threads, Layout(tuple(x.shape for x in order), tuple(x.stride for x in order)))


def positions(plan: GemmPlan, side: int, strides: Sequence[int]) -> tuple[Layout, Layout]:
    """Of the tiled mma: thread -> element, for strides along m and n; and a thread's own positions along `side`."""
    sides = layouts.mode_sizes(plan.thread_layout)
    parts = [_dealt(plan, i) for i in (0, 1)]
    shape = tuple(first.shape for first, _ in parts)
    steps = tuple(_scaled(first.stride, stride) for (first, _), stride in zip(parts, strides, strict=True))
    plane = Layout(shape, steps)
    places = right_inverse(_flat_k(plan.thread_layout))
    assert int(size(plane)) == prod(sides[:2])
    return compose(plane, places), parts[side][1]


def _flat_k(threads: Layout) -> Layout:
    """Without the mode of k, which has one thread."""
    m, n, _ = layouts.modes_of(threads)
    return Layout((m.shape, n.shape), (m.stride, n.stride))


def _dealt(plan: GemmPlan, side: int) -> tuple[Layout, Layout]:
    """Along m (`side` 0) or n (1): coordinate of a thread -> its first position, and its positions from there on."""
    threads = layouts.mode_sizes(plan.thread_layout)[side]
    permutation = (plan.permutation_m, plan.permutation_n)[side] or Layout(threads, 1)
    reach, block = int(size(permutation)), plan.tile[(plan.m, plan.n)[side]]
    first = compose(permutation, Layout(threads, 1))
    own = compose(permutation, Layout(reach // threads, threads))
    if block == reach:
        return first, own
    return first, Layout((own.shape, block // reach), (own.stride, reach))


def _scaled(stride: object, factor: int) -> object:
    if isinstance(stride, tuple):
        return tuple(_scaled(s, factor) for s in stride)
    assert isinstance(stride, int)
    return stride * factor
