"""Turns what was written on a command line into a figure of layouts."""

from __future__ import annotations

from collections.abc import Sequence

from tensor_layouts import ComposedLayout, Layout

from cutegen.algebra.evaluate import evaluate
from cutegen.algebra.syntax import AlgebraError
from cutegen.algebra.values import ThreadValue, what
from cutegen.drawing.copies import draw_copy, draw_thread_copy
from cutegen.drawing.grids import DrawingError, LayoutExpr
from cutegen.drawing.model import Figure
from cutegen.drawing.offsets import draw_banks, draw_layout
from cutegen.drawing.threads import draw_thread_values


def draw_layouts(
    texts: Sequence[str], *, threads: bool = False, tile: str | None = None, element_bytes: int | None = None
) -> Figure:
    """The figure of one layout, or of the copy from a first to a second one; each is an expression of layout algebra.

    With `threads` they map (thread, value) to a place in a tile of the shape `tile`, as in "16,128"; `make_layout_tv`
    says both by itself. With `element_bytes` the figure shows the banks of shared memory. Raises DrawingError where
    something cannot be drawn.
    """
    shape = None if tile is None else read_shape(tile)
    found = [read_layout(text) for text in texts]
    tiler = found[0][1]
    threads = threads or tiler is not None
    if shape is not None and not threads:
        raise DrawingError("a tile is for thread-value layouts", "add --tv, or leave out --tile")
    if element_bytes is not None and (threads or len(texts) > 1):
        raise DrawingError("banks are drawn of one layout of offsets", "leave out --tv and the second layout")
    match [layout for layout, _ in found]:
        case [layout]:
            if threads:
                return draw_thread_values(layout, shape or tiler)
            return draw_layout(layout) if element_bytes is None else draw_banks(layout, element_bytes)
        case [source, destination]:
            if threads:
                return draw_thread_copy(source, destination, shape or tiler)
            return draw_copy(source, destination)
    raise DrawingError(f"one or two layouts can be drawn at a time, not {len(texts)}")


def read_layout(text: str) -> tuple[LayoutExpr, tuple[int, ...] | None]:
    """The layout that an expression of layout algebra has as its value, and the tile if it is `make_layout_tv`'s.

    Raises DrawingError for anything else.
    """
    try:
        value = evaluate(text).value
    except AlgebraError as error:
        raise DrawingError(f"{error.message}\n{text}\n{' ' * error.offset}{'^' * error.length}", error.help) from None
    if isinstance(value, ThreadValue):
        return value.layout, value.tiler
    if not isinstance(value, (Layout, ComposedLayout)):
        raise DrawingError(f"{text} is {what(value)}, not a layout", "a layout is written (4,8):(8,1)")
    return value, None


def read_shape(text: str) -> tuple[int, ...]:
    """The extents of a shape that is written as `16,128` or `16x128`."""
    parts = text.lower().replace("x", ",").strip("() ").split(",")
    extents = [int(part) for part in parts if part.strip().isascii() and part.strip().isdigit()]
    if len(extents) != len(parts) or 0 in extents:
        raise DrawingError(f"`{text}` is not the shape of a tile", "write it as 16,128")
    return tuple(extents)
