"""Operations on the modes of a layout or a tuple: nothing is computed but what is joined, dropped or nested."""

from __future__ import annotations

from typing import Any

import tensor_layouts
from tensor_layouts import Layout

from cutegen.algebra.arguments import ANYTHING, COORDINATE, INTEGER, LAYOUT, MODES, PLAIN_LAYOUT, SHAPE_OR_LAYOUT
from cutegen.algebra.registry import function
from cutegen.algebra.values import NotDefined, is_shape, join, text_of
from cutegen.layouts import flat, leaves, modes_of, nested_like

MAX_RANK = 32


@function("structure", input=LAYOUT, target_profile=COORDINATE.or_none(), inside=True)
def coalesce(layout: Layout, profile: Any) -> Layout:
    """As few modes as possible, for the same offset of every index.

    With a tuple as profile, each of its modes by itself.
    """
    if not isinstance(profile, tuple):
        return tensor_layouts.coalesce(layout)
    own = modes_of(layout)
    if len(profile) > len(own):
        message = f"the profile {text_of(profile)} has {len(profile)} modes, and {text_of(layout)} has {len(own)}"
        raise NotDefined(message, "a profile has at most one entry for each mode", 1)
    parts = [coalesce(mode, part) for mode, part in zip(own, profile, strict=False)]
    return join([*parts, *own[len(profile) :]])


@function("structure", a=SHAPE_OR_LAYOUT, inside=True)
def flatten(value: Any) -> Any:
    """Without nesting."""
    if isinstance(value, int) or isinstance(value, Layout) and isinstance(value.shape, int):
        return value
    if isinstance(value, Layout):
        return Layout(flatten(value.shape), flatten(value.stride))
    return tuple(flat(value))


@function("structure", input=PLAIN_LAYOUT)
def filter_zeros(layout: Layout) -> Layout:
    """Size 1 for every mode of stride 0."""
    sizes = (size if stride else 1 for size, stride in leaves(layout))
    return Layout(nested_like(layout.shape, sizes), layout.stride)


@function("structure", name="filter", input=LAYOUT, inside=True)
def filtered(layout: Layout) -> Layout:
    """Without modes of stride 0 and of size 1, coalesced."""
    return coalesce(filter_zeros(layout), None)


def items(value: Any) -> list[Any]:
    """The modes of a layout, the elements of a tuple; an integer is its own only element."""
    if isinstance(value, Layout):
        return list(modes_of(value))
    return list(value) if isinstance(value, tuple) else [value]


def bundle(value: Any, parts: list[Any]) -> Any:
    """A layout of these modes if `value` is one, else a tuple."""
    return join(parts) if isinstance(value, Layout) else tuple(parts)


@function("structure", input=SHAPE_OR_LAYOUT, mode=MODES, inside=True)
def get(value: Any, path: tuple[int, ...]) -> Any:
    """One mode: get(L, mode=[1,0]) is mode 0 of mode 1, and L[1] is get(L, 1)."""
    for number in path:
        value = _numbered(value, number)
    return value


@function("structure", input=SHAPE_OR_LAYOUT, mode=MODES, inside=True)
def select(value: Any, chosen: tuple[int, ...]) -> Any:
    """Some modes: select(L, mode=[0,2])."""
    return bundle(value, [_numbered(value, number) for number in chosen])


def _numbered(value: Any, number: int) -> Any:
    parts = items(value)
    if number >= len(parts):
        have = f"the modes 0 to {len(parts) - 1}" if len(parts) > 1 else "the mode 0 only"
        raise NotDefined(f"there is no mode {number}: {text_of(value)} has {have}", None, 1)
    return parts[number]


@function("structure", input=SHAPE_OR_LAYOUT, begin=INTEGER, end=INTEGER.or_none(), inside=True)
def group_modes(value: Any, begin: int, end: int | None) -> Any:
    """The modes from begin on, up to and without end, as one."""
    parts = items(value)
    end = len(parts) if end is None else end
    if not begin < end <= len(parts):
        message = f"modes {begin} to {end} cannot be grouped: {text_of(value)} has {len(parts)}"
        raise NotDefined(message, f"begin below end, and end at most {len(parts)}")
    if isinstance(value, int) or isinstance(value, Layout) and isinstance(value.shape, int):
        return bundle(value, parts)
    return bundle(value, [*parts[:begin], bundle(value, parts[begin:end]), *parts[end:]])


@function("structure", input=SHAPE_OR_LAYOUT, elem=ANYTHING, up_to_rank=INTEGER.or_none(), inside=True)
def append(value: Any, element: Any, up_to_rank: int | None) -> Any:
    """One more mode behind, or as many as a rank needs."""
    more = _more(value, element, up_to_rank)
    return bundle(value, [*items(value), *more]) if more else value


@function("structure", input=SHAPE_OR_LAYOUT, elem=ANYTHING, up_to_rank=INTEGER.or_none(), inside=True)
def prepend(value: Any, element: Any, up_to_rank: int | None) -> Any:
    """One more mode in front, or as many as a rank needs."""
    more = _more(value, element, up_to_rank)
    return bundle(value, [*more, *items(value)]) if more else value


def _more(value: Any, element: Any, up_to_rank: int | None) -> list[Any]:
    fits = isinstance(element, Layout) if isinstance(value, Layout) else is_shape(element)
    if not fits:
        message = f"{text_of(element)} cannot be a mode beside those of {text_of(value)}"
        raise NotDefined(message, "a layout beside layouts, numbers beside numbers", 1)
    rank = len(items(value))
    missing = 1 if up_to_rank is None else up_to_rank - rank
    if not 0 <= missing <= MAX_RANK:
        message = f"{text_of(value)} of rank {rank} cannot be brought to rank {up_to_rank}"
        raise NotDefined(message, f"a rank from {rank} to {rank + MAX_RANK}", 2)
    return [element] * missing
