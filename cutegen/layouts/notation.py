"""Layouts as CuTe prints them, `((32,4),(4,4)):((64,4),(16,1))`, to and from `tensor_layouts.Layout`."""

from __future__ import annotations

import re

from tensor_layouts import Layout

from cutegen.errors import CutegenError
from cutegen.layouts.making import compact_like
from cutegen.layouts.modes import moving_leaves
from cutegen.layouts.shapes import IntTuple, congruent, flat, nested_like, show

MAX_CHARACTERS = 1000
MAX_DEPTH = 16
MAX_NUMBER = 2**31 - 1

_TOKEN = re.compile(r"\s*([0-9]+|[():,]|-\s*[0-9]+|\S)")


class LayoutSyntaxError(CutegenError, ValueError):
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
    return f"{show(layout.shape)}:{show(layout.stride)}"


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
            stride = _first_mode_fastest(shape)
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
        if not congruent(shape, stride):
            message = f"the strides {show(stride)} do not match the shape {show(shape)}"
            good = show(compact_like(shape, stride).stride)
            help = f"write one stride for each size, nested alike; compact would be {good}"
            raise LayoutSyntaxError(message, offset, self.end - offset, help)

    def check_extent(self, shape: IntTuple, stride: IntTuple) -> None:
        modes = moving_leaves(Layout(shape, stride))
        total = 1
        for extent, _ in modes:
            total *= extent
        largest = max(total, 1 + sum((extent - 1) * step for extent, step in modes))
        if largest > MAX_NUMBER:
            message = f"the layout has {total} elements and reaches up to {largest}; at most {MAX_NUMBER} fit"
            raise LayoutSyntaxError(message, 0, self.end)


def _first_mode_fastest(shape: IntTuple) -> IntTuple:
    """Strides of a compact layout as they are written: those of modes of size 1 are counted on, not 0."""
    strides, step = [], 1
    for extent in flat(shape):
        strides.append(step)
        step *= extent
    nested: IntTuple = nested_like(shape, iter(strides))
    return nested
