"""Conditions that exclude elements from sums and maxima along the walked mode: these are neutral where one is false.

A term that is 0, and a score that is minus infinity, may be left out. That 0 times an infinity or NaN of the inputs is
NaN does not count here: the language leaves it open for what a condition excludes. But 0 times an infinity that the
statements themselves put there is NaN for every element that is excluded.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping

from cutegen.expressions.functions import function_of
from cutegen.expressions.tree import Binary, Call, Cast, Expr, Literal_, Local, Unary, walk
from cutegen.ops.walked import Carried, Walked

_AT_LEAST = {"exp": 0.0, "exp2": 0.0, "sigmoid": 0.0, "relu": 0.0, "silu": 0.0}  # of minus infinity
Known = Mapping[Expr, float | bool]


def conditions(found: Walked) -> Iterator[Expr]:
    """The conditions of all choices among elements of scores, those that `and` joins each alone, as they are meant."""
    seen: list[Expr] = []
    for typed in found.elements:
        for node in walk(found.meant(typed.value)):
            if isinstance(node, Call) and node.function == "where":
                seen += [one for one in joined(node.arguments[0]) if one not in seen]
    for one in found.carried:
        for node in walk(found.meant(one.value if one.product is None else one.product.factor or one.value)):
            if isinstance(node, Call) and node.function == "where":
                seen += [each for each in joined(node.arguments[0]) if each not in seen]
    yield from seen


def joined(condition: Expr) -> Iterator[Expr]:
    """The conditions that must all hold for one to hold."""
    if isinstance(condition, Binary) and condition.op == "and":
        for side in condition.children:
            yield from joined(side)
    else:
        yield condition


def excludes(found: Walked, condition: Expr) -> bool:
    """Whether an element may be left out of all that is carried where a condition does not hold."""
    return _is_neutral(found, {condition: False}, {})


def excluding_name(found: Walked) -> str | None:
    """The first element statement whose value, where it is minus infinity, excludes the element; None if none does.

    Of an element that does not exist, the products that the statement follows from may be NaN: nothing else may use
    them.
    """
    for typed in found.elements:
        if (
            typed.value.dtype is not None
            and typed.value.dtype.is_float
            and _is_neutral(found, {}, {typed.target: -math.inf})
        ):
            return typed.target
    return None


def _is_neutral(found: Walked, known: Known, named: Mapping[str, float]) -> bool:
    for one in found.carried:
        value = one.value if one.product is None else one.product.factor
        assert value is not None
        if _value(found, value, known, named) != (-math.inf if one.function == "max" else 0.0):
            return False
    return True


def _value(found: Walked, node: Expr, known: Known, named: Mapping[str, float]) -> float | bool | None:
    """The value of an expression of an element, where it follows; an unknown one counts as a finite number."""

    def of(x: Expr) -> float | bool | None:
        return _value(found, x, known, named)

    def is_finite(unknown: Expr) -> bool:
        """Whether an expression without a known value is not computed of what is infinite, or may be NaN."""
        own = {name for one in named for name in _products_of(found, Local(one))}
        return not _used(found, unknown, named) & {*named, *own}

    if isinstance(node, Local):
        if node.id in named:
            return named[node.id]
        carried = node.id in {one.name for one in found.products} | {one.name for one in found.carried}
        return None if carried else of(found.definitions[node.id])
    if (meant := found.meant(node)) in known:
        return known[meant]
    match node:
        case Literal_():
            return node.value
        case Cast() if node.dtype is not None and node.dtype.is_float:
            return of(node.x)
        case Unary(op="-"):
            x = of(node.x)
            return None if x is None else -x
        case Binary(op="and"):
            sides = [of(side) for side in node.children]
            return False if False in sides else True if sides == [True, True] else None
        case Binary(op="+" | "-", left=left, right=right):
            x, y = of(left), of(right)
            y = -y if node.op == "-" and y is not None else y
            if x is None or y is None:
                one, other = (y, left) if x is None else (x, right)
                return one if one is not None and math.isinf(one) and is_finite(other) else None
            return _number(x + y)
        case Binary(op="*", left=left, right=right):
            x, y = of(left), of(right)
            if x is None or y is None:
                one, other = (y, left) if x is None else (x, right)
                return 0.0 if one == 0 and is_finite(other) else None
            return _number(x * y)
        case Binary(op="/", left=left, right=right):
            y = of(right)
            return 0.0 if of(left) == 0 and (is_finite(right) if y is None else y != 0) else None
        case Call(function="where", arguments=(condition, one, other)):
            holds = of(condition)
            if holds is not None:
                return of(one if holds else other)
            x, y = of(one), of(other)
            return x if x == y else None
        case Call(function=function, arguments=(x,)) if function in _AT_LEAST and function_of(function):
            return _AT_LEAST[function] if of(x) == -math.inf else None
    return None


def _number(x: float) -> float | None:
    return None if math.isnan(x) else x


def _products_of(found: Walked, node: Expr) -> set[str]:
    """The products of two tensors that an expression follows from."""
    return _used(found, node, {}) & {one.name for one in found.products}


def _used(found: Walked, node: Expr, named: Mapping[str, float]) -> set[str]:
    """The names that an expression is computed of, down to products, to what is carried and to named values."""
    ends = {one.name for one in found.products} | {one.name for one in found.carried} | {*named}
    used, waiting = set[str](), [node]
    while waiting:
        for part in walk(waiting.pop()):
            if isinstance(part, Local) and part.id not in used:
                used.add(part.id)
                if part.id not in ends:
                    waiting.append(found.definitions[part.id])
    return used


def terms_of(one: Carried) -> Expr:
    """The term of a sum, or the value whose largest is taken, for each element of the scores."""
    if one.product is None:
        return one.value
    assert one.product.factor is not None
    return one.product.factor
