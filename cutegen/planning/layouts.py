"""Layout questions that planning and lint ask, answered with tensor-layouts.

Every function is pure; those that enumerate a layout are cached, since the variants of a matrix share their layouts.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import prod
from typing import Any

from tensor_layouts import Layout, flatten, mode, rank, size

Nested = Any  # int or a tuple of the same


@lru_cache(maxsize=1024)
def modes_of(layout: Layout) -> tuple[Layout, ...]:
    """The top-level modes, each a layout."""
    if isinstance(layout.shape, int):
        return (layout,)
    return tuple(mode(layout, i) for i in range(rank(layout)))


def mode_sizes(layout: Layout) -> tuple[int, ...]:
    return tuple(int(size(m)) for m in modes_of(layout))


def leaves(layout: Layout) -> Iterator[tuple[int, int]]:
    """(size, stride) of every leaf mode, first mode first."""
    shape, stride = flatten(layout.shape), flatten(layout.stride)
    shapes = (shape,) if isinstance(shape, int) else tuple(shape)
    strides = (stride,) if isinstance(stride, int) else tuple(stride)
    yield from zip(shapes, strides, strict=True)


@lru_cache(maxsize=512)
def offsets(layout: Layout) -> tuple[int, ...]:
    """The value of the layout at 0, 1, ..., size - 1."""
    image = [0]
    for extent, stride in leaves(layout):
        image = [base + i * stride for i in range(extent) for base in image]
    return tuple(image)


def is_permutation(layout: Layout) -> bool:
    """Whether it maps 0 ... size - 1 onto itself."""
    return sorted(offsets(layout)) == list(range(int(size(layout))))


def keeps_runs(layout: Layout, count: int) -> bool:
    """Whether every `count` neighbours from a multiple of `count` on stay neighbours, from a multiple on."""
    image = offsets(layout)
    starts = range(0, len(image), count)
    return all(
        image[i] % count == 0 and image[i : i + count] == tuple(range(image[i], image[i] + count)) for i in starts
    )


def coverage(layout: Layout, elements: int) -> tuple[list[int], list[int]]:
    """Of the elements 0 ... `elements` - 1: which are never met, and which more than once. First few of each."""
    met = offsets(layout)
    once: set[int] = set()
    twice: set[int] = set()
    for x in met:
        (twice if x in once else once).add(x)
    missing = [x for x in range(elements) if x not in once]
    return missing[:4], sorted(twice | {x for x in once if x >= elements})[:4]


def unit_stride_run(values: Sequence[int]) -> int:
    """The longest run v, a power of two, such that `values` is made of aligned groups of v consecutive numbers."""
    run = 1
    while (
        values
        and len(values) % (2 * run) == 0
        and all(
            values[i] % (2 * run) == 0 and all(values[i + j] == values[i] + j for j in range(2 * run))
            for i in range(0, len(values), 2 * run)
        )
    ):
        run *= 2
    return run


def run_along(coordinates: Sequence[Sequence[int]], axis: int) -> int:
    """The longest run, a power of two, such that the coordinates are made of aligned runs along `axis`."""

    def made_of(run: int) -> bool:
        for i in range(0, len(coordinates), run):
            first = coordinates[i]
            for j, c in enumerate(coordinates[i : i + run]):
                if c[axis] != first[axis] + j or any(c[x] != first[x] for x in range(len(c)) if x != axis):
                    return False
            if first[axis] % run:
                return False
        return True

    run = 1
    while coordinates and len(coordinates) % (2 * run) == 0 and made_of(2 * run):
        run *= 2
    return run


def coordinates(index: int, shape: Sequence[int]) -> tuple[int, ...]:
    """Of a linear index into `shape`, first mode fastest."""
    result = []
    for extent in shape:
        result.append(index % extent)
        index //= extent
    return tuple(result)


def ordered(shape: Sequence[int], fastest: int) -> Layout:
    """A compact layout in which mode `fastest` has stride 1 and the others follow from the last to the first."""
    order = [fastest, *(i for i in reversed(range(len(shape))) if i != fastest)]
    stride, step = [0] * len(shape), 1
    for i in order:
        stride[i], step = step, step * shape[i]
    if len(shape) == 1:
        return Layout(shape[0], 1)
    return Layout(tuple(shape), tuple(stride))


def alike(first: Layout | None, second: Layout | None) -> tuple[Layout | None, Layout | None]:
    """Two layouts of one rank with shapes that are both tuples or both numbers, as CuTe's products demand."""

    def as_tuple(layout: Layout) -> Layout:
        return layout if isinstance(layout.shape, tuple) else Layout((layout.shape,), (layout.stride,))

    if first is None or second is None or isinstance(first.shape, int) == isinstance(second.shape, int):
        return first, second
    return as_tuple(first), as_tuple(second)


def walk(shape: Sequence[int], order: Sequence[int]) -> Layout:
    """From 0, 1, ... to places in a tile of that shape, first mode fastest, so that they walk the modes in `order`."""
    return Layout(tuple(shape[i] for i in order), tuple(prod(shape[:i]) for i in order))


def show(shape: Nested) -> str:
    """A shape as CuTe prints it: `((4,1),1,1,3)`. Entries may be names of dynamic sizes."""
    if isinstance(shape, tuple | list):
        return "(" + ",".join(show(s) for s in shape) + ")"
    return str(shape)


def product(shape: Sequence[int]) -> int:
    return prod(shape)
