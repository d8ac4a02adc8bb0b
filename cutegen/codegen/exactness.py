"""Which values every right kernel computes alike."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from cutegen.dtypes import Dtype
from cutegen.expressions.functions import TO_WHOLE
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Local, MatMul, Reduce
from cutegen.expressions.tree import Scan

# Functions without a rounding error: they give one of their arguments, its size or a whole number near it
_SELECTIONS = ("where", "minimum", "maximum", "relu", "abs", *TO_WHOLE)
NARROW = (Dtype.f16, Dtype.bf16, Dtype.f8e4m3, Dtype.f8e5m2)
_SINGLE = (Dtype.f32, *NARROW)  # types whose numbers f32 holds


def is_exact(node: Expr, local_values: Collection[str] = ()) -> bool:
    """Whether every right kernel computes the same value: each step is exact, or converts what is exact.

    A sum or product of floats is not, as it may become one fma with what is around it. `local_values` are the targets
    of earlier statements that are known to be exact.
    """
    match node:
        case MatMul():
            return False
        case Local():
            return node.id in local_values
        case Cast(x=x):
            if _of(node) in NARROW and _of(x) not in _SINGLE:  # by way of f32, which may round as well
                return False
        case Binary(op="+" | "-" | "*" | "/" | "**") if _of(node).is_float:
            return False
        case Call() if node.body is not None:
            arguments = all(is_exact(x, local_values) for x in node.arguments)
            return arguments and is_exact(node.body, _inside(node, local_values))
        case Call(function=name) if name not in _SELECTIONS:
            return False
        case Reduce() if node.function in ("sum", "mean", "prod", "var") and _of(node).is_float:
            return False  # the order may decide what comes
        case Scan() if _of(node).is_float:
            return False
    return all(is_exact(child, local_values) for child in node.children)


def inexact(node: Expr, local_values: Collection[str]) -> Iterator[Expr]:
    """All parts of an expression, and of the definitions of its functions, that are not exact."""
    if is_exact(node, local_values):
        return
    yield node
    if isinstance(node, Call) and node.body is not None:
        yield from inexact(node.body, _inside(node, local_values))
    for child in node.children:
        yield from inexact(child, local_values)


def _inside(node: Call, local_values: Collection[str]) -> frozenset[str]:
    """The values that are known exactly in the body of a function: those, and its exact arguments."""
    return frozenset(local_values) | {name for name, x in node.bound if is_exact(x, local_values)}


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
