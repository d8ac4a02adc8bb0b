"""Statements of `compute` as sums: every name stands for what was computed, down to tensors and scalars."""

from __future__ import annotations

import math
from collections.abc import Mapping
from fractions import Fraction

from cutegen.expressions.parsing import parse
from cutegen.expressions.sums import (
    Atom,
    NoForm,
    Sum,
    add,
    call,
    indicator,
    named,
    number,
    of,
    power,
    reduced,
    scaled,
    times,
)
from cutegen.expressions.tree import Binary, Call, Cast, Coord, Expr, Len, Literal_, MatMul, Reduce, Scan, Select, Unary


def sum_of(
    expr: Expr, values: Mapping[str, Sum], *, modes: Mapping[str, str] | None = None, truths: bool = False
) -> Sum:
    """An expression as a sum; `values` are those of its names, and `modes` are other names for its modes.

    With `truths`, `where(c, 1, 0)` is a truth's number.
    """
    modes = modes or {}

    def read(node: Expr) -> Sum:
        match node:
            case Literal_(value=value):
                return number(value) if math.isfinite(value) else of(named(str(value)))
            case Coord():
                mode = modes.get(node.mode, node.mode)
                return of(Atom("coord", mode, modes=frozenset([mode])))
            case Len():
                return of(Atom("size", modes.get(node.mode, node.mode)))
            case Unary(op="-"):
                return scaled(read(node.x), -1)
            case Unary():
                return call(node.op, [read(node.x)])
            case Binary():
                return _binary(node, read(node.left), read(node.right))
            case Call():
                return _call(node.function, [read(argument) for argument in node.arguments], truths)
            case Reduce():
                return reduced(node.function, read(node.x), modes.get(node.mode, node.mode))
            case Scan() | Select():
                raise NoForm(f"`{node.function}` is not a sum of products")
            case Cast():
                assert node.dtype is not None
                return of(Atom("call", f"cast {node.dtype.value}", (read(node.x),)))
            case MatMul():
                return call("@", [values[node.a], values[node.b]])
        return values[node.id]

    return read(expr)


def sum_of_text(text: str, values: Mapping[str, Sum]) -> Sum:
    """A text of the language as a sum, in which `where(c, 1, 0)` is a truth's number."""
    return sum_of(parse(f"_ = {text}").value, values, truths=True)


def _binary(node: Binary, left: Sum, right: Sum) -> Sum:
    match node.op:
        case "+":
            return add(left, right)
        case "-":
            return add(left, scaled(right, -1))
        case "*":
            return times(left, right)
        case "/":
            return times(left, power(right, -1))
        case "**" if isinstance(node.right, Literal_):
            return power(left, int(node.right.value))
    return call(node.op, [left, right])


def _call(function: str, arguments: list[Sum], truths: bool) -> Sum:
    values = [argument.number for argument in arguments[1:]]
    if truths and function == "where" and values in ([Fraction(1), Fraction(0)], [Fraction(0), Fraction(1)]):
        return indicator(arguments[0], values[0] == 1)
    return call(function, arguments)
