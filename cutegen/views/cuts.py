"""Views: tensors of the kernel that are parts of one argument, as `gu[:, :n]` is one of a tensor of torch.

A spec's `tensors` are arguments. One that has `views` is packed: the kernel knows its parts, and not itself. All that
is said of a view's place is said here: what of the argument it is, where it starts, and which elements it shares.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import combinations
from math import gcd, prod
from typing import Any

from cutegen.views.extents import Extent, ExtentError, extent, mode, number, of_tree
from cutegen.views.memory import Memory, T

ONE_ELEMENT = number(1)


class ViewError(ValueError):
    """Raised for a view that its argument does not have; the message and `help` are for people."""

    def __init__(self, message: str, help: str) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class Index:
    """One item of an index: a slice, or a number where `stop` is None and `whole` is not. None: to the end."""

    start: ast.expr | None
    stop: ast.expr | None
    step: int
    is_slice: bool


@dataclass(frozen=True)
class Cut:
    """The elements that a view takes along one mode of its argument: `size` of them from `start` on, each `step` from
    the one before.

    `modes` are those of the view that lie along it, the last one innermost; none where it takes one element.
    """

    item: str  # of the argument's shape
    start: Extent
    size: Extent
    step: int
    modes: tuple[str, ...]

    @property
    def stop(self) -> Extent:
        """The place behind the last element."""
        return self.start + (self.size - ONE_ELEMENT) * number(self.step) + ONE_ELEMENT

    @property
    def is_whole(self) -> bool:
        """Whether it is all that there is along the mode."""
        return self.step == 1 and not self.start.terms and self.size == extent(self.item)


@cache
def indexed(text: str) -> tuple[str, tuple[Index | None, ...]]:
    """The name that an index is of, and its items; None stands for `...`. Raises ViewError for another text."""
    help = "write an index as torch has it, such as `GU[:, :N]` or `X[..., 0::2]`"
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ViewError(f"`{text[:80]}` is not an index", help) from None
    if not isinstance(tree, ast.Subscript) or not isinstance(tree.value, ast.Name):
        raise ViewError(f"`{text[:80]}` is not an index of an argument", help)
    items = tree.slice.elts if isinstance(tree.slice, ast.Tuple) else [tree.slice]
    return tree.value.id, tuple(_item(item, help) for item in items)


def _item(item: ast.expr, help: str) -> Index | None:
    match item:
        case ast.Constant(value=value) if value is ...:
            return None
        case ast.Slice(lower=lower, upper=upper, step=None):
            return Index(lower, upper, 1, True)
        case ast.Slice(lower=lower, upper=upper, step=ast.Constant(value=int(step))) if 1 <= step < 2**31:
            return Index(lower, upper, step, True)
        case ast.Slice():
            raise ViewError(f"`{ast.unparse(item)}` has a step that is not a number of at least 1", help)
        case ast.UnaryOp() | ast.BinOp() | ast.Name() | ast.Constant(value=int()):
            return Index(item, None, 1, False)
    raise ViewError(f"`{ast.unparse(item)[:80]}` is not a slice", help)


def argument_of(view: Memory) -> str:
    """The name of the argument that a view says it is of."""
    return indexed(view.view or "")[0]


def shape_of(argument: Memory, view: Memory, static: Mapping[str, int]) -> tuple[str, ...]:
    """The shape of a view that leaves it out: the modes whose sizes it has. Raises ViewError where a size is that of no
    mode.
    """
    found: list[str] = []
    for item, index in zip(argument.shape, _items(argument.name, argument.shape, view.view or ""), strict=True):
        size = _range(item, index, static, f"`{view.name}`, {view.view}")[1]
        if index.is_slice and not size.is_mode:
            message = f"`{view.name}` has {size.text()} elements along `{item}`, which is not a mode"
            raise ViewError(message, "write its `shape`, with names for the modes of these elements")
        found += size.modes * index.is_slice
    return tuple(found)


def cuts(argument: Memory, view: Memory, static: Mapping[str, int]) -> tuple[Cut, ...]:
    """The elements that a view takes along each mode of its argument. Raises ViewError where there are none for some
    sizes.
    """
    return _cuts(argument.name, argument.shape, view.name, view.shape, view.view or "", tuple(static.items()))


@cache
def _cuts(
    name: str, shape: tuple[str, ...], view: str, modes: tuple[str, ...], text: str, static: tuple[tuple[str, int], ...]
) -> tuple[Cut, ...]:
    known, of = dict(static), f"`{name}` is [{', '.join(shape)}]"
    left, found = list(modes), []
    for item, index in zip(shape, _items(name, shape, text), strict=True):
        start, size = _range(item, index, known, f"`{view}`, {text}")
        own: list[str] = []
        if index.is_slice:
            wanted, product = size.knowing(known), ONE_ELEMENT
            while left and (not own or product != wanted):
                own.append(left.pop(0))
                product = (product * mode(own[-1])).knowing(known)
            if not own or product != wanted:
                was = ", ".join(own) or "no mode"
                message = f"`{view}` has {was} where {text} has {size.text()} elements along `{item}`"
                raise ViewError(message, f"name the modes that these elements have: one of that size, or several; {of}")
        found.append(Cut(item, start, size, index.step, tuple(own)))
    if left:
        raise ViewError(f"`{view}` has the mode `{left[0]}`, and {text} has nothing left for it", of)
    return tuple(found)


def _items(name: str, shape: Sequence[str], text: str) -> list[Index]:
    """An index, with an item for each mode of the argument. Raises ViewError where it has more."""
    items = list(indexed(text)[1])
    if items.count(None) > 1 or len(items) - items.count(None) > len(shape):
        raise ViewError(f"`{text}` has more items than `{name}` has modes", f"`{name}` is [{', '.join(shape)}]")
    at = items.index(None) if None in items else len(items)
    items[at : at + 1] = [Index(None, None, 1, True)] * (len(shape) - len(items) + items.count(None))
    return [item for item in items if item is not None]


def _range(item: str, index: Index, known: Mapping[str, int], what: str) -> tuple[Extent, Extent]:
    """Where an item of an index starts, and how many elements it takes along an item of the shape."""
    whole = extent(item)
    try:
        start = _bound(index.start, whole) or Extent()
        if not index.is_slice:
            if not all(x.knowing(known).never_negative for x in (start, whole - start - ONE_ELEMENT)):
                message = f"{what} takes the place {start.text()} along `{item}`, which may have fewer elements"
                raise ViewError(message, "give the argument a number there, or fix the size of the mode in `static`")
            return start, ONE_ELEMENT
        stop = _bound(index.stop, whole) or whole
    except ExtentError as error:
        raise ViewError(f"a bound of {what}, {error}", "write bounds such as `N` or `HQ*D`") from None
    length = (stop - start).knowing(known)
    size = (stop - start).quotient(index.step) or length.quotient(index.step)
    if size is None:
        message = f"{what} takes one of every {index.step} elements, and {length.text()} may not be a multiple of that"
        raise ViewError(message, f"write the size in the argument's shape as a multiple, such as `{index.step}*N`")
    _check_within(start, stop, size, whole, known, what)
    return start, size


def _bound(tree: ast.expr | None, whole: Extent) -> Extent | None:
    """A bound of a slice, from the front; a negative one counts from the end."""
    if tree is None:
        return None
    if isinstance(tree, ast.UnaryOp) and isinstance(tree.op, ast.USub):
        return whole - of_tree(tree.operand)
    return of_tree(tree)


def _check_within(
    start: Extent, stop: Extent, size: Extent, whole: Extent, known: Mapping[str, int], what: str
) -> None:
    inside = (start, size, whole - stop)
    if not all(one.knowing(known).never_negative for one in inside):
        message = f"{what} reaches from {start.text()} to {stop.text()}, and there are {whole.text()} elements"
        raise ViewError(message, "a view lies within its argument for all sizes")


# ------------------------------------------------------------------------------------------------- elements it shares


def sharing(argument: Memory, static: Mapping[str, int]) -> Iterator[tuple[Any, Any]]:
    """Pairs of views that may have an element in common, of which the first is written."""
    for a, b in combinations(argument.views, 2):
        if (a.writes or b.writes) and not apart(cuts(argument, a, static), cuts(argument, b, static), static):
            yield (a, b) if a.writes else (b, a)


def apart(a: Sequence[Cut], b: Sequence[Cut], static: Mapping[str, int]) -> bool:
    """Whether two views of one argument surely have no element in common."""
    return any(_apart(x, y, static) for x, y in zip(a, b, strict=True))


def _apart(a: Cut, b: Cut, static: Mapping[str, int]) -> bool:
    if any((y.start - x.stop).knowing(static).never_negative for x, y in ((a, b), (b, a))):
        return True
    common = gcd(a.step, b.step) if a.modes and b.modes else a.step if a.modes else b.step
    distance = (a.start - b.start).knowing(static)
    shifted = sum(factor for modes, factor in distance.terms if not modes)
    return common > 1 and shifted % common != 0 and all(f % common == 0 for modes, f in distance.terms if modes)


def count(cuts: Sequence[Cut], static: Mapping[str, int]) -> Extent:
    """The number of elements of a view."""
    found = ONE_ELEMENT
    for cut in cuts:
        found = found * cut.size.knowing(static)
    return found


def is_covered(argument: Memory, views: Sequence[Memory], static: Mapping[str, int]) -> bool:
    """Whether views that share no element have all those of their argument, for all sizes."""
    total, whole = Extent(), ONE_ELEMENT
    for view in views:
        total += count(cuts(argument, view, static), static)
    for item in argument.shape:
        whole = whole * extent(item).knowing(static)
    return total == whole


# --------------------------------------------------------------------------------------------- as tensors of the kernel


def stepped(argument: Memory, view: Memory, static: Mapping[str, int]) -> tuple[str | None, int]:
    """The mode along which neighbours of a view are nearest, and how many elements of its argument lie from one to the
    next: 1 where the view is contiguous; 0 where that is another number from call to call, as where it takes one
    element along the contiguous mode.
    """
    along = next(cut for cut in cuts(argument, view, static) if cut.item == argument.contiguous)
    if along.modes:
        return along.modes[-1], along.step
    return (view.shape or (None,))[-1], 0


def aligned(argument: Memory, view: Memory, static: Mapping[str, int], divisible: Mapping[str, int]) -> int:
    """The alignment in bytes that a view surely has by that of its argument."""
    width, divisors = argument.dtype.bytes, {**divisible, **static}
    if argument.align is None or stepped(argument, view, static)[1] != 1:
        return width
    known = argument.align
    for cut in cuts(argument, view, static):
        inner = cut.item == argument.contiguous
        unit = width if inner else argument.align
        known = gcd(known, cut.start.divisor(divisors) * unit)
        # Modes that lie along one of the argument's: from one to the next are as many elements as the inner ones have
        for i in range(1, len(cut.modes)):
            known = gcd(known, cut.step * prod(divisors.get(m, 1) for m in cut.modes[i:]) * unit)
    return max(width, known & -known)


def with_views(arguments: Sequence[T], static: Mapping[str, int], divisible: Mapping[str, int]) -> tuple[T, ...]:
    """The tensors of the kernel: arguments, and instead of those that are packed their views.

    A view that may be less aligned than its argument is one of which nothing was written.
    """
    found: list[Any] = []
    for argument in arguments:
        if not argument.views:
            found.append(argument)
        for view in argument.views:
            major, step = stepped(argument, view, static)
            least = aligned(argument, view, static, divisible)
            align = least if argument.align is not None and (step != 1 or least == argument.align) else None
            found.append(replace(view, major=argument.major and major, align=align, step=step))
    return tuple(found)


def with_arguments(tensors: Sequence[T], arguments: Sequence[T]) -> tuple[T, ...]:
    """The arguments, with what planning found out of the tensors that the kernel has of them."""
    known: dict[str, Any] = {tensor.name: tensor for tensor in tensors}
    found: list[Any] = []
    for argument in arguments:
        views = [known[view.name] for view in argument.views]
        if not views:
            found.append(known[argument.name])
            continue
        major = argument.contiguous if all(view.major for view in views) else argument.major
        aligns = [view.align for view in views if view.align is not None]
        whole: Any = argument
        found.append(replace(whole, major=major, align=argument.align or max(aligns, default=None)))
    return tuple(found)
