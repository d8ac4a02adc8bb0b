"""Which floats are elements of tensors, maybe divided and rounded: a compiler can know no bound of those.

Of other values it can: a square is never negative, and `abs(x) - 1` is at least -1.
"""

from __future__ import annotations

from collections.abc import Set

from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.tree import Binary, Call, Cast, Expr, Literal_, Local, MatMul, Name, Reduce


def is_element(node: Expr, uniform: Set[str]) -> bool:
    """Whether an annotated value is such a float; `uniform` has the names of earlier values that read no element."""
    match node:
        case Name(dtype=dtype):
            return dtype is not None and dtype.is_float
        case Cast(x=x):
            return is_element(x, uniform)
        case Call(function=function, arguments=(x,)) if function in TO_WHOLE:
            return is_element(x, uniform)
        case (
            Binary(op="/", left=x, right=divisor)
            | Binary(op="*", left=x, right=Binary(op="/", left=Literal_(), right=divisor))
        ):
            return is_element(x, uniform) and is_uniform(divisor, uniform)
    return False


def is_uniform(node: Expr, uniform: Set[str]) -> bool:
    """Whether an annotated value reads elements in reductions only, if at all."""
    match node:
        case Name() | MatMul():
            return False
        case Local():
            return node.id in uniform
        case Reduce():
            return True
    return all(is_uniform(x, uniform) for x in node.children)
