"""Who has what: the (thread, value) layouts of every partition that a gemm is printed with.

Each is a function of strides, so that one layout gives elements of memory, places in a tile or coordinates.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod

from tensor_layouts import Layout, compose, right_inverse, size

from cutegen import layouts
from cutegen.families.common.dealing import dealt
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan, StagedOperand, WorkspacePlan
from cutegen.layouts import make_layout_tv, pair


def tiled_copy(x: StagedOperand, tile: Sequence[int], strides: Sequence[int]) -> Layout:
    """The layout (thread, value) -> element of all that a thread copies of a tile (m or n, k)."""
    return dealt(x.thread_layout, x.value_layout, tuple(tile), tuple(strides))


def tiled_write(x: GemmOperand, depth: int) -> Layout:
    """The layout (thread, value) -> place in a stage of shared memory of all that a thread writes of a tile.

    The tile is `depth` long along k.
    """
    tile = (x.block, depth)
    if x.smem_layout is None:
        return tiled_copy(x, tile, (1, x.smem_stride))
    column = x.smem_layout
    stage = Layout((column.shape, depth), (column.stride, x.smem_stride))
    return compose(stage, tiled_copy(x, tile, (1, x.block)))


def workspace_values(x: WorkspacePlan, strides: Sequence[int], written: bool) -> Layout:
    """The layout (thread, value) -> element of all that a thread moves of a tile (m or n, k) to a workspace.

    Values are in the order in which they are read, along k first, or in that in which they are `written`.
    """
    shape = (x.write, x.read)
    tiler, tv = make_layout_tv(x.thread_layout, Layout(shape, (1, x.write) if written else (x.read, 1)))
    return pair(*(compose(Layout(tiler, tuple(strides)), mode) for mode in layouts.modes_of(tv)))


def epilogue_layout(plan: GemmPlan, strides: Sequence[int]) -> Layout:
    """The layout (thread, accumulator) -> element of a tensor with these strides along m and n.

    Accumulators are in the order of the epilogue.
    """
    threads, along_m = positions(plan, 0, strides)
    _, along_n = positions(plan, 1, strides)
    along_m = Layout(along_m.shape, _scaled(along_m.stride, strides[0]))
    along_n = Layout(along_n.shape, _scaled(along_n.stride, strides[1]))
    order = (along_n, along_m) if plan.row_first else (along_m, along_n)
    return pair(threads, Layout(tuple(x.shape for x in order), tuple(x.stride for x in order)))


def positions(plan: GemmPlan, side: int, strides: Sequence[int]) -> tuple[Layout, Layout]:
    """Two layouts of the tiled mma: thread -> element, for strides along m and n; and a thread's positions along
    `side`.
    """
    permutations = plan.permutation_m, plan.permutation_n
    blocks = plan.tile[plan.m], plan.tile[plan.n]
    return _positions(plan.thread_layout, permutations, blocks, side, tuple(strides))


@lru_cache(maxsize=256)
def _positions(
    thread_layout: Layout,
    permutations: tuple[Layout | None, Layout | None],
    blocks: tuple[int, int],
    side: int,
    strides: tuple[int, ...],
) -> tuple[Layout, Layout]:
    """The layouts of `positions`, for a tile of `blocks` along m and n, and permutations along both."""
    sides = layouts.mode_sizes(thread_layout)
    parts = [_dealt(sides[i], permutations[i], blocks[i]) for i in (0, 1)]
    shape = tuple(first.shape for first, _ in parts)
    steps = tuple(_scaled(first.stride, stride) for (first, _), stride in zip(parts, strides, strict=True))
    plane = Layout(shape, steps)
    places = right_inverse(_flat_k(thread_layout))
    assert int(size(plane)) == prod(sides[:2])
    return compose(plane, places), parts[side][1]


def _flat_k(threads: Layout) -> Layout:
    """A layout of the mma's threads without its mode of k, which has one thread."""
    m, n, _ = layouts.modes_of(threads)
    return Layout((m.shape, n.shape), (m.stride, n.stride))


def _dealt(threads: int, permutation: Layout | None, block: int) -> tuple[Layout, Layout]:
    """Two layouts along one side of a tile: thread -> first position; its positions from there."""
    permutation = permutation or Layout(threads, 1)
    reach = int(size(permutation))
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
