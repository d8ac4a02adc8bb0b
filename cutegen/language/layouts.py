"""Layouts as CuTe prints them, `((32,4),(4,4)):((64,4),(16,1))`, to and from `tensor_layouts.Layout`."""

from __future__ import annotations

import re
from functools import lru_cache

from tensor_layouts import Layout, compose, product_each, raked_product, right_inverse, size

MAX_CHARACTERS = 1000
MAX_DEPTH = 16
MAX_NUMBER = 2**31 - 1
MAX_ENUMERATED = 65_536

IntTuple = int | tuple["IntTuple", ...]
_TOKEN = re.compile(r"\s*([0-9]+|[():,]|-\s*[0-9]+|\S)")


class LayoutSyntaxError(ValueError):
    """Text that is not a layout. `offset` counts characters from 0; `help` says what would work, if that is known."""

    def __init__(self, message: str, offset: int = 0, length: int = 1, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.offset, self.length, self.help = message, offset, length, help


def parse_layout(text: str | int) -> Layout:
    """`(4,32):(32,1)` as a layout. Strides left out mean compact, first mode fastest; a plain `4` is `4:1`.

    Raises `LayoutSyntaxError` for anything else, with the place in the text.
    """
    if isinstance(text, bool) or not isinstance(text, (int, str)):
        raise LayoutSyntaxError(f"a layout is a text like (4,32):(32,1), not {text!r}")
    return _Parser(str(text)).layout()


def format_layout(layout: Layout) -> str:
    """A layout as CuTe prints it, without spaces. `parse_layout` of it gives the layout back."""
    return f"{_format(layout.shape)}:{_format(layout.stride)}"


def _format(value: IntTuple) -> str:
    return str(value) if isinstance(value, int) else f"({','.join(map(_format, value))})"


@lru_cache(maxsize=256)
def make_layout_tv(thread_layout: Layout, value_layout: Layout) -> tuple[tuple[int, ...], Layout]:
    """CuTe's `make_layout_tv`: the tiler, and the layout (thread, value) -> place in the tile, first mode fastest.

    Both layouts map a coordinate of the tile to a thread and to a value of that thread. They must be compact and of
    the same rank; a layout with gaps or repetitions has no such inverse, see `is_injective` and `is_compact`.
    """
    # A rank-1 layout must be a tuple of one mode for the product to interleave mode by mode.
    both = raked_product(_as_tuple(thread_layout), _as_tuple(value_layout))
    tv = compose(right_inverse(both), Layout((size(thread_layout), size(value_layout))))
    tiler = product_each(both.shape)
    return (tiler if isinstance(tiler, tuple) else (tiler,)), Layout(tv.shape, _still(tv.shape, tv.stride))


def _still(shape: IntTuple, stride: IntTuple) -> IntTuple:
    """The strides as CuTe prints them after a composition: 0 where the size is 1."""
    if isinstance(shape, int) or isinstance(stride, int):
        return 0 if shape == 1 else stride
    return tuple(map(_still, shape, stride))


def _as_tuple(layout: Layout) -> Layout:
    return layout if isinstance(layout.shape, tuple) else Layout((layout.shape,), (layout.stride,))


def flat_modes(layout: Layout) -> list[tuple[int, int]]:
    """(shape, stride) of every innermost mode, without those of size 1, whose stride moves nothing."""

    def pairs(shape: IntTuple, stride: IntTuple) -> list[tuple[int, int]]:
        if isinstance(shape, int):
            assert isinstance(stride, int)
            return [(shape, stride)] if shape != 1 else []
        assert isinstance(stride, tuple)
        return [pair for s, d in zip(shape, stride, strict=True) for pair in pairs(s, d)]

    return pairs(layout.shape, layout.stride)


def is_injective(layout: Layout) -> bool | None:
    """Whether no two coordinates meet in one place; None where that would take counting over 65536 coordinates."""
    modes = sorted(flat_modes(layout), key=lambda mode: mode[1])
    if any(stride == 0 for _, stride in modes):
        return False
    reach = 1  # with sorted strides, each mode that steps over everything before it keeps the layout injective
    for shape, stride in modes:
        if stride < reach:
            break
        reach += (shape - 1) * stride
    else:
        return True
    total = 1
    for shape, _ in modes:
        total *= shape
        if total > MAX_ENUMERATED:
            return None
    places = {0}
    for shape, stride in modes:
        places = {place + i * stride for place in places for i in range(shape)}
    return len(places) == total


def is_compact(layout: Layout) -> bool:
    """Whether an injective layout reaches every place from 0 to its size, without gaps."""
    modes = flat_modes(layout)
    total = 1
    for shape, _ in modes:
        total *= shape
    return sum((shape - 1) * stride for shape, stride in modes) == total - 1


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            message = f"the layout has {len(text)} characters; at most {MAX_CHARACTERS} are read"
            raise LayoutSyntaxError(message, 0, MAX_CHARACTERS)
        self.tokens = [(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self.end = len(text.rstrip())
        self.at = 0

    @property
    def token(self) -> tuple[str, int]:
        return self.tokens[self.at] if self.at < len(self.tokens) else ("", max(0, self.end - 1))

    def take(self) -> str:
        text = self.token[0]
        self.at += 1
        return text

    def layout(self) -> Layout:
        if not self.tokens:
            raise LayoutSyntaxError("the layout is empty", help="write one like (4,32):(32,1)")
        shape = self.tree(0, "size")
        if self.token[0] == ":":
            self.take()
            start = self.token[1]
            stride = self.tree(0, "stride")
            self.nothing_more()
            self.check_congruent(shape, stride, start)
        else:
            self.nothing_more()
            stride, _ = _compact(shape, 1)
        self.check_extent(shape, stride)
        return Layout(shape, stride)

    def nothing_more(self) -> None:
        text, offset = self.token
        if text:
            more = "too many `:`" if text == ":" else f"`{text}` is too much after the layout"
            raise LayoutSyntaxError(more, offset, len(text), "a layout is shape:stride, like (4,32):(32,1)")

    def tree(self, depth: int, noun: str) -> IntTuple:
        text, offset = self.token
        if text == "(":
            if depth >= MAX_DEPTH:
                raise LayoutSyntaxError(f"the layout nests deeper than {MAX_DEPTH} levels", offset)
            self.take()
            items = [self.tree(depth + 1, noun)]
            while self.token[0] == ",":
                self.take()
                items.append(self.tree(depth + 1, noun))
            if self.token[0] != ")":
                found, offset = self.token
                message = f"`)` or `,` is missing before `{found}`" if found else "a `(` is never closed"
                raise LayoutSyntaxError(message, offset, max(1, len(found)))
            self.take()
            return tuple(items)
        if not text:
            raise LayoutSyntaxError(f"a {noun} is missing at the end", offset)
        if text.startswith("-") and len(text) > 1:
            raise LayoutSyntaxError(f"a {noun} cannot be negative", offset, len(text))
        if not text.isdigit() or not text.isascii():
            wanted = f"a {noun} or `(` is needed here, not `{text}`"
            raise LayoutSyntaxError(wanted, offset, len(text), "a layout is shape:stride, like (4,32):(32,1)")
        number = int(text) if len(text) < 20 else MAX_NUMBER + 1
        if number > MAX_NUMBER:
            raise LayoutSyntaxError(f"a {noun} is at most {MAX_NUMBER}", offset, len(text))
        if number < 1 and noun == "size":
            raise LayoutSyntaxError("a size is at least 1", offset, len(text))
        self.take()
        return number

    def check_congruent(self, shape: IntTuple, stride: IntTuple, offset: int) -> None:
        if not _congruent(shape, stride):
            message = f"the strides {_format(stride)} do not match the shape {_format(shape)}"
            good = _format(compact_like(shape, stride).stride)
            help = f"write one stride for each size, nested alike; compact would be {good}"
            raise LayoutSyntaxError(message, offset, self.end - offset, help)

    def check_extent(self, shape: IntTuple, stride: IntTuple) -> None:
        modes = flat_modes(Layout(shape, stride))
        total = 1
        for extent, _ in modes:
            total *= extent
        largest = max(total, 1 + sum((extent - 1) * step for extent, step in modes))
        if largest > MAX_NUMBER:
            message = f"the layout has {total} elements and reaches up to {largest}; at most {MAX_NUMBER} fit"
            raise LayoutSyntaxError(message, 0, self.end)


def _congruent(shape: IntTuple, stride: IntTuple) -> bool:
    if isinstance(shape, int) or isinstance(stride, int):
        return isinstance(shape, int) and isinstance(stride, int)
    return len(shape) == len(stride) and all(map(_congruent, shape, stride))


def compact_like(shape: IntTuple, stride: IntTuple) -> Layout:
    """The compact layout of a shape whose modes follow each other in the order of the strides that were written.

    The strides need not match the shape: what is known of their order is kept, and first mode fastest where nothing
    is. Modes that stand still, with stride 0, come last.
    """
    sizes, steps = _leaves(shape), _leaves(stride)
    order = list(range(len(sizes)))
    if len(sizes) == len(steps):
        order.sort(key=lambda i: (steps[i] == 0, steps[i], i))
    elif len(steps) > 1 and steps[0] > steps[-1] > 0 or len(steps) == 1 and steps[0] > 1:
        order.reverse()
    strides, step = [0] * len(sizes), 1
    for i in order:
        strides[i], step = step, step * sizes[i]
    rest = iter(strides)

    def like(part: IntTuple) -> IntTuple:
        return next(rest) if isinstance(part, int) else tuple(map(like, part))

    return Layout(shape, like(shape))


def _leaves(value: IntTuple) -> list[int]:
    return [value] if isinstance(value, int) else [leaf for part in value for leaf in _leaves(part)]


def _compact(shape: IntTuple, step: int) -> tuple[IntTuple, int]:
    """Strides of a compact layout, first mode fastest, and the step after it."""
    if isinstance(shape, int):
        return step, step * shape
    strides = []
    for part in shape:
        stride, step = _compact(part, step)
        strides.append(stride)
    return tuple(strides), step
