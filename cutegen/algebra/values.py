"""The values of expressions: integers, tuples, layouts, swizzled layouts, and how each is written."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from tensor_layouts import ComposedLayout, Layout, Swizzle

from cutegen.errors import CutegenError
from cutegen.layouts import compact, format_layout

MAX_VALUE = 2**63 - 1  # offsets are 64-bit, as CuTe's are


@dataclass(frozen=True)
class ThreadValue:
    """The result of `make_layout_tv`: the tiler (M, N, ...), and the layout (thread, value) -> place in the tile."""

    tiler: tuple[int, ...]
    layout: Layout


@dataclass(frozen=True)
class Table:
    """Several results side by side: (name, value, how its modes are arranged)."""

    rows: tuple[tuple[str, Any, str], ...]


# int, tuple (of ints, of layouts, `None` for `_`), Layout, ComposedLayout, Swizzle, ThreadValue, Table
Value = Any


class NotDefined(CutegenError):
    """An operation has no result for these arguments. `argument` counts from 0; None means all of them together."""

    def __init__(self, message: str, help: str | None = None, argument: int | None = None) -> None:
        super().__init__(message, help)
        self.argument = argument


def text_of(value: Value) -> str:
    """A value as CuTe prints it, without spaces inside of tuples. The parser reads it back."""
    if value is None:
        return "_"
    if isinstance(value, tuple):
        return f"({','.join(map(text_of, value))})"
    if isinstance(value, Layout):
        return format_layout(value)
    if isinstance(value, Swizzle):
        return f"S<{value.bits},{value.base},{value.shift}>"
    if isinstance(value, ComposedLayout):
        return f"{text_of(value.outer)} o {value.offset} o {text_of(value.inner)}"
    if isinstance(value, ThreadValue):
        return f"({text_of(value.tiler)}, {text_of(value.layout)})"
    return str(value)


def what(value: Value) -> str:
    """A value's kind, with its article."""
    if isinstance(value, Layout):
        return "a layout"
    if isinstance(value, ComposedLayout):
        return "a swizzled layout"
    if isinstance(value, Swizzle):
        return "a swizzle without a layout"
    if isinstance(value, ThreadValue):
        return "a tiler and a layout"
    if isinstance(value, Table):
        return "a table of several layouts"
    if value is None:
        return "`_`"
    if isinstance(value, int):
        return "an integer"
    return "a tuple" if is_shape(value) else "a tuple with `_`" if None in value else "a tuple of layouts"


def is_shape(value: Value) -> bool:
    """Whether a value is an integer or nested tuples of integers."""
    return isinstance(value, int) or isinstance(value, tuple) and bool(value) and all(map(is_shape, value))


def join(parts: list[Layout]) -> Layout:
    """One layout whose modes are `parts`: CuTe's `make_layout` of layouts."""
    return Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


def plain(tiler: Any) -> Any:
    """A tiler with numbers in place of the layouts n:1 of a tuple, as it is usually written."""
    if isinstance(tiler, tuple):
        return tuple(p.shape if isinstance(p, Layout) and _is_size(p) else plain(p) for p in tiler)
    return tiler


def _is_size(layout: Layout) -> bool:
    return isinstance(layout.shape, int) and layout == compact(layout.shape)
