"""Which modes the rows of a kernel have, and which of its reductions go over the rows instead of along them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import lru_cache

from cutegen.expressions.selecting import kept_modes
from cutegen.expressions.tree import Assignment, Compute, Coord, Expr, MatMul, Name, Reduce, along, reductions, uses
from cutegen.language.model import Tensor
from cutegen.language.tensor import with_elements

OVER_ROWS = ("sum", "mean", "max", "min", "prod")
"""Reductions that also go over all rows: blocks make parts of them."""


def leading(tensors: Iterable[Tensor], compute: Compute) -> Tensor | None:
    """The first tensor that has all modes of all tensors' elements, if there is one that is not taken at places. Those
    of what selections keep are no modes that a kernel walks.
    """
    tensors = tuple(tensors)
    every = {mode for tensor in with_elements(tensors) for mode in tensor.modes} - {*kept_modes(compute)}
    return next((t for t in tensors if not t.at and len(t.shape) == len(every) and every == {*t.shape}), None)


def row_modes(compute: Compute, tensors: Iterable[Tensor]) -> tuple[str, ...]:
    """The modes of a row, in the order of the leading tensor: those that reductions go along whose results are used
    again, or that are all that is computed of a row. A scan goes along the row's only mode.

    Where nothing is used again, and nothing goes along the mode along which the leading tensor is contiguous, it is
    that one.
    """
    lead = leading(tensors, compute)
    assert lead is not None
    return _row_modes(compute, lead.shape, lead.contiguous)


@lru_cache(maxsize=64)
def _row_modes(compute: Compute, shape: tuple[str, ...], contiguous: str) -> tuple[str, ...]:
    """The modes of a row, as `row_modes` has them, by the shape of the leading tensor."""
    for node in (node for value in compute.values for node in along(value)):
        if not isinstance(node, Reduce):
            return (node.mode,)
    for statement in compute.statements:
        last = outermost(statement)
        inner = last[-1].x if last else statement.value
        for reduction in reductions(inner):
            return _in_order(_modes_of(reduction), shape)
        if not last:
            continue
        modes = _modes_of(next(one for one in last if one.nested[-1] is last[-1]))
        used = is_used(statement, compute) or last[-1].function not in OVER_ROWS
        if used or (len(modes) > 1 and contiguous in modes):
            return _in_order(modes, shape)
    return (contiguous,)


def _modes_of(reduction: Reduce) -> set[str]:
    return {one.mode for one in reduction.nested}


def _in_order(modes: set[str], shape: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(mode for mode in shape if mode in modes)


def chains(node: Expr) -> Iterator[Reduce]:
    """The reductions of an expression, of those that are one over several modes the outermost."""
    if isinstance(node, Reduce):
        yield node
        node = node.nested[-1]
    for child in node.children:
        yield from chains(child)


def outermost(statement: Assignment) -> tuple[Reduce, ...]:
    """The reductions that a statement ends with, outer ones first: both of `s = sum(sum(x, M), B)`.

    A statement also ends with those that it adds to what its target was, as `s = s + sum(x, M)` does.
    """
    found: list[Reduce] = []
    node: Expr = statement.value
    if statement.target in statement.names() and not isinstance(node, Reduce):
        node = _added(statement) or node
    while isinstance(node, Reduce):
        found.append(node)
        node = node.x
    return tuple(found)


def _added(statement: Assignment) -> Reduce | None:
    """The only reduction of a statement that is otherwise made of its target's old value and of numbers."""
    rest, found = [statement.value], []
    while rest:
        node = rest.pop()
        if isinstance(node, Reduce):
            found.append(node)
        elif isinstance(node, Coord | MatMul) or isinstance(node, Name) and node.id != statement.target:
            return None
        else:
            rest += node.children
    same = found and all(other == found[0] for other in found) and statement.target not in _names_in(found[0])
    return found[0] if same else None


def _names_in(node: Expr) -> set[str]:
    """The names that are read in an expression."""
    return {name for name, _ in uses(node)}


def is_used(statement: Assignment, compute: Compute) -> bool:
    """Whether another statement reads what one assigns to."""
    others = (other for other in compute.statements if other is not statement)
    return any(statement.target in other.names() for other in others)


def over_rows(statement: Assignment, row: tuple[str, ...]) -> tuple[Reduce, ...]:
    """The reductions over the rows, outer ones first, that a statement ends with; none where it ends with another.

    `row` has the modes of a row, and those of what is kept of one.
    """
    found = outermost(statement)
    over = all(reduction.mode not in row and reduction.function in OVER_ROWS for reduction in found)
    return found if found and over else ()
