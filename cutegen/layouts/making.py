"""Layouts made from shapes: compact ones in a given order of modes, and CuTe's thread-value layout of two."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from functools import lru_cache
from math import prod

from tensor_layouts import Layout, compose, product_each, raked_product, right_inverse, size

from cutegen.layouts.shapes import IntTuple, flat, nested_like


def compact(shape: IntTuple) -> Layout:
    """CuTe's `make_layout` of a shape: the first mode fastest, stride 0 where the size is 1."""
    return ordered_by(shape, range(len(list(flat(shape)))))


def ordered_by(shape: IntTuple, order: Iterable[int]) -> Layout:
    """The compact layout of a shape whose innermost modes follow each other as the ranks in `order` sort them.

    The stride is 0 where the size is 1, as CuTe has it.
    """
    sizes, ranks = list(flat(shape)), list(order)
    strides, step = [0] * len(sizes), 1
    for i in sorted(range(len(sizes)), key=lambda i: ranks[i]):
        strides[i] = step if sizes[i] != 1 else 0
        step *= sizes[i]
    return Layout(shape, nested_like(shape, iter(strides)))


def row_major(shape: Sequence[int], fastest: int) -> Layout:
    """The compact layout in which mode `fastest` has stride 1, and the others follow from the last to the first."""
    order = [fastest, *(i for i in reversed(range(len(shape))) if i != fastest)]
    stride, step = [0] * len(shape), 1
    for i in order:
        stride[i], step = step, step * shape[i]
    if len(shape) == 1:
        return Layout(shape[0], 1)
    return Layout(tuple(shape), tuple(stride))


def compact_like(shape: IntTuple, stride: IntTuple) -> Layout:
    """The compact layout of a shape whose modes follow each other in the order of the strides that were written.

    The strides need not match the shape: what is known of their order is kept, and first mode fastest where nothing
    is. Modes that stand still, with stride 0, come last.
    """
    sizes, steps = list(flat(shape)), list(flat(stride))
    order = list(range(len(sizes)))
    if len(sizes) == len(steps):
        order.sort(key=lambda i: (steps[i] == 0, steps[i], i))
    elif len(steps) > 1 and steps[0] > steps[-1] > 0 or len(steps) == 1 and steps[0] > 1:
        order.reverse()
    strides, step = [0] * len(sizes), 1
    for i in order:
        strides[i], step = step, step * sizes[i]
    return Layout(shape, nested_like(shape, iter(strides)))


def walk(shape: Sequence[int], order: Sequence[int]) -> Layout:
    """A layout from 0, 1, ... to places in a tile, first mode fastest, so that they walk the modes in `order`."""
    return Layout(tuple(shape[i] for i in order), tuple(prod(shape[:i]) for i in order))


def plane(shape: Sequence[int], strides: Sequence[int]) -> Layout:
    """A tile of that shape in memory, with these strides."""
    return Layout(shape[0], strides[0]) if len(shape) == 1 else Layout(tuple(shape), tuple(strides))


def pair(threads: Layout, values: Layout) -> Layout:
    """The layout (thread, value) -> the sum of both layouts' images."""
    return Layout((threads.shape, values.shape), (threads.stride, values.stride))


def alike(first: Layout | None, second: Layout | None) -> tuple[Layout | None, Layout | None]:
    """Two layouts of one rank with shapes that are both tuples or both numbers, as CuTe's products demand."""

    if first is None or second is None or isinstance(first.shape, int) == isinstance(second.shape, int):
        return first, second
    return _as_tuple(first), _as_tuple(second)


@lru_cache(maxsize=256)
def make_layout_tv(thread_layout: Layout, value_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """CuTe's `make_layout_tv`: the tiler, and the layout (thread, value) -> place in the tile, first mode fastest.

    Both layouts map a coordinate of the tile to a thread and to a value of that thread. They must be compact and of
    the same rank; a layout with gaps or repetitions has no such inverse, see `is_injective` and `is_compact`.
    """
    # A rank-1 layout must be a tuple of one mode for the product to interleave mode by mode.
    both = raked_product(_as_tuple(thread_layout), _as_tuple(value_layout))
    tv = compose(right_inverse(both), Layout((size(thread_layout), size(value_layout))))
    tiler = product_each(both.shape)
    return (tiler if isinstance(tiler, tuple) else (tiler,)), Layout(tv.shape, still(tv.shape, tv.stride))


def still(shape: IntTuple, stride: IntTuple) -> IntTuple:
    """The strides of a shape as CuTe prints them after a composition: 0 where the size is 1."""
    if isinstance(shape, int) or isinstance(stride, int):
        return 0 if shape == 1 else stride
    return tuple(map(still, shape, stride))


def _as_tuple(layout: Layout) -> Layout:
    return layout if isinstance(layout.shape, tuple) else Layout((layout.shape,), (layout.stride,))
