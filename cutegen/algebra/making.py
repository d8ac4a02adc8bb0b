"""Layouts from shapes, strides and orders, and swizzles."""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout, Swizzle

from cutegen.algebra.arguments import ANYTHING, INTEGER, NUMBERS, PLAIN_LAYOUT, SHAPE, shape
from cutegen.algebra.registry import function
from cutegen.algebra.values import NotDefined, Value, join, text_of
from cutegen.layouts import IntTuple, compact, compact_like, flat, leaves, nested_like, ordered_by

MAX_SWIZZLE = 32


@function("making", shape=ANYTHING, stride=NUMBERS.or_none())
def make_layout(sizes: Value, strides: Value) -> Layout:
    """A layout of shape and stride, as shape:stride, or of several layouts."""
    if isinstance(sizes, tuple) and all(isinstance(part, Layout) for part in sizes):
        return join(list(sizes))
    if isinstance(sizes, Layout):
        raise NotDefined(f"{text_of(sizes)} is a layout already", "a shape, or a tuple of layouts", 0)
    return compact(shape(sizes)) if strides is None else make_literal(shape(sizes), strides)


def make_literal(sizes: IntTuple, strides: IntTuple) -> Layout:
    """shape:stride. Raises `NotDefined` where they do not match; argument 1 is the stride."""
    if any(extent < 1 for extent in flat(sizes)):
        raise NotDefined("a size is at least 1", argument=0)
    if not _congruent(sizes, strides):
        good = text_of(compact_like(sizes, strides).stride)
        message = f"the strides {text_of(strides)} do not match the shape {text_of(sizes)}"
        raise NotDefined(message, f"one stride for each size, nested alike; compact would be {good}", 1)
    return Layout(sizes, strides)


def _congruent(sizes: Value, strides: Value) -> bool:
    if isinstance(sizes, int) or isinstance(strides, int):
        return isinstance(sizes, int) and isinstance(strides, int)
    return len(sizes) == len(strides) and all(map(_congruent, sizes, strides))


@function("making", shape=SHAPE, order=NUMBERS)
def make_ordered_layout(sizes: IntTuple, order: Any) -> Layout:
    """A compact layout, the mode with the smallest order fastest.

    An order of a mode holds for all that is nested in it, the first fastest.
    """
    ranks: list[int] = []

    def fill(part: IntTuple, rank: Any) -> None:
        if isinstance(rank, int):
            ranks.extend([rank] * len(list(flat(part))))
        elif isinstance(part, int) or len(part) != len(rank):
            message = f"the order {text_of(order)} does not have the modes of the shape {text_of(sizes)}"
            raise NotDefined(message, "one number for each mode, the smallest for the fastest", 1)
        else:
            for inner, number in zip(part, rank, strict=True):
                fill(inner, number)

    fill(sizes, order)
    given = list(flat(order))
    if len(set(given)) != len(given):
        raise NotDefined(f"the order {text_of(order)} has a number twice", "a different number for each mode", 1)
    return ordered_by(sizes, ranks)


@function("making", input=PLAIN_LAYOUT)
def make_layout_like(layout: Layout) -> Layout:
    """A compact layout whose modes follow each other as this one's strides do."""
    moving = [(stride, i, size) for i, (size, stride) in enumerate(leaves(layout)) if stride and size != 1]
    strides, step = [0] * len(leaves(layout)), 1
    for _, i, size in sorted(moving):
        strides[i], step = step, step * size
    return Layout(layout.shape, nested_like(layout.shape, iter(strides)))


@function("making", b=INTEGER, m=INTEGER, s=INTEGER)
def make_swizzle(bits: int, base: int, shift: int) -> Swizzle:
    """S<b,m,s>, to stand before `o` and a layout.

    Raises `NotDefined` where its two fields of bits overlap; CuTeDSL makes S<0,4,3> of these, which does nothing.
    """
    if not (0 <= bits <= MAX_SWIZZLE and 0 <= base <= MAX_SWIZZLE and abs(shift) <= MAX_SWIZZLE):
        raise NotDefined(f"a swizzle's bits, base and shift go up to {MAX_SWIZZLE}, bits and base from 0")
    if abs(shift) < bits:
        message = f"S<{bits},{base},{shift}> has {bits} bits and a shift of {shift}, so that its two fields overlap"
        raise NotDefined(message, f"a shift of at least {bits}")
    return Swizzle(bits, base, shift) if bits else Swizzle(0, 4, 3)
