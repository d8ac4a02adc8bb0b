"""The numbers that a float can be, NaN apart, as an operation tells them of its operands'.

A compiler that knows that all numbers keep a comparison takes it for true, also of a NaN: ptxas leaves out the
comparisons `x * x >= 0` and `abs(x) + 1 > 0`. `Intervals.foresees` lists the comparisons that may be decided: those
that only ask for NaN.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import NamedTuple

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Coord,
    Expr,
    Len,
    Literal_,
    Local,
    MatMul,
    Name,
    Reduce,
    Scan,
    Select,
    Unary,
)


class Interval(NamedTuple):
    """The least and the largest number that a value can be; infinities are numbers here."""

    low: float
    high: float

    def __neg__(self) -> Interval:
        return Interval(-self.high, -self.low)

    def is_below(self, other: Interval, strictly: bool) -> bool:
        """Whether all its numbers are less than all of the other one, or equal to them if not `strictly`."""
        return self.high < other.low or (not strictly and self.high == other.low)


ALL = Interval(-math.inf, math.inf)
POSITIVE = Interval(0.0, math.inf)
UNIT = Interval(0.0, 1.0)
OPEN: Interval | None = None
"""No interval: nothing is known about the value."""

_RISING: dict[str, Callable[[float], float]] = {
    **{name: getattr(math, name) for name in ("exp", "expm1", "tanh", "sinh", "atan", "asinh", "erf")},
    **{"exp2": lambda x: 2.0**x, "round": round, "floor": math.floor, "ceil": math.ceil, "trunc": math.trunc},
    **{"relu": lambda x: max(x, 0.0), "sqrt": lambda x: math.sqrt(max(x, 0.0))},
    "sigmoid": lambda x: 1.0 / (1.0 + math.exp(-x)),
}
"""Function -> the same of an end of an interval. It may raise OverflowError, where its value is infinite."""
_RANGES = {"sin": Interval(-1.0, 1.0), "cos": Interval(-1.0, 1.0)}
_GATED = ("gelu", "gelu_tanh", "silu")  # x times a number from 0 to 1


class Intervals:
    """The intervals of annotated expressions, and of the local values that were told with `keep`.

    The modes `filled` have at least one element; others may have none, with -inf as their `max`.
    """

    def __init__(self, filled: Collection[str] = ()) -> None:
        self._filled = filled
        self._kept: dict[str, Interval | None] = {}

    def keep(self, name: str, value: Expr) -> None:
        """From now on `Local(name)` is this value."""
        self._kept[name] = self.of(value)

    def foresees(self, left: Expr, operator: BinaryOp, right: Expr) -> bool:
        """Whether a comparison of floats is true for all numbers."""
        x, y = self.of(left), self.of(right)
        if x is None or y is None:
            return False
        match operator:
            case "<" | "<=":
                return x.is_below(y, operator == "<")
            case ">" | ">=":
                return y.is_below(x, operator == ">")
            case "==":
                return x.is_below(y, False) and y.is_below(x, False)
        return False

    def are_around(self, node: Expr, number: float) -> bool:
        """Whether the numbers that a value can be surely lie on both sides of a number."""
        found = self.of(node)
        return found is not None and found.low < number < found.high

    def of(self, node: Expr) -> Interval | None:
        """The interval of a value, with ends that are rounded as the value is."""
        found = self._found(node)
        return found if found is None or node.dtype is Dtype.f64 else Interval(*map(_in_f32, found))

    def _found(self, node: Expr) -> Interval | None:
        if node.dtype is not None and not node.dtype.is_float:
            return _of_integer(node)
        match node:
            case Literal_(value=value):
                return OPEN if math.isnan(value) else Interval(float(value), float(value))
            case Name() | MatMul():
                return ALL
            case Local(id=name):
                return self._kept.get(name, OPEN)
            case Unary(op="-", x=x) if (found := self.of(x)) is not None:
                return -found
            case Binary():
                return self._of_operator(node)
            case Call(function="where", arguments=(condition, one, other)):
                return _joined(self._of_branch(one, condition, True), self._of_branch(other, condition, False))
            case Call(body=None):
                return self._of_function(node)
            case Call(body=body) if body is not None:
                for name, x in node.bound:
                    self.keep(name, x)
                return self.of(body)
            case Reduce():
                return self._of_reduction(node)
            case Scan(function="cumsum"):
                return self._of_reduction(Reduce("sum", node.x, node.mode))
            case Select(function="topk", x=x):
                return self.of(x)
            case Cast(x=x):
                return self.of(x)
        return OPEN

    def _of_branch(self, node: Expr, condition: Expr, holds: bool) -> Interval | None:
        """The interval of a value where a condition holds, or does not: `x` of `where(x < 1, 1, x)` is at least 1."""
        found = self.of(node)
        if found is None or not isinstance(condition, Binary) or node not in condition.children:
            return found
        is_less = condition.op in ("<", "<=")
        if not is_less and condition.op not in (">", ">="):
            return found
        other = condition.right if node == condition.left else condition.left
        if not holds and may_be_nan(other):  # beside a NaN the condition does not hold for any number
            return found
        limit = self.of(other)
        if limit is None:
            return OPEN
        is_at_most = (is_less == (node == condition.left)) == holds
        if is_at_most:
            return Interval(found.low, min(found.high, limit.high))
        return Interval(max(found.low, limit.low), found.high)

    def _of_operator(self, node: Binary) -> Interval | None:
        x, y = self.of(node.left), self.of(node.right)
        if x is None or y is None:
            return OPEN
        match node.op:
            case "+":
                return _sum(x, y)
            case "-":
                return _sum(x, -y)
            case "*":
                is_square = _in_order(node.left) == _in_order(node.right)
                return _power(x, 2) if is_square else _product(x, y)
            case "/" if y.low > 0 or y.high < 0 or (y.low == 0 and _is_absolute(node.right)):
                return _product(x, Interval(1.0 / y.high, 1.0 / y.low if y.low else math.inf))
            case "/":
                return ALL
            case "**" if isinstance(node.right, Literal_):
                return _power(x, int(node.right.value))
        return OPEN

    def _of_function(self, node: Call) -> Interval | None:
        if node.function in _RANGES:
            return _RANGES[node.function]
        found = [self.of(x) for x in node.arguments]
        known = [x for x in found if x is not None]
        if len(known) < len(found):
            return OPEN
        x = known[0]
        match node.function:
            case "rsqrt":  # of -0 it is -inf
                return POSITIVE if x.low > 0 or _is_absolute(node.arguments[0]) else ALL
            case "abs":
                return x if x.low >= 0 else -x if x.high <= 0 else Interval(0.0, max(-x.low, x.high))
            case "minimum":
                return Interval(min(one.low for one in known), min(one.high for one in known))
            case "maximum":
                return Interval(max(one.low for one in known), max(one.high for one in known))
            case function if function in _GATED:
                return _product(x, UNIT)
            case function if function in _RISING:
                return Interval(*(_rising(function, end) for end in x))
        return OPEN

    def _of_reduction(self, node: Reduce) -> Interval | None:
        x = self.of(node.x)
        match node.function:
            case "max" | "min" if x is not None and node.mode not in self._filled:
                return Interval(-math.inf, x.high) if node.function == "max" else Interval(x.low, math.inf)
            case "max" | "min" | "mean":  # the mean of no elements is NaN
                return x
            case "sum" if x is not None:
                return Interval(0.0 if x.low >= 0 else -math.inf, 0.0 if x.high <= 0 else math.inf)
            case "var" | "std":
                return POSITIVE
        return OPEN


def may_be_nan(node: Expr) -> bool:
    """Whether a float is neither a number of the spec nor an integer before."""
    if isinstance(node, Cast):
        return may_be_nan(node.x)
    is_float = node.dtype is None or node.dtype.is_float
    return is_float and not (isinstance(node, Literal_) and not math.isnan(node.value))


def _of_integer(node: Expr) -> Interval:
    if isinstance(node, Literal_):
        return Interval(float(node.value), float(node.value))
    if isinstance(node, Coord | Len):
        return POSITIVE
    assert node.dtype is not None
    low, high = node.dtype.range
    return Interval(float(low), float(high))


def _in_f32(number: float) -> float:
    try:
        return float(struct.unpack("f", struct.pack("f", number))[0])
    except OverflowError:
        return math.copysign(math.inf, number)


def _in_order(node: Expr) -> Expr:
    """A value with the operands of its sums and products in one order: `x + 1` for `1 + x`."""
    if isinstance(node, Binary):
        sides = [_in_order(x) for x in node.children]
        left, right = sorted(sides, key=repr) if node.op in ("+", "*") else sides
        return replace(node, left=left, right=right)
    return node


def _joined(x: Interval | None, y: Interval | None) -> Interval | None:
    return OPEN if x is None or y is None else Interval(min(x.low, y.low), max(x.high, y.high))


def _sum(x: Interval, y: Interval) -> Interval:
    low, high = x.low + y.low, x.high + y.high
    return Interval(-math.inf if math.isnan(low) else low, math.inf if math.isnan(high) else high)


def _product(x: Interval, y: Interval) -> Interval:
    ends = [0.0 if 0.0 in (one, other) else one * other for one in x for other in y]
    return Interval(min(ends), max(ends))


def _is_absolute(node: Expr) -> bool:
    """Whether a value plainly has no sign: it is never -0."""
    match node:
        case Call(function="abs" | "exp" | "exp2"):
            return True
        case Binary(op="*"):
            return _in_order(node.left) == _in_order(node.right)
        case Binary(op="**", right=Literal_(value=exponent)):
            return exponent % 2 == 0
        case Reduce(function="sum" | "max" | "min" | "mean", x=x):
            return _is_absolute(x)
    return False


def _power(x: Interval, exponent: int) -> Interval:
    ends = [_raised(end, exponent) for end in x]
    return Interval(0.0 if exponent % 2 == 0 and x.low < 0 < x.high else min(ends), max(ends))


def _raised(end: float, exponent: int) -> float:
    try:
        return float(end**exponent)
    except OverflowError:
        return math.copysign(math.inf, end) if exponent % 2 else math.inf


def _rising(function: str, end: float) -> float:
    try:
        return float(_RISING[function](end))
    except OverflowError:  # of a whole number, or of an exponential
        return 0.0 if function == "sigmoid" else end if math.isinf(end) else math.copysign(math.inf, end)
