"""Complement, inverses, nullspace, and what two layouts have in common."""

from __future__ import annotations

from typing import Any

import tensor_layouts
from tensor_layouts import Layout

from cutegen.algebra.arguments import PLAIN_LAYOUT, SHAPE_OR_LAYOUT
from cutegen.algebra.composition import composition
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.structure import coalesce
from cutegen.algebra.values import NotDefined, text_of
from cutegen.layouts import elements, leaves, reach


@function("algebra", input=PLAIN_LAYOUT, cotarget=SHAPE_OR_LAYOUT.or_none())
def complement(layout: Layout, cotarget: Any, steps: Steps) -> Layout:
    """The layout of the offsets that move a layout into its gaps and past its end.

    It goes up to the size of `cotarget`, a shape or a layout; by default up to the layout's own cosize.

    Raises `NotDefined` where modes interleave: a stride below what the modes of smaller strides already fill.
    """
    target = reach(layout) if cotarget is None else cotarget.shape if isinstance(cotarget, Layout) else cotarget
    filled = 1
    for stride, size in sorted((d, s) for s, d in leaves(layout) if s != 1 and d != 0):
        if stride < filled:
            message = (
                f"{text_of(layout)} has no complement: the stride {stride} of {size}:{stride} falls into "
                f"the {filled} offsets that the modes before it fill"
            )
            raise NotDefined(message, f"a stride of {filled} or more", 0)
        room = stride // filled
        if room > 1:
            steps.remark(f"between {filled} and the stride of {size}:{stride} there is room for {room}:{filled}")
        if stride % filled:
            steps.note(
                f"the stride of {size}:{stride} is not a multiple of the {filled} offsets before it: "
                f"{stride % filled} of every {stride} offsets stay free"
            )
        filled = stride * size
    steps.remark(f"from {filled} on, what is left of {text_of(target)}")
    return tensor_layouts.complement(layout, target)


@function("algebra", input=PLAIN_LAYOUT)
def right_inverse(layout: Layout, steps: Steps) -> Layout:
    """The largest R with L(R(i)) = i.

    It starts at offset 0 and goes as far as the offsets follow each other without a gap.
    """
    index = 1
    by_stride = []
    for size, stride in leaves(coalesce(layout, None)):
        by_stride.append((stride, size, index))
        index *= size
    wanted = 1
    sizes, strides = [], []
    for stride, size, index in sorted(by_stride, key=lambda mode: mode[0]):
        if stride == wanted:
            steps.remark(f"from offset {wanted} on {size}:{stride}, whose coordinates are {index} apart in the index")
            sizes.append(size)
            strides.append(index)
            wanted *= size
    total = elements(layout.shape)
    if wanted < total:
        steps.note(
            f"the offsets of {text_of(layout)} go from 0 to {wanted - 1} without gaps or repetitions, and no further: "
            f"the inverse covers {wanted} of {total}"
        )
    return coalesce(Layout(tuple(sizes), tuple(strides)), None) if sizes else Layout(1, 0)


@function("algebra", input=PLAIN_LAYOUT)
def left_inverse(layout: Layout, steps: Steps) -> Layout:
    """R with R(L(i)) = i.

    Where modes stand still, with stride 0, only L(R(L(i))) = L(i) holds.

    Raises `NotDefined` where the strides do not follow each other as the digits of a number do.
    """
    filled, before = 1, 1
    for stride, size in sorted((d, s) for s, d in leaves(coalesce(layout, None)) if d != 0):
        if stride < filled or stride % before:
            message = f"{text_of(layout)} has no left inverse that is a layout: the stride of {size}:{stride}"
            wrong = f"is below the {filled} offsets" if stride < filled else f"is not a multiple of the stride {before}"
            help = "strides that divide each other, each at least the size times the stride before it"
            raise NotDefined(f"{message} {wrong} before it", help, 0)
        steps.remark(f"the coordinate of {size}:{stride} is offset / {stride} % {size}")
        filled, before = stride * size, stride
    return tensor_layouts.left_inverse(layout) if filled > 1 else Layout(1, 0)


@function("algebra", layout=PLAIN_LAYOUT)
def nullspace(layout: Layout) -> Layout:
    """The indices that a layout takes to 0.

    These are its modes of stride 0, as steps of the index.
    """
    index, sizes, strides = 1, [], []
    for size, stride in leaves(layout):
        if stride == 0:
            sizes.append(size)
            strides.append(index)
        index *= size
    if not sizes:
        return Layout(1, 0)
    return Layout(sizes[0], strides[0]) if len(sizes) == 1 else Layout(tuple(sizes), tuple(strides))


@function("algebra", a=PLAIN_LAYOUT, b=PLAIN_LAYOUT)
def max_common_layout(a: Layout, b: Layout, steps: Steps) -> Layout:
    """The largest R with A(R(i)) = B(R(i)) = i.

    It is what a copy from A to B can move as one vector.
    """
    inverse = right_inverse(b, Steps())
    steps.show("right_inverse", (b,), inverse)
    common = coalesce(composition(a, inverse, Steps()), None)
    steps.show("coalesce", (composition(a, inverse, Steps()),), common, "A in the order of B's offsets")
    size, stride = leaves(common)[0]
    if stride != 1:
        return Layout(1, 0)
    return composition(inverse, Layout(size, 1), Steps())


@function("algebra", a=PLAIN_LAYOUT, b=PLAIN_LAYOUT)
def max_common_vector(a: Layout, b: Layout, steps: Steps) -> int:
    """How many elements two layouts have in common, in one run."""
    common = max_common_layout(a, b, Steps())
    steps.show("max_common_layout", (a, b), common)
    return elements(common.shape)
