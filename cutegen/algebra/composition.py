"""Composition, R(c) = A(B(c)): the operation that all others are made of.

The rule for one mode s:d of B is CuTe's (NVIDIA, "CuTe Layout Algebra", Composition): step over A's modes, coalesced,
by d places, and take s of them. `tensor_layouts.compose` follows it as well; this one besides keeps what CuTeDSL keeps
(the stride of modes of size 1, and a last mode of size 1, beyond which A goes on), and refuses where the modes of B
together carry from one mode of A into the next. CuTeDSL does not look for that, and returns a layout that is not A o B.
"""

from __future__ import annotations

from typing import Any

from tensor_layouts import Layout, idx2crd

from cutegen.algebra.arguments import LAYOUT, TILER
from cutegen.algebra.registry import function
from cutegen.algebra.steps import Steps
from cutegen.algebra.values import NotDefined, join, plain, text_of
from cutegen.layouts import IntTuple, elements, first_offsets, leaves, modes_of, nested_like, reach

Pairs = list[tuple[int, int]]
MAX_COMPARED = 4096


@function("algebra", lhs=LAYOUT, rhs=TILER, inside=True)
def composition(lhs: Layout, rhs: Any, steps: Steps) -> Layout:
    """R(c) = A(B(c)); a tuple as B composes mode by mode.

    B is a layout over A's offsets, or a tiler: a tuple of layouts, and `_` for a mode that is kept as it is. Modes
    beyond a tuple's are dropped.

    Raises `NotDefined` where A o B is not a layout.
    """
    if isinstance(rhs, tuple):
        return _by_mode(lhs, rhs, steps)
    try:
        result = composed(lhs, rhs)
    except NotDefined as error:
        raise NotDefined(f"{text_of(lhs)} o {text_of(rhs)} is not a layout: {error.message}", error.help) from None
    if reach(rhs) > elements(lhs.shape):
        steps.note(f"{_beyond(lhs, rhs)}: like CuTe's, the last mode goes on")
    parts = list(zip(leaves(rhs), leaves_like(result, rhs), strict=True))
    for (s, d), part in parts if len(parts) > 1 else []:
        steps.show("composition", (lhs, Layout(s, d)), part, f"{s} places, {d} apart" if s > 1 else "one place")
    return result


def composed(a: Layout, b: Layout) -> Layout:
    """A o B of two layouts. Raises `NotDefined` with the reason alone."""
    flat = joined(a)
    parts = [_piece(flat, s, d) for s, d in leaves(b)]
    result = Layout(nested_like(b.shape, (p[0] for p in parts)), nested_like(b.shape, (p[1] for p in parts)))
    _check_carries(flat, a, b, result)
    return result


def composed_at_run_time(a: Layout, b: Layout) -> Layout:
    """A o B as CuTeDSL computes it for a tensor whose strides are known only when the kernel is called.

    A's modes are not merged then, independent of their strides. Raises `NotDefined` with the reason where CuTeDSL
    refuses, and where it does not notice that what it gives is not A(B(c)).
    """
    flat = [*(mode for mode in leaves(a)[:-1] if mode[0] != 1), leaves(a)[-1]]
    for _, d in leaves(b):
        _check_step(flat, d)
    parts = [_piece(flat, s, d) for s, d in leaves(b)]
    last = [(s - 1) * d for s, d in leaves(b)]
    for extent, _ in flat[:-1]:
        own = [place % extent for place in last]
        if sum(own) >= extent:
            terms = " + ".join(str(place) for place in own if place)
            raise NotDefined(f"{terms} = {sum(own)} steps past a mode of {extent}, each of them by itself does not")
        last = [place // extent for place in last]
    return Layout(nested_like(b.shape, (p[0] for p in parts)), nested_like(b.shape, (p[1] for p in parts)))


def _check_step(flat: Pairs, step: int) -> None:
    """Raises `NotDefined` for a step that CuTeDSL refuses for a mode of any size, even one."""
    for extent, _ in flat[:-1]:
        if step > extent and step % extent:
            raise NotDefined(f"steps of {step} do not fit a mode of {extent}: {step} is not a multiple of {extent}")
        step = -(-step // extent)


def leaves_like(layout: Layout, profile: Layout) -> list[Layout]:
    """The parts of a layout that stand where `profile` has an innermost mode."""
    if isinstance(profile.shape, int):
        return [layout]
    return [
        part for mode, own in zip(modes_of(layout), modes_of(profile), strict=True) for part in leaves_like(mode, own)
    ]


def _beyond(a: Layout, b: Layout) -> str:
    return f"{text_of(b)} reaches {reach(b) - 1}, and {text_of(a)} ends at {elements(a.shape) - 1}"


def _by_mode(a: Layout, tiler: tuple[Any, ...], steps: Steps) -> Layout:
    own = modes_of(a)
    check_rank(tiler, a)
    parts = []
    for mode, part in zip(own, tiler, strict=False):
        if part is None:
            parts.append(mode)
            continue
        parts.append(composition(mode, part, Steps()))
        if isinstance(part, Layout) and reach(part) > elements(mode.shape):
            sizes = text_of(plain(tiler))
            steps.note(
                f"mode {len(parts) - 1}: {_beyond(mode, part)}. The tuple {sizes} is a tiler, composed mode by mode; "
                f"make_layout({sizes}) would be a layout"
            )
        steps.show("composition", (mode, part), parts[-1], f"mode {len(parts) - 1}")
    return join(parts)


def check_rank(tiler: tuple[Any, ...], layout: Layout) -> None:
    """Raises `NotDefined` for a tiler that has more modes than the layout."""
    rank = len(modes_of(layout))
    if len(tiler) > rank:
        have = f"{text_of(layout)} has {rank}" if rank > 1 else f"{text_of(layout)} has only one"
        message = f"the tiler {text_of(plain(tiler))} has {len(tiler)} modes, {have}"
        raise NotDefined(message, "a tiler has at most one entry for each mode", 1)


def joined(layout: Layout) -> Pairs:
    """The innermost modes, those that follow each other without a gap made one, those of size 1 left out.

    The last one always stays, since it is the mode in which A goes on beyond its size.
    """
    flat = leaves(layout)
    merged = [flat[-1] if flat[-1][0] != 1 else (2, flat[-1][1])]
    for size, stride in reversed(flat[:-1]):
        if size == 1:
            continue
        if size * stride == merged[0][1]:
            merged[0] = (size * merged[0][0], stride)
        else:
            merged.insert(0, (size, stride))
    return merged


def _piece(flat: Pairs, size: int, step: int) -> tuple[IntTuple, IntTuple]:
    """Every `step`-th place of the modes `flat`, `size` of them."""
    if step == 0:
        return size, 0
    found: Pairs = []
    left, hop = size, step
    for extent, stride in flat[:-1]:
        if left == 1:
            hop = -(-hop // extent)
            continue
        if extent % hop and hop % extent:
            if (left - 1) * hop < extent:  # all of it inside of this mode
                found.append((left, hop * stride))
                left = 1
                break
            message = f"steps of {hop} do not fit a mode of {extent}, neither divides the other"
            raise NotDefined(message, f"a step that divides {extent}, or a multiple of {extent}")
        here = -(-extent // hop)
        after = -(-hop // extent)
        if here > 1:
            take = min(here, left)
            if left % take:
                message = (
                    f"{left} places do not fill whole runs of {here}, the places that a mode of {extent} has for them"
                )
                raise NotDefined(message, f"a size of at most {here}, or a multiple of {here}")
            found.append((take, hop * stride))
            left //= take
        hop = after
    if left != 1 or not found:
        found.append((left, hop * flat[-1][1]))
    if len(found) == 1:
        return found[0]
    return tuple(s for s, _ in found), tuple(d for _, d in found)


def _check_carries(flat: Pairs, a: Layout, b: Layout, result: Layout) -> None:
    """Raises `NotDefined` where the modes of B, each right by itself, add up past the end of a mode of A.

    Every mode of B has its largest part in each mode of A at its last coordinate. Where these sums stay inside of A's
    modes there is no carry at any coordinate, and A(B(c)) is the sum of the modes' own results.
    """
    sums = [0] * (len(flat) - 1)
    for s, d in leaves(b):
        place = (s - 1) * d
        for k, (extent, _) in enumerate(flat[:-1]):
            sums[k] += place % extent
            place //= extent
    if all(total < extent for total, (extent, _) in zip(sums, flat, strict=False)):
        return
    total = elements(b.shape)
    whole = total <= MAX_COMPARED
    places, found = (
        (first_offsets(b, total), first_offsets(result, total)) if whole else ([reach(b) - 1], [reach(result) - 1])
    )
    wrong = next((i for i, place in enumerate(places) if _offset(flat, place) != found[i]), None)
    if wrong is None and whole:
        return  # the carries cancel out
    extents = text_of(tuple(extent for extent, _ in flat))
    message = f"the modes of {text_of(b)} together step past a mode of {extents}"
    if wrong is None:
        raise NotDefined(f"{message}; {total} places cannot be compared, only {MAX_COMPARED}")
    there = text_of(idx2crd(wrong if whole else total - 1, b.shape))
    right = f"A({places[wrong]}) = {_offset(flat, places[wrong])}"
    raise NotDefined(
        f"{message}: at {there}, {right}, but each mode by itself gives {found[wrong]}",
        "a tuple composes mode by mode; CuTeDSL computes each mode of B by itself and does not notice",
    )


def _offset(flat: Pairs, index: int) -> int:
    """The offset of an index; the last mode goes on beyond its size."""
    total = 0
    for extent, stride in flat[:-1]:
        total += index % extent * stride
        index //= extent
    return total + index * flat[-1][1]
