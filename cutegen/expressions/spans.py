"""Along which modes the values of an expression differ."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute, Coord, Expr, Local, MatMul, Name, Reduce, Select

Spans = Mapping[str, frozenset[str]]
"""By name, of a tensor, a scalar or a local value: the modes that it has."""


def span(expr: Expr, spans: Spans) -> frozenset[str]:
    """The modes of an expression: those of all that it is computed from, without those that it is reduced along.

    Along any other mode it has one value, which broadcasts. A name that `spans` lacks has none, as a scalar.
    """
    match expr:
        case Name() | Local():
            return spans.get(expr.id, frozenset())
        case Coord():
            return frozenset([expr.mode])
        case MatMul():
            return spans[expr.a] ^ spans[expr.b]
        case Reduce():
            return span(expr.x, spans) - {expr.mode}
        case Select():
            return span(expr.x, spans) - {expr.mode} | {expr.kept}
    return frozenset().union(*(span(child, spans) for child in expr.children))


def spans_of(compute: Compute, tensors: Mapping[str, tuple[str, ...]]) -> dict[str, frozenset[str]]:
    """The modes of every tensor, by its shape, and of every target of the statements.

    What is assigned to a tensor stands for what was computed, which may have fewer modes than the tensor.
    """
    found = {name: frozenset(shape) for name, shape in tensors.items()}
    for statement in compute.statements:
        found[statement.target] = span(statement.value, found)
    return found
