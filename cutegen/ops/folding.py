"""Scores that are compared before they are scaled, and whose exponentials are powers of 2 of one multiply-add.

With `s = scores * factor`, where the factor is the same for the whole call, and `s` is used only in `m = max(s)` and in
`exp(s - m)`, a kernel needs no product for `s` alone. The largest `s` is the factor times the largest score, or the
smallest one if the factor is negative: to the bit, as rounding keeps order. Scores get the other sign where it is. Then
exp(s - m) is 2 to the power (scores - largest) * steep, with steep = |factor| * log2(e).
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Binary, Call, Expr, Literal_, Local, Name, Unary, walk
from cutegen.ops.neutral import joined, terms_of
from cutegen.ops.reach import Bound, bounds_of
from cutegen.ops.walked import Walked


@dataclass(frozen=True)
class Folded:
    """The statement `name` that scales scores by `factor`, and the maximum `largest` of what it gives."""

    name: str
    factor: Expr
    largest: str

    def is_exponential(self, node: Expr) -> bool:
        """Whether an expression is `exp(s - m)`."""
        match node:
            case Call(function="exp", arguments=(Binary(op="-", left=Local(id=x), right=Local(id=m)),)):
                return (x, m) == (self.name, self.largest)
        return False


def bounded_choice(found: Walked, known: Sequence[Bound], value: Expr) -> tuple[Expr, Expr] | None:
    """The condition and the value of `where(condition, value, -inf)`, where the condition holds in every place between
    the `known` bounds of the walked mode; None of anything else.
    """
    match value:
        case Call(function="where", arguments=(condition, x, Literal_(value=other))) if other == -math.inf:
            every = [tuple(bounds_of(found, one)) for one in joined(found.meant(condition))]
            return (condition, x) if all(own and {*own} <= {*known} for own in every) else None
    return None


def folded(found: Walked, known: Sequence[Bound], tensors: Collection[str]) -> Folded | None:
    """How scores can be scaled where their exponentials are computed, if `exp` is fast; None where statements do not
    allow it. `tensors` are the names of those: what has another name is a scalar.
    """
    maxima = [one for one in found.carried if one.function == "max"]
    if len(maxima) != 1:
        return None
    (largest,) = maxima
    scaled = largest.value
    typed = next((t for t in found.elements if isinstance(scaled, Local) and t.target == scaled.id), None)
    if typed is None:
        return None
    choice = bounded_choice(found, known, typed.value)
    factor = _factor(found, tensors, typed.value if choice is None else choice[1])
    if factor is None:
        return None
    made = Folded(typed.target, factor, largest.name)
    values = [t.value for t in found.elements if t.target != typed.target]
    values += [terms_of(one) for one in found.carried if one is not largest]
    outside = [node for value in values for node in _outside(made, value)]
    reads = {node.id for node in outside if isinstance(node, Local)}
    condition = () if choice is None else tuple(walk(choice[0]))
    reads |= {node.id for node in condition if isinstance(node, Local)}
    return None if reads & {made.name, made.largest, found.scores.name} else made


def _outside(made: Folded, node: Expr) -> Iterator[Expr]:
    """The parts of an expression that are not in its exponentials."""
    if made.is_exponential(node):
        return
    yield node
    for part in node.children:
        yield from _outside(made, part)


def _factor(found: Walked, tensors: Collection[str], value: Expr) -> Expr | None:
    """The factor of scores, if it is the same for the whole call."""
    match value:
        case Binary(op="*", left=Local(id=name), right=other) if name == found.scores.name:
            factor = other
        case Binary(op="*", left=other, right=Local(id=name)) if name == found.scores.name:
            factor = other
        case _:
            return None
    uniform = all(
        isinstance(node, Literal_ | Binary | Unary) or (isinstance(node, Name) and node.id not in tensors)
        for node in walk(factor)
    )
    return factor if uniform and factor.dtype is Dtype.f32 and value.dtype is Dtype.f32 else None
