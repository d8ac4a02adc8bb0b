"""The part of the walked mode that a tile of rows reaches: conditions that are linear in coordinates bound it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from cutegen.expressions.tree import Binary, Cast, Coord, Expr, Len, Literal_, Name, Unary
from cutegen.language.model import KernelSpec
from cutegen.ops.neutral import conditions, excludes
from cutegen.ops.walked import Walked


@dataclass(frozen=True)
class Bound:
    """A place along the walked mode: `row` times the place of a row, plus the terms, each with a factor, plus `number`.
    Beyond the last place, or before the first one, nothing counts for that row.
    """

    last: bool
    row: int
    terms: tuple[tuple[Expr, int], ...]
    number: int


@dataclass
class _Linear:
    """A sum of coordinates, sizes and scalars, each with a factor, and of a number."""

    terms: dict[Expr, int]
    number: int = 0

    def added(self, other: _Linear, factor: int) -> _Linear:
        terms = dict(self.terms)
        for term, count in other.terms.items():
            terms[term] = terms.get(term, 0) + factor * count
        return _Linear({term: count for term, count in terms.items() if count}, self.number + factor * other.number)


def bounds(found: Walked) -> Iterator[Bound]:
    """The bounds that conditions set without which nothing of an element is left."""
    for condition in conditions(found):
        yield from bounds_of(found, condition)


def bounds_of(found: Walked, condition: Expr) -> Iterator[Bound]:
    """The bounds of a condition that holds in exactly the places that these leave, and without which nothing counts."""
    if isinstance(condition, Binary) and excludes(found, condition):
        yield from _bounds(condition, found)


def reached(found: Walked, sizes: Mapping[str, int], scalars: Mapping[str, int | float | bool]) -> int:
    """The pairs of a row and a place along the walked mode that no bound excludes, for these sizes and scalars.

    Bounds by elements of tensors are left out.
    """
    ends = {False: [(0, 0)], True: [(0, sizes[found.walked])]}  # first places, and those after the last ones
    for bound in bounds(found):
        rest = [_value(term, sizes, scalars) for term, _ in bound.terms]
        if None not in rest:
            terms = sum(
                factor * value for (_, factor), value in zip(bound.terms, rest, strict=True) if value is not None
            )
            ends[bound.last].append((bound.row, bound.number + terms + bound.last))
    total = 0
    for row in range(sizes[found.rows[0]]):
        first = max(factor * row + number for factor, number in ends[False])
        total += max(0, min(factor * row + number for factor, number in ends[True]) - first)
    return total


def _value(term: Expr, sizes: Mapping[str, int], scalars: Mapping[str, int | float | bool]) -> int | None:
    """The value of a size or a scalar; None of a tensor, which has several."""
    if isinstance(term, Len):
        return sizes[term.mode]
    assert isinstance(term, Name)
    return int(scalars[term.id]) if term.id in scalars else None


def _bounds(condition: Binary, found: Walked) -> Iterator[Bound]:
    if condition.op not in ("<", "<=", ">", ">=", "=="):
        return
    left, right = _linear(condition.left), _linear(condition.right)
    if left is None or right is None:
        return
    if condition.op in (">", ">="):
        left, right = right, left
    less = left.added(right, -1)  # is at most 0, or is 0
    less.number += condition.op in ("<", ">")
    walked, rows = Coord(found.walked), found.rows[0]
    own = {_key(term): count for term, count in less.terms.items()}
    factor = own.pop(_key(walked), 0)
    if abs(factor) != 1:
        return
    row = own.pop(_key(Coord(rows)), 0)
    rest = tuple((term, -factor * count) for term, count in less.terms.items() if _key(term) in own)
    if any(isinstance(term, Coord) for term, _ in rest):
        return
    bound = Bound(factor == 1, -factor * row, rest, -factor * less.number)
    yield bound
    if condition.op == "==":
        yield Bound(not bound.last, bound.row, bound.terms, bound.number)


def _key(term: Expr) -> tuple[str, str]:
    match term:
        case Coord(mode=mode):
            return "coord", mode
        case Len(mode=mode):
            return "len", mode
        case Name(id=name):
            return "name", name
    raise AssertionError(term)


def _linear(node: Expr) -> _Linear | None:
    """An integer as such a sum; None where it is none."""
    if node.dtype is None or not node.dtype.is_integer:
        return None
    match node:
        case Literal_():
            return _Linear({}, int(node.value))
        case Coord():
            return _Linear({Coord(node.mode, dtype=None): 1})
        case Len():
            return _Linear({Len(node.mode, dtype=None): 1})
        case Name():
            return _Linear({Name(node.id, dtype=None): 1})
        case Cast():
            return _linear(node.x)
        case Unary(op="-"):
            x = _linear(node.x)
            return None if x is None else _Linear({}).added(x, -1)
        case Binary(op="+" | "-", left=left, right=right):
            x, y = _linear(left), _linear(right)
            return None if x is None or y is None else x.added(y, 1 if node.op == "+" else -1)
        case Binary(op="*", left=left, right=right):
            x, y = _linear(left), _linear(right)
            if x is None or y is None or (x.terms and y.terms):
                return None
            number, other = (x.number, y) if not x.terms else (y.number, x)
            return _Linear({}).added(other, number)
    return None


def known_bounds(spec: KernelSpec, found: Walked) -> tuple[Bound, ...]:
    """The bounds of the walked mode that follow from sizes and scalars."""
    numbers = {s.name for s in spec.scalars if s.dtype.is_integer}
    return tuple(
        bound
        for bound in bounds(found)
        if all(not isinstance(term, Name) or term.id in numbers for term, _ in bound.terms)
    )
