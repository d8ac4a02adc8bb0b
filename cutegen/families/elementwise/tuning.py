"""Candidates that tuning tries for an elementwise kernel without `tune:`. The fields that decide most are tried in all
combinations: how large tiles are and who has which part of them. The rest is tried one field at a time around the
best of those (`refinements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from cutegen import layouts
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import vector_of, widest_tensor, widest_vector
from cutegen.layouts import format_layout

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

BLOCK_THREADS = (64, 128, 256, 512)
ALONG = (8, 16, 32, 64, 128, 256)  # threads along the contiguous mode
SHARES = (1, 2, 4, 8)  # accesses of a thread
BITS = (32, 64, 128)  # of an access


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    first = specs[0]
    majors = dict.fromkeys(spec.lead.major for spec in specs)
    orders = [first.lead.shape.index(str(major)) for major in majors]
    yield f"partition {first.schedule.partition}", [{}, *_partitions(first, orders)]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    for bits in BITS:
        yield {("copy", "bits"): bits}
    for raster in spec.lead.shape:
        yield {("scheduler",): {"raster": raster}}


def _partitions(spec: Spec, orders: Sequence[int]) -> Iterator[Choice]:
    modes = spec.lead.shape
    element = widest_tensor(spec).dtype.bits
    vector = max(1, 128 // element, vector_of(spec))
    for major in dict.fromkeys(orders):
        if spec.schedule.partition == "inner":
            for along, rows, threads in product((vector, 1, 2 * vector, 4 * vector), SHARES, (*BLOCK_THREADS, 1024)):
                tile = _shape(len(modes), major, along, rows)
                if rows == 1 or len(modes) > 1:
                    yield {("tiler",): dict(zip(modes, tile, strict=True)), ("threads",): threads}
            continue
        for shape, share in product(_threads(len(modes), major), _shares(len(modes), major, vector)):
            thread_layout = format_layout(layouts.row_major(shape, major))
            if spec.schedule.partition == "inner_outer":
                extents = [t * s for t, s in zip(shape, share, strict=True)]
                yield {
                    ("thread_layout",): thread_layout,
                    ("tiler",): dict(zip(modes, extents, strict=True)),
                    ("copy", "bits"): widest_vector(spec) * element,
                }
            else:
                value_layout = format_layout(layouts.row_major(share, major))
                yield {("thread_layout",): thread_layout, ("value_layout",): value_layout}


def _threads(rank: int, major: int) -> Iterator[tuple[int, ...]]:
    if rank == 1:
        yield from ((threads,) for threads in BLOCK_THREADS)
        return
    for threads, along in product(BLOCK_THREADS, ALONG):
        if along <= threads <= 32 * along:
            yield _shape(rank, major, along, threads // along)


def _shares(rank: int, major: int, vector: int) -> Iterator[tuple[int, ...]]:
    for along, rows in product((vector, 2 * vector, 4 * vector), SHARES if rank > 1 else (1,)):
        yield _shape(rank, major, along, rows)


def _shape(rank: int, major: int, along: int, rows: int) -> tuple[int, ...]:
    """The shape of a tile: `along` the contiguous mode, `rows` along the slowest other one."""
    shape = [1] * rank
    shape[major] = along
    others = [i for i in reversed(range(rank)) if i != major]
    if others:
        shape[others[0]] = rows
    return tuple(shape)
