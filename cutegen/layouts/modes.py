"""Properties of a layout: its modes, its offsets, what they cover, and how long runs of neighbours are.

Every function is pure; those that enumerate a layout are cached, since the variants of a matrix share their layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from tensor_layouts import Layout, mode, rank, size

from cutegen.layouts.shapes import flat

MAX_ENUMERATED = 65_536  # coordinates that are counted through


@lru_cache(maxsize=1024)
def modes_of(layout: Layout) -> tuple[Layout, ...]:
    """The top-level modes, each a layout."""
    if isinstance(layout.shape, int):
        return (layout,)
    return tuple(mode(layout, i) for i in range(rank(layout)))


def mode_sizes(layout: Layout) -> tuple[int, ...]:
    """The number of coordinates of each top-level mode."""
    return tuple(int(size(m)) for m in modes_of(layout))


def leaves(layout: Layout) -> list[tuple[int, int]]:
    """(size, stride) of every innermost mode, from left to right."""
    return list(zip(flat(layout.shape), flat(layout.stride), strict=True))


def moving_leaves(layout: Layout) -> list[tuple[int, int]]:
    """(size, stride) of every innermost mode but those of size 1, whose stride moves nothing."""
    return [(extent, stride) for extent, stride in leaves(layout) if extent != 1]


@lru_cache(maxsize=512)
def offsets(layout: Layout) -> tuple[int, ...]:
    """The value of the layout at 0, 1, ..., size - 1."""
    image = [0]
    for extent, stride in leaves(layout):
        image = [base + i * stride for i in range(extent) for base in image]
    return tuple(image)


def first_offsets(layout: Layout, count: int) -> list[int]:
    """The offsets of the first `count` indices, or of as many as there are."""
    found = [0]
    for extent, stride in leaves(layout):
        times = min(extent, -(-count // len(found)))
        found = [offset + i * stride for i in range(times) for offset in found]
    return found[:count]


def count_below(layout: Layout, limit: int) -> int:
    """How many of an injective layout's offsets are less than `limit`; however large the layout is, few are met."""
    found = [0]
    for extent, stride in moving_leaves(layout):
        steps = range(min(extent, -(-limit // stride)))
        found = [offset + i * stride for i in steps for offset in found if offset + i * stride < limit]
    return len(found)


def reach(layout: Layout) -> int:
    """The cosize of a layout: its largest offset, plus 1."""
    return 1 + sum((extent - 1) * stride for extent, stride in leaves(layout))


def is_permutation(layout: Layout) -> bool:
    """Whether it maps 0 ... size - 1 onto itself."""
    return sorted(offsets(layout)) == list(range(int(size(layout))))


def is_injective(layout: Layout) -> bool | None:
    """Whether no two coordinates meet in one place; None where that would take counting over 65536 coordinates."""
    modes = sorted(moving_leaves(layout), key=lambda mode: mode[1])
    if any(stride == 0 for _, stride in modes):
        return False
    reach = 1  # with sorted strides, each mode that steps over everything before it keeps the layout injective
    for shape, stride in modes:
        if stride < reach:
            break
        reach += (shape - 1) * stride
    else:
        return True
    total = 1
    for shape, _ in modes:
        total *= shape
        if total > MAX_ENUMERATED:
            return None
    places = {0}
    for shape, stride in modes:
        places = {place + i * stride for place in places for i in range(shape)}
    return len(places) == total


def is_compact(layout: Layout) -> bool:
    """Whether an injective layout reaches every place from 0 to its size, without gaps."""
    modes = moving_leaves(layout)
    total = 1
    for shape, _ in modes:
        total *= shape
    return sum((shape - 1) * stride for shape, stride in modes) == total - 1


def keeps_runs(layout: Layout, count: int) -> bool:
    """Whether every `count` neighbours from a multiple of `count` on stay neighbours, from a multiple on."""
    image = offsets(layout)
    starts = range(0, len(image), count)
    return all(
        image[i] % count == 0 and image[i : i + count] == tuple(range(image[i], image[i] + count)) for i in starts
    )


def coverage(layout: Layout, elements: int) -> tuple[list[int], list[int]]:
    """The elements of 0 ... `elements` - 1 that a layout never meets, and those that it meets more than once.

    Of each it gives the first few.
    """
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
