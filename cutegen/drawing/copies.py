"""Copies: a source and a destination side by side, in which the same colour is the same element or the same thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod

from tensor_layouts import idx2crd, size

from cutegen import layouts
from cutegen.algebra.values import text_of
from cutegen.drawing.colours import MOST_STEPS, ramp, thread_colours
from cutegen.drawing.grids import (
    MOST_ROWS,
    DrawingError,
    LayoutExpr,
    coordinate,
    images,
    scale,
    shape_text,
    wrapped_axes,
)
from cutegen.drawing.model import Cell, Figure, Grid
from cutegen.drawing.threads import guess_shape, mode_names, partition_of, sharing_notes, thread_legend, tile_grid

MEMORY_ROW = 32  # elements of a row of memory, where the layout suggests no other number
WIDEST_ROW = 64


def draw_copy(source: LayoutExpr, destination: LayoutExpr) -> Figure:
    """A copy between two layouts of the same size: coordinate i moves from `source(i)` to `destination(i)` in memory.

    Raises DrawingError if the sizes differ.
    """
    if size(source) != size(destination):
        message = f"{text_of(source)} has {size(source)} coordinates and {text_of(destination)} {size(destination)}"
        raise DrawingError(message, "a copy has as many in its source as in its destination")
    steps = min(int(size(source)), MOST_STEPS)
    panels = tuple(_memory_of(layout, source.shape, steps) for layout in (source, destination))
    first, last = (coordinate(idx2crd(i, source.shape)) for i in (0, int(size(source)) - 1))
    legend = scale("coordinate", first, last, steps)
    return Figure(
        "copy",
        f"Copy of {text_of(source)} to {text_of(destination)}",
        panels,
        ramp(steps),
        legend,
        arrows=("",),
        caption="Memory in rows from offset 0 on; labels are the coordinates of what lies there.",
    )


def _memory_of(layout: LayoutExpr, shape: object, steps: int) -> Grid:
    met: dict[int, list[int]] = {}
    for index, offset in enumerate(images(layout)):
        met.setdefault(offset, []).append(index)
    count = int(size(layout))

    def cell(offset: int) -> Cell:
        coords = [idx2crd(i, shape) for i in met.get(offset, ())]
        facts = {"offset": offset, "coordinates": coords}
        if not coords:
            return Cell(("·",), None, f"offset {offset}: a gap", facts)
        first, *others = map(coordinate, coords)
        label = f"{first}+{len(others)}" if others else first
        about = (
            f"offset {offset}: {', '.join([first, *others[:7]])}{f' and {len(others) - 7} more' * (len(others) > 7)}"
        )
        return Cell((label,), met[offset][0] * steps // count, about, facts)

    return memory_grid(text_of(layout), 1 + max(met), row_width(layout), cell, ("coordinate",))


def row_width(layout: LayoutExpr) -> int:
    """Elements of a row of memory: the widest stride of the layout that makes a row of sensible width, or 32."""
    inner = getattr(layout, "inner", layout)
    strides = [stride for _, stride in layouts.leaves(inner) if 1 < stride <= WIDEST_ROW]
    return max(strides, default=MEMORY_ROW)


def memory_grid(title: str, elements: int, width: int, cell: Callable[[int], Cell], lines: tuple[str, ...]) -> Grid:
    """A grid of memory from offset 0 on, `width` elements to a row; `cell` makes the cell of an offset."""
    rows, columns = wrapped_axes("offset", elements, width)
    blank = Cell((), None, "beyond the end", {})
    cells = tuple(
        tuple(cell(o) if o < elements else blank for o in range(start, start + columns.size))
        for start in range(0, min(elements, MOST_ROWS * columns.size), columns.size)
    )
    return Grid(title, rows, columns, cells, lines)


def draw_thread_copy(source: LayoutExpr, destination: LayoutExpr, tile: Sequence[int] | None = None) -> Figure:
    """Two thread-value layouts side by side: what each thread reads, and where it writes it.

    `tile` is the shape of both in elements, first mode fastest.
    """
    shapes = [tuple(tile) if tile else guess_shape(layout) for layout in (source, destination)]
    parts = [partition_of(layout, shape) for layout, shape in zip((source, destination), shapes, strict=True)]
    if parts[0].threads != parts[1].threads:
        message = f"the source has {parts[0].threads} threads and the destination {parts[1].threads}"
        raise DrawingError(message, "a thread writes what it has read: both have the same threads")
    colours = thread_colours(parts[0].threads)
    grids = tuple(
        tile_grid(f"{text_of(layout)} on {shape_text(part.shape)}", part, colours, mode_names(part.shape))
        for layout, part in zip((source, destination), parts, strict=True)
    )
    notes = () if tile else (f"Tiles of {' and '.join(map(shape_text, shapes))} are assumed, --tile says otherwise.",)
    return Figure(
        "copy",
        f"Copy by threads: {text_of(source)} to {text_of(destination)}",
        grids,
        colours.palette,
        thread_legend(parts[0].threads, colours),
        arrows=("",),
        caption=f"{parts[0].threads} threads read {prod(shapes[0])} elements.",
        notes=(*notes, *sharing_notes(grids)),
    )
