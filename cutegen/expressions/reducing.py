"""Reductions that are made of others: what they come to.

Kernels and error bounds follow from these definitions. What a kernel is compared with, and a module's `reference`, have
torch's function of the same name instead, so that a definition which is not torch's is found.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, count

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.tree import Along, Binary, Call, Cast, Coord, Expr, Local, Name, Reduce, Typed, Unary, walk

_BEYOND = "2147483647"  # above all places
_LARGEST = "max(x, N)"

DEFINITIONS = {
    "any": "max(x != 0, N) > 0",
    "all": "min(x != 0, N) > 0",
    "argmax": f"min(where(x == max(x, N) or x != x, coord(N), {_BEYOND}), N)",
    "argmin": f"min(where(x == min(x, N) or x != x, coord(N), {_BEYOND}), N)",
    "std": "sqrt(var(x, N))",
    # above an infinity all others are NaN
    "logsumexp": f"where(abs({_LARGEST}) == inf, {_LARGEST}, {_LARGEST} + log(sum(exp(x - {_LARGEST}), N)))",
}
"""Reduction of x along N -> what it is. NaN is not 0, and differs from itself."""


@cache
def _typed(function: str, dtype: Dtype) -> Expr:
    """The definition of a reduction of values of a type, named `x`, along a mode named `N`."""
    compute = with_named_numbers(parse_compute(f"_ = {DEFINITIONS[function]}"), {"x"})
    return annotate(compute, {"x": dtype})[0].value


def defined(node: Reduce, x: Expr) -> Expr:
    """The definition of a reduction, in which `x`, of the same type, takes the place of the reduced value."""
    assert x.dtype is not None

    def put(part: Expr) -> Expr:
        match part:
            case Name():
                return x
            case Coord():
                return replace(part, mode=node.mode, place=node.place)
            case Reduce():
                return replace(part, x=put(part.x), mode=node.mode, place=node.place)
        return rebuilt(part, put)

    return put(_typed(node.function, x.dtype))


def rebuilt(node: Expr, part: Callable[[Expr], Expr]) -> Expr:
    """A node with other children: what `part` gives for each."""
    match node:
        case Unary() | Cast() | Along():
            return replace(node, x=part(node.x))
        case Binary():
            return replace(node, left=part(node.left), right=part(node.right))
        case Call():
            return replace(node, arguments=tuple(part(argument) for argument in node.arguments))
    return node


def without_definitions(statements: Sequence[Typed]) -> tuple[Typed, ...]:
    """The statements in which reductions with a definition are what they come to.

    What such a reduction goes over has a name, of a statement of its own, since the definition has it several times.
    """
    if not any(
        isinstance(node, Reduce) and node.function in (*DEFINITIONS, "var")
        for s in statements
        for node in walk(s.value)
    ):
        return tuple(statements)
    expander = _Expander(statements)
    for typed in statements:
        expander.add(typed)
    return tuple(expander.found)


class _Expander:
    """Makes the statements of `without_definitions`, one after the other."""

    def __init__(self, statements: Sequence[Typed]) -> None:
        self.found: list[Typed] = []
        self.taken = {typed.target for typed in statements}
        self.taken |= {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name | Local)}
        self.names: dict[Expr, Local] = {}

    def add(self, typed: Typed) -> None:
        self.names = {}  # an assignment changes what others mean
        value = self.put(typed.value)
        self.found.append(replace(typed, value=value, stored=_stored(typed, value)))

    def put(self, node: Expr) -> Expr:
        node = rebuilt(node, self.put)
        if isinstance(node, Reduce) and node.function == "var" and not _is_name(node.x):
            return replace(node, x=self.named(node.x))
        if isinstance(node, Reduce) and node.function in DEFINITIONS:
            return defined(node, node.x if _is_name(node.x) else self.named(node.x))
        return node

    def named(self, x: Expr) -> Local:
        if x not in self.names:
            numbered = (f"values_{number}" for number in count(1))
            name = next(name for name in chain(["values"], numbered) if name not in self.taken)
            self.taken.add(name)
            self.found.append(Typed(name, x, None))
            self.names[x] = Local(name, dtype=x.dtype, place=x.place)
        return self.names[x]


def _is_name(x: Expr) -> bool:
    """Whether an expression is a name, or that in a wider type."""
    return isinstance(x.x if isinstance(x, Cast) and not x.explicit else x, Name | Local)


def _stored(typed: Typed, value: Expr) -> Expr | None:
    """The stored form of a statement whose value became `value`: that itself, or that in the tensor's type."""
    stored = typed.stored
    if stored == typed.value:
        return value
    return replace(stored, x=value) if isinstance(stored, Cast) and stored.x == typed.value else stored
