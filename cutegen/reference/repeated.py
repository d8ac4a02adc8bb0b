"""Expressions that a spec's statements have more than once: each is evaluated for the first of them only."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from types import MappingProxyType

from cutegen.expressions.tree import Call, Cast, Coord, Expr, Len, Literal_, Local, Name, Typed, walk
from cutegen.reference.rounding import Bounded

Repeats = Mapping[int, tuple[str, int]]
"""By the identity of a node, the text of what it computes, and how often that is asked for."""

NONE: Repeats = MappingProxyType({})


def repeats(statements: Sequence[Typed]) -> Repeats:
    """The nodes of these statements, which must be kept meanwhile, that compute what another one does.

    Those are left out that take no time, and those of functions that are defined by others, in whose definitions a
    name stands for other values each time.
    """
    if len({statement.target for statement in statements}) < len(statements):
        return NONE
    found: dict[int, str] = {}
    count: Counter[str] = Counter()

    def visit(node: Expr) -> None:
        if _costs(node) and not any(isinstance(one, Call) and one.body is not None for one in walk(node)):
            text = found[id(node)] = repr(node)
            count[text] += 1
            if count[text] > 1:  # what is below it is not asked for again
                return
        for child in node.children:
            visit(child)

    for statement in statements:
        visit(statement.value)
    return {node: (text, count[text]) for node, text in found.items() if count[text] > 1}


def _costs(node: Expr) -> bool:
    """Whether what a node computes takes time."""
    single = node.x if isinstance(node, Cast) else node
    return not isinstance(single, Literal_ | Name | Local | Coord | Len)


class Kept:
    """Values computed for nodes in `repeats`, each kept until it was asked for as often as it will be."""

    def __init__(self, repeats: Repeats) -> None:
        self._repeats = repeats
        self._values: dict[str, tuple[Bounded, int]] = {}

    def get(self, node: Expr) -> Bounded | None:
        """The value computed for a node of the same text, if it is kept; counts as one request."""
        text, _ = self._repeats.get(id(node), ("", 0))
        if text not in self._values:
            return None
        value, left = self._values.pop(text)
        if left > 1:
            self._values[text] = value, left - 1
        return value

    def put(self, node: Expr, value: Bounded) -> Bounded:
        """Keeps what was computed for a node if that is asked for again, unless autograd follows it."""
        text, count = self._repeats.get(id(node), ("", 0))
        if count and not value.value.requires_grad:
            self._values[text] = value, count - 1
        return value
