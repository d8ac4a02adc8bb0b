"""The sides of `@`: tensors, alone or times a scale."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable

from cutegen.expressions.errors import ExpressionError, UntransposedError
from cutegen.expressions.tree import Expr, MatMul, Place, walk


def product(node: ast.BinOp, place: Callable[[ast.expr], Place]) -> MatMul:
    """`A @ B.T`, or `(A * sA) @ (B * sB).T`, of which either side may have no scale.

    Raises `ExpressionError` for other sides. `place` gives the columns of a part of the text.
    """
    b, left = node.right, _side(node.left)
    if left is None:
        help = "write it as `A @ B.T`, or with a scale for each block as `(A * sA) @ (B * sB).T`"
        raise ExpressionError("the left side of `@` must be a tensor", place(node.left), help)
    right = _side(b.value) if isinstance(b, ast.Attribute) and b.attr == "T" else None
    if right is None:
        names = (left[0].id, b.id) if isinstance(b, ast.Name) and left[1] is None else None
        raise UntransposedError(place(b), names)
    (x, by_x), (y, by_y) = left, right
    return MatMul(
        x.id,
        y.id,
        place(x),
        place(y),
        by_x.id if by_x else None,
        by_y.id if by_y else None,
        place(by_x) if by_x else Place(),
        place(by_y) if by_y else Place(),
        place=place(node),
    )


def normalised(statement: ast.stmt, value: Expr) -> str:
    """The text of a statement of this value. A scaled left side has the brackets that Python leaves out."""
    text = ast.unparse(statement)
    for node in walk(value):
        if isinstance(node, MatMul) and node.a_scale:
            text = re.sub(rf"\b{node.a} \* {node.a_scale} @", f"({node.a} * {node.a_scale}) @", text)
    return text


def _side(node: ast.expr) -> tuple[ast.Name, ast.Name | None] | None:
    """A side of `@` as a tensor and its scale, `A * sA`, or a tensor alone; None where it is neither."""
    match node:
        case ast.Name():
            return node, None
        case ast.BinOp(op=ast.Mult(), left=ast.Name() as tensor, right=ast.Name() as scale):
            return tensor, scale
    return None
