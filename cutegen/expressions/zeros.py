"""The values that are 0 for all arguments of a kernel."""

from __future__ import annotations

import math
from collections.abc import Callable

from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.tree import Binary, Call, Cast, Expr, Literal_, Local, Unary, walk
from cutegen.expressions.widths import Span, span

_OF_ZERO = frozenset({"abs", "relu", "sqrt", "tanh", "gelu", "gelu_tanh", "silu", *TO_WHOLE})  # functions that leave 0


def is_zero(node: Expr, held: Callable[[Expr], Expr]) -> bool:
    """Whether an annotated expression is plainly 0 or -0; `held` gives what a local value stands for."""
    node = held(node)

    def zero(x: Expr) -> bool:
        return is_zero(x, held)

    match node:
        case Literal_():
            return node.value == 0
        case Unary(op="-") | Cast():
            return zero(node.x)
        case Binary(op="+"):
            return zero(node.left) and zero(node.right)
        case Binary(op="-"):
            whole = node.dtype is not None and not node.dtype.is_float
            return (whole and node.left == node.right) or (zero(node.left) and zero(node.right))
        case Binary(op="*"):
            return _is_product_zero(node, zero)
        case Binary(op="/"):
            return zero(node.left) and isinstance(node.right, Literal_) and node.right.value != 0
        case Binary(op="**"):
            return zero(node.left)
        case Binary(op="^") if node.left == node.right:
            return True
        case Call(function="where", arguments=(_, one, other)):
            return zero(one) and zero(other)
        case Call(function="minimum" | "maximum"):
            return all(map(zero, node.arguments))
        case Call(function=function) if function in _OF_ZERO:
            return zero(node.arguments[0])
    if node.dtype is None or not node.dtype.is_integer:
        return False
    number = span(node, _spans(node, held))
    return number.low == number.high == 0


def _spans(node: Expr, held: Callable[[Expr], Expr]) -> dict[str, Span]:
    """Maps each integer local value in an integer expression to the range of numbers that it can be."""
    found: dict[str, Span] = {}
    for part in walk(node):
        if isinstance(part, Local) and (value := held(part)) is not part and not _is_float(value):
            found[part.id] = span(value, _spans(value, held))
    return found


def _is_float(node: Expr) -> bool:
    return node.dtype is None or node.dtype.is_float


def _is_product_zero(node: Binary, zero: Callable[[Expr], bool]) -> bool:
    """Whether a product is 0: one side is, and the other one is no infinity or NaN."""
    if node.dtype is not None and not node.dtype.is_float:
        return zero(node.left) or zero(node.right)
    pairs = ((node.left, node.right), (node.right, node.left))
    return any(zero(x) and (zero(y) or (isinstance(y, Literal_) and math.isfinite(y.value))) for x, y in pairs)
