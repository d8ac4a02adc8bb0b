"""How threads copy a tile in rows, and how rows of 16-byte runs lie in shared memory."""

from __future__ import annotations

from functools import lru_cache
from math import gcd, log2

from tensor_layouts import Layout, compose

from cutegen import layouts
from cutegen.layouts import make_layout_tv

RUN = 16  # bytes that stay together in shared memory


def copy_layouts(threads: int, tile: tuple[int, int], vector: int, last: bool) -> tuple[Layout, Layout] | None:
    """The layouts of threads and of one access, over a tile of two modes; along the contiguous one, the `last` or the
    first, there are as many threads as possible. None where they do not deal it out in whole rows.
    """
    along, across = (tile[1], tile[0]) if last else tile
    shared = 0 if along % vector else gcd(along // vector, threads)
    counts = (x for x in range(shared, 0, -1) if shared % x == 0 and across % (threads // x) == 0)
    count = next(counts, None)
    if count is None:
        return None
    rows = threads // count
    if last:
        return Layout((rows, count), (count, 1)), Layout((1, vector), (vector, 1))
    return Layout((count, rows), (1, count)), Layout((vector, 1), (1, vector))


def row_layout(rows: int, depth: int, run: int, stages: int) -> Layout:
    """(row, place in it, stage) -> element of shared memory in rows that are `run` elements long, before runs of 16
    bytes exchange their places. What is longer stands in blocks of such rows, one behind the other.
    """
    blocks = depth // run
    place = Layout(run, 1) if blocks == 1 else Layout((run, blocks), (1, run * rows))
    return Layout((rows, place.shape, stages), (run, place.stride, rows * depth))


def swizzle_text(swizzle: int) -> str:
    """The arguments of `make_swizzle`, of addresses in bytes, for rows of so many bytes."""
    return f"{int(log2(swizzle // RUN))}, 4, 3"


@lru_cache(maxsize=256)  # schedules that are tried out have much in common
def dealt(thread: Layout, value: Layout, tile: tuple[int, ...], strides: tuple[int, ...]) -> Layout:
    """The layout (thread, value) -> element of a tile, of a copy's threads and of a thread's values of one turn."""
    tiler, tv = make_layout_tv(thread, value)
    threads, values = (compose(Layout(tiler, strides), mode) for mode in layouts.modes_of(tv))
    rest = tuple(extent // covered for extent, covered in zip(tile, tiler, strict=True))
    steps = tuple(covered * stride for covered, stride in zip(tiler, strides, strict=True))
    return Layout(
        (threads.shape, (values.shape, *rest)),
        (threads.stride, (values.stride, *steps)),
    )
