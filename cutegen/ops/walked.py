"""The statements of a contraction as a kernel computes them that walks one mode: what is multiplied, what is computed
of each element of a tile of scores, what is carried from tile to tile, and what follows at the end.

A product of two tensors gives scores, and there may be more of them with an element for each score. The mode that only
their right sides have is walked. Sums and maxima along that mode are carried: a sum of terms with the factor
`exp(x - max(x, N))` is kept relative to the largest x so far, and is multiplied by the exponential of the difference
when that grows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.tree import Expr, Local, Typed, walk


@dataclass(frozen=True)
class Product:
    """A sum of products along `mode`: of two tensors, or of what was computed of scores, `factor`, and a tensor."""

    name: str
    a: str  # the tensor on the left; empty where it is computed
    b: str
    mode: str
    factor: Expr | None = None


@dataclass(frozen=True)
class Carried:
    """A maximum or a sum along the walked mode. `product` is set where the sum has a value for each element of a row of
    the tensor on the right; `above` is the maximum that its terms are exponentials above, None where they are not.
    """

    name: str
    function: Literal["max", "sum"]
    value: Expr
    above: str | None = None
    product: Product | None = None


@dataclass(frozen=True)
class Walked:
    """The statements in that form. Names are those of statements, or of parts of them that have none of their own."""

    scores: Product
    elements: tuple[Typed, ...]  # of each score, in their order
    carried: tuple[Carried, ...]
    ends: tuple[Typed, ...]  # of each row, then of each element of a row of the outputs
    batch: tuple[str, ...]  # modes that both tensors of the scores have
    rows: tuple[str, ...]  # those that only the left one has; of the first one a tile has several elements
    walked: str
    spans: Mapping[str, frozenset[str]]
    definitions: Mapping[str, Expr]  # of every name
    more: tuple[Product, ...] = ()  # further products of two tensors, with an element for each score
    around: tuple[str, ...] = ()  # modes of which the walk goes through every place, each with all of the walked mode

    @property
    def products(self) -> tuple[Product, ...]:
        """The products of two tensors."""
        return (self.scores, *self.more)

    @property
    def outer(self) -> tuple[Carried, ...]:
        """The sums that are carried for each element of a row of the outputs."""
        return tuple(one for one in self.carried if one.product is not None)

    @property
    def of_rows(self) -> tuple[Carried, ...]:
        """The sums and maxima that are carried for each row."""
        return tuple(one for one in self.carried if one.product is None)

    @cached_property
    def columns(self) -> str:
        """The mode of the rows of the first outer product's output."""
        return self.columns_of(self.outer[0])

    def columns_of(self, one: Carried) -> str:
        """The mode of the rows of an outer product's output, which its tensor on the right has as well."""
        (found,) = self.spans[one.name] - {*self.batch, *self.rows}
        return found

    @cached_property
    def every_columns(self) -> tuple[str, ...]:
        """The modes of the rows of all outputs."""
        return tuple(dict.fromkeys(self.columns_of(one) for one in self.outer))

    @cached_property
    def depths(self) -> tuple[str, ...]:
        """The modes that products of two tensors sum, and those of the rows of outputs."""
        return tuple(dict.fromkeys((*(one.mode for one in self.products), *self.every_columns)))

    def outer_of(self, name: str) -> Carried | None:
        """The outer product that a statement at the end follows from; None of one that has a value for each row."""
        meant = meant_by(Local(name), self.definitions, {one.name for one in self.carried})
        used = {node.id for node in walk(meant) if isinstance(node, Local)}
        return next((one for one in self.outer if one.name in used), None)

    def meant(self, node: Expr) -> Expr:
        """An expression in which names of elements stand for what was computed, down to what is carried."""
        kept = {one.name for one in self.carried} | {one.name for one in self.products}
        return meant_by(node, self.definitions, kept)


def meant_by(node: Expr, definitions: Mapping[str, Expr], kept: set[str]) -> Expr:
    def put(part: Expr) -> Expr:
        if isinstance(part, Local) and part.id in definitions and part.id not in kept:
            return put(definitions[part.id])
        return rebuilt(part, put)

    return put(node)
