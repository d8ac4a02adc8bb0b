"""Divisors by whose reciprocals kernels with fast functions multiply: scalars, and sums of exponentials."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Binary, Call, Expr, Local, Reduce, Typed, is_scalar
from cutegen.language.model import KernelSpec


def is_inverted(quotient: Binary, spec: KernelSpec, statements: Sequence[Typed]) -> bool:
    """Whether a kernel may multiply by the reciprocal of a divisor in f32."""
    if quotient.dtype is not Dtype.f32:
        return False
    scalar = spec.schedule.fast_elements and is_scalar(quotient.right, {one.name for one in spec.scalars})
    return scalar or (spec.schedule.fast_math and is_normalising(quotient.right, statements))


def is_normalising(divisor: Expr, statements: Sequence[Typed]) -> bool:
    """Whether a divisor is a sum of exponentials above the largest value: kernels with fast functions then multiply by
    its reciprocal.
    """
    values = {statement.target: statement.value for statement in statements}

    def meant(node: Expr) -> Expr:
        while isinstance(node, Local) and node.id in values:
            node = values[node.id]
        return node

    total = meant(divisor)
    one = meant(total.x) if isinstance(total, Reduce) and total.function == "sum" else None
    if not isinstance(one, Call) or one.function != "exp":
        return False
    below = meant(one.arguments[0])
    largest = meant(below.right) if isinstance(below, Binary) and below.op == "-" else None
    if not isinstance(below, Binary) or not isinstance(largest, Reduce) or largest.function != "max":
        return False
    return meant(below.left) == meant(largest.x)
