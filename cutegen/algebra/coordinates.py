"""Coordinates: from an index and back, through a layout, and slices at a coordinate with `_`."""

from __future__ import annotations

from typing import Any

from tensor_layouts import ComposedLayout, Layout

from cutegen.algebra.arguments import COORDINATE, LAYOUT, NUMBERS, SHAPE
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.values import NotDefined, text_of
from cutegen.layouts import IntTuple, elements, flat


def check_coordinate(coordinate: Any, shape: IntTuple, argument: int) -> None:
    """Raises `NotDefined` unless the coordinate has an entry for every mode that it takes apart."""
    if not isinstance(coordinate, tuple):
        return
    rank = 0 if isinstance(shape, int) else len(shape)
    if rank != len(coordinate):
        given = f"the coordinate {text_of(coordinate)} has {len(coordinate)} entries"
        have = f"has {rank} modes" if rank else "has none inside"
        help = "one entry for each mode, or one index for all of them"
        raise NotDefined(f"{given}, and the mode {text_of(shape)} {have}", help, argument)
    for part, extent in zip(coordinate, shape if isinstance(shape, tuple) else (), strict=True):
        check_coordinate(part, extent, argument)


@function("coordinates", idx=NUMBERS, shape=SHAPE)
def idx2crd(index: Any, shape: IntTuple) -> Any:
    """The coordinate of an index: the first mode fastest, the last takes all that is left."""
    if isinstance(index, tuple):
        check_coordinate(index, shape, 0)
        return tuple(map(idx2crd, index, shape if isinstance(shape, tuple) else ()))
    if isinstance(shape, int):
        return index
    parts = []
    for part in shape[:-1]:
        parts.append(idx2crd(index % elements(part), part))
        index //= elements(part)
    return (*parts, idx2crd(index, shape[-1]))


@function("coordinates", coord=COORDINATE, layout=LAYOUT)
def crd2idx(coordinate: Any, layout: Layout | ComposedLayout, steps: Steps) -> int:
    """The offset of a coordinate, as layout(1,2).

    As in CuTe `_` counts as 0, and a coordinate may be outside of the shape, which is noted.
    """
    check_coordinate(coordinate, layout.shape, 0)
    full = idx2crd(_without_holes(coordinate), layout.shape)
    if any(c >= s for c, s in zip(flat(full), flat(layout.shape), strict=True)):
        steps.note(f"the coordinate {text_of(coordinate)} is outside of the shape {text_of(layout.shape)}")
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    terms = " + ".join(f"{c}*{d}" for c, d in zip(flat(full), flat(inner.stride), strict=True))
    steps.remark(f"{terms} = {inner(full)}")
    result: int = layout(full)
    if isinstance(layout, ComposedLayout):
        before = layout.offset + inner(full)
        steps.remark(f"{text_of(layout.outer)} takes {before} = {before:#b} to {result} = {result:#b}")
    return result


def has_hole(coordinate: Any) -> bool:
    return coordinate is None or isinstance(coordinate, tuple) and any(map(has_hole, coordinate))


@function("coordinates", src=LAYOUT, coord=COORDINATE)
def slice_(layout: Layout | ComposedLayout, coordinate: Any, steps: Steps) -> Layout | ComposedLayout:
    """The modes at `_`, as layout(1,_).

    They stand beside each other, without nesting between them. Where they start is a step. A swizzled layout keeps its
    start inside, since the swizzle takes it together with the rest.
    """
    if coordinate is None:
        return layout
    if not has_hole(coordinate):
        raise NotDefined(f"{text_of(coordinate)} has no `_`: no mode is left", "`crd2idx` gives the offset", 1)
    check_coordinate(coordinate, layout.shape, 1)
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    kept = Layout(tuple(_kept(coordinate, inner.shape)), tuple(_kept(coordinate, inner.stride)))
    start = crd2idx(coordinate, inner, Steps())
    steps.show("crd2idx", (coordinate, inner), start, "the slice starts here")
    if isinstance(layout, ComposedLayout):
        return ComposedLayout(layout.outer, kept, offset=layout.offset + start)
    return kept


def _without_holes(coordinate: Any) -> Any:
    if isinstance(coordinate, tuple):
        return tuple(map(_without_holes, coordinate))
    return 0 if coordinate is None else coordinate


@function("coordinates", src=LAYOUT, dicer=COORDINATE, inside=True)
def dice(layout: Layout, coordinate: Any) -> Layout:
    """The modes that slice_ drops: those with a number."""
    check_coordinate(coordinate, layout.shape, 1)
    shape = tuple(_kept(coordinate, layout.shape, holes=False))
    if not shape:
        message = f"{text_of(coordinate)} leaves no mode of {text_of(layout)}"
        raise NotDefined(message, "a number for each mode that stays", 1)
    if not isinstance(coordinate, tuple):
        return layout
    return Layout(shape, tuple(_kept(coordinate, layout.stride, holes=False)))


def _kept(coordinate: Any, value: Any, *, holes: bool = True) -> list[Any]:
    if isinstance(coordinate, tuple):
        return [kept for c, v in zip(coordinate, value, strict=True) for kept in _kept(c, v, holes=holes)]
    return [value] if (coordinate is None) == holes else []
