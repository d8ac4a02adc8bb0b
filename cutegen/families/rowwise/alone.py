"""Sums with a single nonzero term: `sum(where(coord(N) == k, A, 0), N)` is A at place k, or 0.

That element is read by itself: no thread compares the places of all that it has, and adds up zeros.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from cutegen.dtypes import Dtype
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.tree import Binary, Call, Cast, Coord, Expr, Literal_, Local, Name, Scan, walk
from cutegen.families.rowwise.online import Seen

READABLE = (Dtype.bf16, Dtype.f16, Dtype.f32, Dtype.f64)


@dataclass(frozen=True)
class Alone:
    """The element that a sum has alone: at `place` of its row it is `value`, which needs the tensors `reads` there."""

    place: Expr
    value: Expr
    reads: tuple[Name, ...]


def alone_in(summed: Expr, seen: Seen, readable: Collection[str], along: Callable[[Expr], bool]) -> Alone | None:
    """The only element that a sum of `summed` has; None where it has others, or needs tensors that are not read anyway.

    `readable` names the tensors along the rows, which nothing writes; `along` says whether an expression is one of each
    element.
    """
    chosen = seen.meant(summed)
    if not isinstance(chosen, Call) or chosen.function != "where" or not _is_zero(chosen.arguments[2]):
        return None
    place, value = _place(seen.meant(chosen.arguments[0]), seen.row, along), _written_out(chosen.arguments[1], seen)
    reads = {node for node in walk(value) if isinstance(node, Name) and along(node)}
    anyway = {
        node.id for one in seen.reductions for node in walk(_written_out(one.value, seen)) if isinstance(node, Name)
    }
    anyway &= {*readable}
    if any(isinstance(node, Scan) for node in walk(value)):  # which other elements decide, too
        return None
    if place is None or not reads or any(node.id not in anyway or node.dtype not in READABLE for node in reads):
        return None
    return Alone(place, value, tuple(sorted(reads, key=lambda node: node.id)))


def is_there(one: Alone, row: str) -> Expr:
    """The condition that a row has that place."""
    size = Name(row, dtype=Dtype.i32)
    low = Binary(">=", one.place, Literal_(0, dtype=Dtype.i32), dtype=Dtype.bool)
    return Binary("and", low, Binary("<", one.place, size, dtype=Dtype.bool), dtype=Dtype.bool)


def at_place(one: Alone, row: str, values: dict[str, Local], there: Local) -> Expr:
    """The value of that element, of `values` by the names of their tensors; 0 if the row has none, as these are."""

    def put(node: Expr) -> Expr:
        if isinstance(node, Name) and node.id in values:
            return values[node.id]
        return one.place if isinstance(node, Coord) and node.mode == row else rebuilt(node, put)

    value = put(one.value)
    zero = Literal_(0.0, dtype=value.dtype)
    if not isinstance(value.x if isinstance(value, Cast) else value, Local):
        value = Call("where", (there, value, zero), dtype=value.dtype, place=value.place)
    return Binary("+", value, zero, dtype=value.dtype, place=value.place)  # a sum is never -0


def _place(condition: Expr, row: str, along: Callable[[Expr], bool]) -> Expr | None:
    """The number of the whole row, of 32 bits, that a condition says a place of it is; None for any other one."""
    if not isinstance(condition, Binary) or condition.op != "==":
        return None
    for place, number in ((condition.left, condition.right), (condition.right, condition.left)):
        if isinstance(place, Coord) and place.mode == row and number.dtype is Dtype.i32 and not along(number):
            return number
    return None


def _written_out(value: Expr, seen: Seen) -> Expr:
    """A value of each element without the names of others."""
    if isinstance(value, Local) and value.id in seen.elements:
        return _written_out(seen.elements[value.id], seen)
    return rebuilt(value, lambda part: _written_out(part, seen))


def _is_zero(node: Expr) -> bool:
    return _is_zero(node.x) if isinstance(node, Cast) else isinstance(node, Literal_) and node.value == 0
