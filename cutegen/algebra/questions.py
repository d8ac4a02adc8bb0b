"""Questions about layouts and shapes, whose answers are numbers and shapes."""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout

from cutegen.algebra.arguments import LAYOUT, MODES, SHAPE, SHAPE_OR_LAYOUT
from cutegen.algebra.registry import function
from cutegen.algebra.structure import get, items
from cutegen.algebra.values import NotDefined, text_of
from cutegen.layouts import IntTuple
from cutegen.layouts import elements as count
from cutegen.layouts import reach as reached


@function("questions", a=SHAPE_OR_LAYOUT, mode=MODES.or_none(), inside=True)
def size(value: Any, path: tuple[int, ...] | None) -> int:
    """How many coordinates."""
    part = get(value, path or ())
    return count(part.shape if isinstance(part, Layout) else part)


@function("questions", a=LAYOUT, mode=MODES.or_none(), inside=True)
def cosize(layout: Layout, path: tuple[int, ...] | None) -> int:
    """The largest offset, plus 1."""
    return reached(get(layout, path or ()))


@function("questions", a=SHAPE_OR_LAYOUT, mode=MODES.or_none(), inside=True)
def rank(value: Any, path: tuple[int, ...] | None) -> int:
    """How many modes."""
    return len(items(get(value, path or ())))


@function("questions", a=SHAPE_OR_LAYOUT, inside=True)
def depth(value: Any) -> int:
    """How deep it is nested."""
    shape = value.shape if isinstance(value, Layout) else value
    return 0 if isinstance(shape, int) else 1 + max(map(depth, shape))


@function("questions", a=SHAPE)
def product_each(shape: IntTuple) -> IntTuple:
    """The size of each mode of a shape."""
    return shape if isinstance(shape, int) else tuple(map(count, shape))


@function("questions", input=SHAPE, tiler=SHAPE)
def ceil_div(shape: IntTuple, tiler: IntTuple) -> Any:
    """How many tiles cover each mode."""
    if isinstance(shape, int) or isinstance(tiler, int):
        return -(-count(shape) // count(tiler))
    if len(tiler) > len(shape):
        raise NotDefined(f"{text_of(tiler)} has more modes than {text_of(shape)}", "at most one size for each mode", 1)
    return (*map(ceil_div, shape, tiler), *shape[len(tiler) :])


@function("questions", a=SHAPE, b=SHAPE)
def round_up(shape: IntTuple, tiler: IntTuple) -> Any:
    """Sizes rounded up to whole tiles."""
    if isinstance(shape, int) and isinstance(tiler, int):
        return -(-shape // tiler) * tiler
    if isinstance(shape, int) or isinstance(tiler, int) or len(shape) != len(tiler):
        raise NotDefined(f"{text_of(tiler)} does not have the modes of {text_of(shape)}", "one size for each mode", 1)
    return tuple(map(round_up, shape, tiler))
