"""Kinds of function arguments: each converts a value to the form that is needed, or raises `NotDefined` with advice."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

from tensor_layouts import ComposedLayout, Layout

from cutegen.algebra.values import NotDefined, Table, ThreadValue, Value, is_shape, text_of, what
from cutegen.layouts import compact, flat


@dataclass(frozen=True)
class Kind:
    """A kind of argument. `made` says that a shape becomes a compact layout, which is worth a step."""

    check: Callable[[Value], Value]
    made: bool = False
    optional: bool = False

    def or_none(self) -> Kind:
        """This kind, for a parameter that may be left out."""
        return replace(self, optional=True)


def _refuse(value: Value, needed: str, help: str | None = None) -> NotDefined:
    if isinstance(value, ThreadValue):
        help = "take the tiler with [0] or the layout with [1]"
    elif isinstance(value, Table):
        help = "one of the operations in it"
    return NotDefined(f"{needed} is needed here, not {what(value)}", help)


def _positive(shape: Value) -> Value:
    if any(extent < 1 for extent in flat(shape)):
        raise NotDefined("a size is at least 1")
    return shape


def layout_or_swizzled(value: Value) -> Value:
    if isinstance(value, (Layout, ComposedLayout)):
        return value
    if is_shape(value):
        return compact(_positive(value))
    if isinstance(value, tuple) and len(value) == 1 and isinstance(value[0], (Layout, ComposedLayout)):
        return value[0]  # parentheses around a layout
    joins = isinstance(value, tuple) and all(isinstance(part, Layout) for part in value)
    raise _refuse(value, "a layout", f"make_layout({text_of(value)}) joins them" if joins else "one like (4,8):(8,1)")


def plain_layout(value: Value) -> Layout:
    value = layout_or_swizzled(value)
    if isinstance(value, ComposedLayout):
        raise NotDefined(
            f"this is not defined for a swizzled layout, {text_of(value)}", "the layout without its swizzle"
        )
    return value


def tiler(value: Value) -> Value:
    """Layouts at the leaves: a number n is n:1, as in CuTe."""
    if isinstance(value, Layout):
        return value
    if isinstance(value, int):
        return compact(_positive(value))
    if isinstance(value, tuple):
        return tuple(part if part is None else tiler(part) for part in value)
    raise _refuse(
        value, "a tiler", "sizes like (2,4), a layout without swizzle, or a tuple of them with `_` for a whole mode"
    )


def shape(value: Value) -> Value:
    if not is_shape(value):
        help = "`.shape` of a layout is a shape" if isinstance(value, (Layout, ComposedLayout)) else "sizes like (4,8)"
        raise _refuse(value, "a shape", help)
    return _positive(value)


def shape_or_layout(value: Value) -> Value:
    return _positive(value) if is_shape(value) else layout_or_swizzled(value)


def numbers(value: Value) -> Value:
    if not is_shape(value):
        raise _refuse(value, "a number, or a tuple of numbers,", "5, or (1,2)")
    return value


def integer(value: Value) -> int:
    if not isinstance(value, int):
        raise _refuse(value, "a number")
    return value


def mode_numbers(value: Value) -> tuple[int, ...]:
    if isinstance(value, int):
        return (value,)
    if not (isinstance(value, tuple) and all(isinstance(part, int) for part in value)):
        raise _refuse(value, "a mode's number, or several,", "2, or [0,2]")
    return value


def coordinate(value: Value) -> Value:
    if value is None or isinstance(value, int):
        return value
    if isinstance(value, tuple):
        return tuple(map(coordinate, value))
    raise _refuse(value, "a coordinate", "numbers, and `_` for a whole mode, like (1,_)")


def anything(value: Value) -> Value:
    return value


LAYOUT = Kind(layout_or_swizzled, made=True)
PLAIN_LAYOUT = Kind(plain_layout, made=True)
TILER = Kind(tiler)
SHAPE = Kind(shape)
SHAPE_OR_LAYOUT = Kind(shape_or_layout)
NUMBERS = Kind(numbers)
INTEGER = Kind(integer)
MODES = Kind(mode_numbers)
COORDINATE = Kind(coordinate)
ANYTHING = Kind(anything)
