"""The text of an expression to a tree, with the place of every part. Nothing is computed here, and nothing is Python.

expression  = part {"o" part}                  o is composition, S<3,4,3> o 0 o (8,8):(8,1) as CuTe prints it
part        = first {"(" arguments ")" | "[" number "]" | "." name}
first       = tree [":" tree] | name "(" arguments ")" | "S" "<" b "," m "," s ">"
                | "tensor" "<" pointer "o" expression ">"
tree        = number | "_" | "None" | "(" expression {"," expression} ")"
arguments   = [name "="] expression {"," ...}
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from cutegen.errors import CutegenError
from cutegen.layouts.notation import MAX_CHARACTERS, MAX_DEPTH

MAX_NUMBER = 2**63 - 1
_TOKEN = re.compile(r"\s*([0-9]+|[^\W\d]\w*|\S)")
_SWIZZLES = ("S", "Sw", "Swizzle")


class AlgebraError(CutegenError, ValueError):
    """An expression without a value. `offset` counts characters from 0; `help` says what would work, if it is known."""

    def __init__(self, message: str, offset: int = 0, length: int = 1, help: str | None = None) -> None:
        super().__init__(message, help)
        self.offset, self.length = offset, max(1, length)


@dataclass(frozen=True)
class Node:
    """A part of an expression, from character `start` up to `end`."""

    start: int
    end: int


@dataclass(frozen=True)
class Number(Node):
    value: int


@dataclass(frozen=True)
class Hole(Node):
    pass


@dataclass(frozen=True)
class Group(Node):
    items: tuple[Node, ...]


@dataclass(frozen=True)
class Literal(Node):
    """shape:stride"""

    shape: Node
    stride: Node


@dataclass(frozen=True)
class SwizzleLiteral(Node):
    bits: int
    base: int
    shift: int


@dataclass(frozen=True)
class Call(Node):
    """The name stands at `place`; `keywords` are (name, its place, value)."""

    name: str
    place: int
    arguments: tuple[Node, ...]
    keywords: tuple[tuple[str, int, Node], ...]


@dataclass(frozen=True)
class Apply(Node):
    """layout(coordinate)"""

    target: Node
    coordinate: Node


@dataclass(frozen=True)
class Item(Node):
    """target[number]"""

    target: Node
    number: int


@dataclass(frozen=True)
class Attribute(Node):
    target: Node
    name: str


@dataclass(frozen=True)
class Compose(Node):
    """part o part o ..."""

    parts: tuple[Node, ...]


def parse(text: str) -> Node:
    """The tree of an expression. Raises `AlgebraError` with the place of what is wrong."""
    return _Parser(text).whole()


class _Parser:
    def __init__(self, text: str) -> None:
        if len(text) > MAX_CHARACTERS:
            message = f"the expression has {len(text)} characters; at most {MAX_CHARACTERS} are read"
            raise AlgebraError(message, 0, MAX_CHARACTERS)
        self.tokens = [(m[1], m.start(1)) for m in _TOKEN.finditer(text)]
        self.at, self.depth = 0, 0
        self.end = len(text.rstrip())

    @property
    def token(self) -> str:
        return self.tokens[self.at][0] if self.at < len(self.tokens) else ""

    @property
    def offset(self) -> int:
        return self.tokens[self.at][1] if self.at < len(self.tokens) else max(0, self.end - 1)

    @property
    def last(self) -> int:
        """Where the token before this one ends."""
        text, offset = self.tokens[self.at - 1]
        return offset + len(text)

    def following(self, ahead: int = 1) -> str:
        return self.tokens[self.at + ahead][0] if self.at + ahead < len(self.tokens) else ""

    def take(self) -> str:
        token = self.token
        self.at += 1
        return token

    def expect(self, token: str, opened: str = "") -> None:
        if self.token == token:
            self.at += 1
            return
        if not self.token:
            message = f"a `{opened}` is never closed" if opened else f"`{token}` is missing at the end"
            raise AlgebraError(message, self.offset)
        if self.token == ":":
            raise self.error("a layout has one `:`, between all sizes and all strides", "(4,8):(8,1)")
        raise self.error(f"`{token}` is missing before `{self.token}`")

    def error(self, message: str, help: str | None = None) -> AlgebraError:
        return AlgebraError(message, self.offset, len(self.token), help)

    def whole(self) -> Node:
        if not self.tokens:
            raise AlgebraError("the expression is empty", help="write one like zipped_divide((16,32):(32,1), (2,4))")
        node = self.expression()
        if self.token:
            more = "too many `:`" if self.token == ":" else f"`{self.token}` is too much after the expression"
            raise self.error(more, "a layout is shape:stride, like (4,32):(32,1)")
        return node

    def expression(self) -> Node:
        if self.depth >= MAX_DEPTH:
            raise AlgebraError(f"the expression nests deeper than {MAX_DEPTH} levels", self.offset)
        self.depth += 1
        parts = [self.part()]
        while self.token in ("o", "∘"):
            self.take()
            parts.append(self.part())
        self.depth -= 1
        return parts[0] if len(parts) == 1 else Compose(parts[0].start, parts[-1].end, tuple(parts))

    def part(self) -> Node:
        node = self.first()
        for _ in range(MAX_DEPTH):
            if self.token == "(":
                start = self.offset
                arguments, keywords = self.arguments()
                if keywords or not arguments:
                    raise AlgebraError("a coordinate is needed between the parentheses", start, self.last - start)
                coordinate = arguments[0] if len(arguments) == 1 else Group(start, self.last, arguments)
                node = Apply(node.start, self.last, node, coordinate)
            elif self.token == "[":
                self.take()
                number = self.number("mode number")
                self.expect("]", "[")
                node = Item(node.start, self.last, node, number)
            elif self.token == ".":
                self.take()
                if self.token not in ("shape", "stride"):
                    raise self.error(f"there is no `.{self.token}`", "`.shape` and `.stride` of a layout")
                name = self.take()
                node = Attribute(node.start, self.last, node, name)
            else:
                return node
        raise self.error(f"more than {MAX_DEPTH} times something is taken from one layout")

    def first(self) -> Node:
        token, start = self.token, self.offset
        if token in _SWIZZLES and self.following() == "<":
            return self.swizzle()
        if token == "tensor" and self.following() == "<":
            return self.tensor()
        if token[:1].isalpha() and token != "None" or token.startswith("_") and token != "_":
            return self.call()
        shape = self.tree("number")
        if self.token != ":":
            return shape
        self.take()
        stride = self.tree("stride")
        return Literal(start, self.last, shape, stride)

    def tree(self, noun: str) -> Node:
        token, start = self.token, self.offset
        if token in ("(", "["):
            closing = ")" if token == "(" else "]"
            self.take()
            items = [self.expression()]
            while self.token == ",":
                self.take()
                if self.token == closing:  # (4,) as Python writes it
                    break
                items.append(self.expression())
            self.expect(closing, token)
            return Group(start, self.last, tuple(items))
        if token in ("_", "None"):
            self.take()
            return Hole(start, self.last)
        return Number(start, start + len(token), self.number(noun))

    def number(self, noun: str) -> int:
        token = self.token
        if token.isdigit() and token.isascii():
            value = int(token) if len(token) < 20 else MAX_NUMBER + 1
            if value > MAX_NUMBER:
                raise self.error(f"a {noun} is at most {MAX_NUMBER}")
            self.take()
            if self.token == "@":
                raise self.error("strides of coordinates, 1@0, are not computed here", "plain numbers as strides")
            return value
        if not token:
            raise AlgebraError(f"a {noun} is missing at the end", self.offset)
        if token == "-":
            raise self.error(f"a {noun} cannot be negative")
        if token == "?":
            raise self.error("`?` is a number that only a running kernel knows", "a number in its place")
        raise self.error(
            f"a {noun} or `(` is needed here, not `{token}`", "a layout is shape:stride, like (4,32):(32,1)"
        )

    def swizzle(self) -> Node:
        start = self.offset
        self.take()
        numbers = []
        for closing in ("<", ",", ","):
            self.expect(closing)
            negative = self.token == "-"
            if negative:
                self.take()
            numbers.append(-self.number("swizzle's number") if negative else self.number("swizzle's number"))
        self.expect(">", "<")
        return SwizzleLiteral(start, self.last, *numbers)

    def tensor(self) -> Node:
        """The layout of a tensor as CuTeDSL prints it, tensor<ptr<f32, gmem> o (4,8):(8,1)>."""
        start, depth = self.at, 0
        while self.token and not (self.token == "o" and depth == 1):
            depth += (self.token == "<") - (self.token == ">")
            self.at += 1
        if not self.token:
            self.at = start
            raise self.error("this tensor has no layout", "tensor<ptr<f32, gmem> o (4,8):(8,1)>")
        self.take()
        layout = self.expression()
        self.expect(">", "<")
        return layout

    def call(self) -> Node:
        start = self.offset
        if self.token == "cute" and self.following() == "." and self.following(2)[:1].isalpha():
            self.at += 2
        name, place = self.token, self.offset
        self.take()
        if self.token != "(":
            help = "there are no variables: write the layout itself. Functions are called, as size(L)"
            raise AlgebraError(f"`{name}` alone has no value", place, len(name), help)
        arguments, keywords = self.arguments()
        return Call(start, self.last, name, place, arguments, keywords)

    def arguments(self) -> tuple[tuple[Node, ...], tuple[tuple[str, int, Node], ...]]:
        """Parses the arguments of a call and both parentheses. Returns those without a name, then those with one, each
        with its name and where that is.
        """
        self.expect("(")
        arguments: list[Node] = []
        keywords: list[tuple[str, int, Node]] = []
        while self.token != ")":
            if self.following() == "=":
                keyword, place = self.take(), self.tokens[self.at - 1][1]
                self.take()
                keywords.append((keyword, place, self.expression()))
            elif keywords:
                raise self.error("an argument without a name cannot follow one with a name")
            else:
                arguments.append(self.expression())
            if self.token != ",":
                break
            self.take()
        self.expect(")", "(")
        return tuple(arguments), tuple(keywords)
