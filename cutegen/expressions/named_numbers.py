"""Numbers that have names: infinity and what is no number."""

from __future__ import annotations

import math
from collections.abc import Collection
from dataclasses import replace

from cutegen.expressions.tree import Along, Binary, Call, Cast, Compute, Expr, Literal_, Name, Unary

NAMED_NUMBERS = {"inf": math.inf, "nan": math.nan}


def with_named_numbers(compute: Compute, declared: Collection[str]) -> Compute:
    """The statements with numbers in place of names, except the names in `declared`, which mean something else: a
    tensor, a scalar, a value that a statement computes.
    """
    names = {name: value for name, value in NAMED_NUMBERS.items() if name not in declared}

    def named(node: Expr) -> Expr:
        match node:
            case Name() if node.id in names:
                return Literal_(names[node.id], place=node.place)
            case Unary() | Cast() | Along():
                return replace(node, x=named(node.x))
            case Binary():
                return replace(node, left=named(node.left), right=named(node.right))
            case Call():
                return replace(node, arguments=tuple(map(named, node.arguments)))
        return node

    statements = (replace(statement, value=named(statement.value)) for statement in compute.statements)
    return replace(compute, statements=tuple(statements))
