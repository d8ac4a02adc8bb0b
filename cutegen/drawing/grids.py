"""Shared parts of pictures: layouts of any rank as rows and columns, with names and numbers for both."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

from tensor_layouts import Layout, idx2crd, rank, size

from cutegen import layouts
from cutegen.algebra.values import text_of
from cutegen.drawing.model import Axis, Cell, Legend, Swatch
from cutegen.errors import CutegenError

LayoutExpr = Any  # tensor_layouts.Layout, or its ComposedLayout
MOST_ROWS, MOST_COLUMNS = 64, 128  # of cells that a figure holds: no renderer has room for more
WRAP = 16  # columns of what has one dimension only
SAMPLES = 8  # colours of a ramp that its legend shows
MOST_PLACES = 1 << 20  # that are counted through

NOBODY = Cell((), None, "nothing")


class DrawingError(CutegenError, ValueError):
    """Says that something which was asked for cannot be drawn. `help` says what could."""


def coordinate(coord: Any) -> str:
    return layouts.show(coord)


def slice_text(modes: Sequence[str], extents: Sequence[int]) -> tuple[str, ...]:
    """The remark on modes that are drawn at coordinate 0 only; empty if there are none."""
    parts = [f"of {mode} (size {extent})" for mode, extent in zip(modes, extents, strict=True)]
    return (f"A slice: only coordinate 0 {' and '.join(parts)} is drawn.",) if parts else ()


def shape_text(shape: Sequence[int]) -> str:
    return " x ".join(map(str, shape))


def images(layout: LayoutExpr) -> tuple[int, ...]:
    """The value of a layout at 0, 1, ..., size - 1. Raises DrawingError if these are too many."""
    count = int(size(layout))
    if count > MOST_PLACES:
        message = f"{text_of(layout)} has {count} coordinates; at most {MOST_PLACES} can be counted through"
        raise DrawingError(message, "draw a part of it")
    if isinstance(layout, Layout):
        return layouts.offsets(layout)
    return tuple(int(layout(i)) for i in range(count))


def mode_axis(name: str, shape: Any, most: int) -> Axis:
    """The axis of one mode of a layout, nested as it is, with a heavier line where its first part starts anew."""
    count = int(size(shape))
    drawn = min(count, most)
    labels = tuple(coordinate(idx2crd(i, shape)) for i in range(drawn))
    inner = _inner(shape)
    return Axis(name, count, labels, breaks=tuple(range(inner, drawn, inner)) if 1 < inner < count else ())


def _inner(shape: Any) -> int:
    """The extent of the innermost part of a nested mode; 1 for a flat one."""
    if isinstance(shape, int):
        return 1
    return next((int(size(part)) for part in shape if size(part) > 1), 1)


def number_axis(name: str, count: int, step: int, most: int) -> Axis:
    """The axis of coordinates 0 ... count - 1, `step` to a row or column of cells; a label is the first of these."""
    labels = tuple(map(str, range(0, min(count, most * step), step)))
    return Axis(name, count, labels, step, note="" if step == 1 else f"{step} to a cell")


def wrapped_axes(name: str, count: int, width: int) -> tuple[Axis, Axis]:
    """The axes of numbers 0 ... count - 1, `width` of them to a row: a number is row label + column label."""
    width = min(width, count)
    starts = range(0, min(count, MOST_ROWS * width), width)
    columns = Axis(f"{name} + column", width, tuple(f"+{i}" for i in range(width)))
    if width == count:
        columns = Axis(name, width, tuple(map(str, range(width))))
    return Axis(name, count, tuple(map(str, starts)), width), columns


def scale(title: str, first: str, last: str, steps: int) -> Legend:
    """The legend of a ramp of so many steps, from the text of its first one to that of its last."""
    shown = sorted({round(i * (steps - 1) / (SAMPLES - 1)) for i in range(SAMPLES)})
    texts = {shown[0]: first, shown[-1]: last}
    return Legend(title, tuple(Swatch(step, texts.get(step, "")) for step in shown), apart=False)


class Sheet:
    """A layout of any rank spread out on rows and columns. Rank 1 is wrapped; of a third mode on, only 0 is shown."""

    def __init__(self, layout: LayoutExpr) -> None:
        self.layout = layout
        shape = layout.shape
        self.flat = isinstance(shape, int) or rank(layout) == 1
        self.notes: tuple[str, ...] = ()
        if self.flat:
            self.rows, self.columns = wrapped_axes("coordinate", int(size(layout)), WRAP)
            return
        if rank(layout) == 0:
            raise DrawingError("a layout without modes has nothing to draw")
        self.rows = mode_axis("mode 0", shape[0], MOST_ROWS)
        self.columns = mode_axis("mode 1", shape[1], MOST_COLUMNS)
        hidden = [i for i, part in enumerate(shape) if i > 1 and size(part) > 1]
        self.notes = slice_text([f"mode {i}" for i in hidden], [int(size(shape[i])) for i in hidden])

    def place(self, row: int, column: int) -> tuple[Any, int] | None:
        """The coordinate in a row and column of cells, and what the layout makes of it; None beyond its end."""
        shape = self.layout.shape
        if self.flat:
            index = row * self.columns.size + column
            if index >= self.rows.size:
                return None
            return idx2crd(index, shape), int(self.layout(index))
        coords = [idx2crd(row, shape[0]), idx2crd(column, shape[1])]
        coords += [idx2crd(0, part) for part in shape[2:]]
        return tuple(coords), int(self.layout(*coords))


def check_places(found: Sequence[int], shape: Sequence[int], what: str) -> None:
    """Raises DrawingError where a layout leaves its tile."""
    if found and not 0 <= min(found) <= max(found) < prod(shape):
        beyond = max(found) if max(found) >= prod(shape) else min(found)
        message = f"{what} reaches place {beyond} and a tile of {shape_text(shape)} has {prod(shape)}"
        raise DrawingError(message, "give a larger --tile, or none")
