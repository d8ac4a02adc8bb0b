"""How many bits integer arithmetic needs: what the uses of a value ask for, and the numbers that a value can be.

torch's rule decides what a value is: arithmetic on an i64 is arithmetic of 64 bits, and so is that on coordinates,
which `torch.arange` gives as int64, and a sum along a mode. A statement that is stored in an i64 or a u32 computes all
of its integer arithmetic in 64 bits. The rest is arithmetic of 32 bits, which wraps around.

A kernel computes in 64 bits only where 32 would give another result: `span` bounds what a value can be, and where only
the low 32 bits of a result are kept, sums and products are made in 32.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import TYPE_PRESERVING, function_of
from cutegen.expressions.tree import (
    COMPARISONS,
    Assignment,
    Binary,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    Len,
    Literal_,
    Local,
    Name,
    Reduce,
    Scan,
    Select,
    Unary,
)

MODULAR = ("+", "-", "*", "**", "&", "|", "^")
"""Operators whose low bits follow from the low bits of their operands."""
LAST_COORDINATE = 2**31 - 2  # of the largest size that the host takes
MOST_ELEMENTS = 2**31 - 1
_I32, _I64 = Dtype.i32.range, Dtype.i64.range


class Asked(IntEnum):
    """The requirement that the uses of a value place on it; of several uses, the strongest."""

    LOW_BITS = 0  # nothing above the low 32 bits counts
    VALUE = 1  # the value that it has by torch's rule
    WIDE = 2  # the value of arithmetic in 64 bits


class Kind(IntEnum):
    """Where the width of a value comes from, by torch's rule; where two meet, the larger one."""

    NUMBER = 0  # written in the spec: it takes the width of what it meets
    SHORT = 1  # 32 bits
    LONG = 2  # 64 bits


@dataclass(frozen=True)
class Span:
    """The least and the largest number that an integer can be."""

    low: int
    high: int
    kind: Kind

    def within(self, limits: tuple[int, int]) -> bool:
        return limits[0] <= self.low and self.high <= limits[1]

    def settled(self) -> Span:
        """The numbers that are left once what does not fit the value's width has wrapped around."""
        limits = _I32 if self.kind is Kind.SHORT else _I64
        return self if self.within(limits) else Span(*limits, self.kind)

    @property
    def needs_64_bits(self) -> bool:
        """Whether 32 bits would give another value than torch's rule."""
        return self.kind is not Kind.SHORT and not self.within(_I32)


def stored_in(dtype: Dtype) -> Asked:
    """The requirement that a tensor of this type places on the value that it holds."""
    if dtype in (Dtype.i64, Dtype.u32):
        return Asked.WIDE
    return Asked.LOW_BITS if dtype.is_integer else Asked.VALUE


def asked_of_children(node: Expr, asked: Asked, whole: Callable[[Expr], bool]) -> tuple[Asked, ...]:
    """The requirements of a node on each of its children; `whole` says whether a node is an integer or a bool."""
    below = max(asked, Asked.VALUE)
    if isinstance(node, Cast):
        assert node.dtype is not None
        if not node.explicit or node.dtype.is_float or node.dtype is Dtype.bool:
            return (below,)
        told = stored_in(node.dtype)
        return (told if whole(node.x) else max(told, Asked.VALUE),)
    children = node.children
    if asked is Asked.LOW_BITS and whole(node):
        match node:
            case Binary(op=op) if op in MODULAR:
                return (asked, asked)
            case Binary(op="<<"):
                return (asked, below)
            case Unary(op="-" | "~") | Reduce(function="sum" | "prod") | Scan():
                return (asked,)
            case Call(function="where"):
                return (below, asked, asked)
    return (below,) * len(children)


def asked_of(compute: Compute, types: Mapping[str, Dtype]) -> dict[str, Asked]:
    """The requirement on each target: from the tensor that it is, and from every later statement that reads it."""
    whole_targets: list[dict[str, bool]] = []  # before each statement, of what was computed
    known: dict[str, bool] = {}
    for statement in compute.statements:
        whole_targets.append(dict(known))
        known[statement.target] = is_whole(statement.value, types, known)
    found = {s.target: stored_in(types[s.target]) if s.target in types else Asked.LOW_BITS for s in compute.statements}
    for statement, before in zip(reversed(compute.statements), reversed(whole_targets), strict=True):
        _collect(statement, found, types, before)
    return found


def _collect(
    statement: Assignment, found: dict[str, Asked], types: Mapping[str, Dtype], before: Mapping[str, bool]
) -> None:
    """Adds what a statement asks of those before it."""

    def whole(node: Expr) -> bool:
        return is_whole(node, types, before)

    def visit(node: Expr, asked: Asked) -> None:
        if isinstance(node, Name) and node.id in before:
            found[node.id] = max(found[node.id], asked)
        for child, more in zip(node.children, asked_of_children(node, asked, whole), strict=True):
            visit(child, more)

    visit(statement.value, found[statement.target])


def is_whole(node: Expr, types: Mapping[str, Dtype], computed: Mapping[str, bool]) -> bool:
    """Whether a part of a statement that has no types yet is an integer or a truth; False where that is not known."""

    def whole(x: Expr) -> bool:
        return is_whole(x, types, computed)

    match node:
        case Literal_():
            return not isinstance(node.value, float)
        case Name():
            return computed[node.id] if node.id in computed else not types[node.id].is_float
        case Coord() | Len():
            return True
        case Cast():
            return node.dtype is not None and not node.dtype.is_float
        case Binary(op=op):
            return op in (*COMPARISONS, "and", "or") or (op != "/" and whole(node.left) and whole(node.right))
        case Unary():
            return node.op == "not" or whole(node.x)
        case Call(function="where"):
            return all(map(whole, node.arguments[1:]))
        case Call(function=function) if function_of(function).gives == "truth":
            return True
        case Call(function=function):
            kept = function in (*TYPE_PRESERVING, "floor_divide", "remainder")
            return kept and all(map(whole, node.arguments))
        case Reduce():
            if node.function in ("any", "all", "argmax", "argmin"):
                return True
            return node.function in ("sum", "prod", "max", "min") and whole(node.x)
        case Scan():
            return whole(node.x)
        case Select():
            return node.function == "argtopk" or whole(node.x)
    return False


def span(node: Expr, computed: Mapping[str, Span]) -> Span:
    """The numbers that an annotated integer or truth can be; `computed` has those of earlier statements' targets."""
    assert node.dtype is not None
    kind = Kind.LONG if node.dtype in (Dtype.i64, Dtype.u32) else Kind.SHORT

    def of(x: Expr) -> Span:
        return span(x, computed)

    match node:
        case Literal_():
            return Span(int(node.value), int(node.value), Kind.NUMBER)
        case Local() if node.id in computed:
            return computed[node.id]
        case Coord():
            return Span(0, LAST_COORDINATE, Kind.LONG)
        case Len():
            return Span(0, MOST_ELEMENTS, Kind.LONG)
        case _ if node.dtype is Dtype.bool:
            return Span(0, 1, Kind.SHORT)
        case Cast() if node.x.dtype is not None and not node.x.dtype.is_float:
            inner = of(node.x)
            low, high = (inner.low, inner.high) if inner.within(node.dtype.range) else node.dtype.range
            return Span(low, high, kind if node.explicit else max(inner.kind, kind))
        case Unary(op="-"):
            inner = of(node.x)
            return Span(-inner.high, -inner.low, inner.kind).settled()
        case Binary():
            return binary_span(node.op, of(node.left), of(node.right)).settled()
        case Call(body=body) if body is not None:
            return span(body, {**computed, **{name: of(x) for name, x in node.bound}})
        case Call(function="where", arguments=(_, one, other)):
            return _hull(of(one), of(other))
        case Call(function="minimum" | "maximum", arguments=(one, other)):
            pick, a, b = (min if node.function == "minimum" else max), of(one), of(other)
            return Span(pick(a.low, b.low), pick(a.high, b.high), max(a.kind, b.kind))
        case Call(function="relu", arguments=(x,)):
            inner = of(x)
            return Span(max(inner.low, 0), max(inner.high, 0), inner.kind)
        case Call(function="abs", arguments=(x,)):
            inner = of(x)
            least = 0 if inner.low <= 0 <= inner.high else min(abs(inner.low), abs(inner.high))
            return Span(least, max(abs(inner.low), abs(inner.high)), inner.kind).settled()
        case Reduce(function="sum") | Scan(function="cumsum"):
            return summed(of(node.x)).settled()
        case Reduce(function="prod") | Scan():
            return multiplied(of(node.x)).settled()
        case Reduce(function="argmax" | "argmin") | Select(function="argtopk"):
            return Span(0, LAST_COORDINATE, Kind.LONG)
        case Reduce(function="max" | "min") | Select():
            return of(node.x)
        case Reduce():
            return Span(*node.dtype.range, Kind.LONG)
    return Span(*node.dtype.range, kind)


def summed(x: Span) -> Span:
    """A sum along a mode, which torch makes in 64 bits."""
    return Span(min(0, x.low * MOST_ELEMENTS), max(0, x.high * MOST_ELEMENTS), Kind.LONG)


def multiplied(x: Span) -> Span:
    """A product along a mode, which torch makes in 64 bits."""
    return Span(*((-1, 1) if x.within((-1, 1)) else _I64), Kind.LONG)


def binary_span(op: str, a: Span, b: Span) -> Span:
    """The results of an operator on integers, as whole numbers that never wrap around."""
    kind = max(a.kind, b.kind)
    match op:
        case "+":
            return Span(a.low + b.low, a.high + b.high, kind)
        case "-":
            return Span(a.low - b.high, a.high - b.low, kind)
        case "*":
            corners = [x * y for x in (a.low, a.high) for y in (b.low, b.high)]
            return Span(min(corners), max(corners), kind)
        case "**":  # by a number, as that many factors
            power = Span(1, 1, a.kind)
            for _ in range(b.low):
                power = binary_span("*", power, a)
            return power
        case "//":
            if b.low > 0:
                corners = [x // y for x in (a.low, a.high) for y in (b.low, b.high)]
                return Span(min(corners), max(corners), kind)
            most = max(abs(a.low), abs(a.high))
            return Span(-most, most, kind)
        case "%":
            if a.low >= 0 and b.low > 0:
                return Span(0, min(a.high, b.high - 1), kind)
            return Span(min(0, b.low + 1), max(0, b.high - 1), kind)
        case "<<":
            if (b.low >= 0 and b.high < 64) or a.low == a.high == 0:
                most = max(0, min(b.high, 63))
                return Span(min(a.low << most, a.low), max(a.high << most, a.high), kind)
            return Span(*(_I32 if kind is Kind.SHORT else _I64), kind)
        case ">>" if b.low >= 0:
            corners = [x >> min(y, 63) for x in (a.low, a.high) for y in (b.low, b.high)]
            return Span(min(corners), max(corners), kind)
        case ">>":
            return Span(min(a.low, 0), max(a.high, -1), kind)
        case "&" if max(a.low, b.low) >= 0:
            return Span(0, min(x.high for x in (a, b) if x.low >= 0), kind)
        case "&" | "|" | "^":
            bits = max((x if x >= 0 else ~x).bit_length() for x in (a.low, a.high, b.low, b.high))
            return Span(0 if min(a.low, b.low) >= 0 else -(1 << bits), (1 << bits) - 1, kind)
    return Span(0, 1, Kind.SHORT)  # a comparison


def _hull(a: Span, b: Span) -> Span:
    return Span(min(a.low, b.low), max(a.high, b.high), max(a.kind, b.kind))
