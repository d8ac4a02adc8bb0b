"""The computation of a row kernel as walks over a row: what each computes, reduces and stores, and what follows it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import chain
from typing import Literal

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Expr, Local, Name, Scan, walk

Function = Literal["sum", "prod", "max", "min"]


def function_of_scan(scan: Scan) -> Function:
    """The function that combines the values of a scan."""
    return "sum" if scan.function == "cumsum" else "prod"


@dataclass(frozen=True)
class Named:
    """A value with a name, by which `Local` means it: of each element, or of the row as a whole; `why` is a comment."""

    name: str
    value: Expr
    why: str = ""


@dataclass(frozen=True)
class Reduction:
    """A value of the row, made of one of each element.

    With `above`, the name of a largest value that is found in the same walk, it is the sum of exponentials of what the
    values are above that: the sum so far is scaled whenever a larger one turns up, as Milakov and Gimelshein (2018),
    "Online normalizer calculation for softmax", have it.

    With `around`, the names of a sum and of a count that are found in the same walk, it is the sum of the squares of
    what the values differ by from their mean: of two parts of a row it is that of each, and what is between their
    means, as Chan, Golub and LeVeque (1983), "Algorithms for computing the sample variance", have it.
    """

    name: str
    function: Function
    value: Expr
    above: str | None = None
    around: tuple[str, str] | None = None

    @property
    def dtype(self) -> Dtype:
        assert self.value.dtype is not None
        return self.value.dtype


def counts_of(reductions: Iterable[Reduction]) -> dict[str, str]:
    """The counts that sums of squares need, each with the sum whose values it counts."""
    pairs = (one.around for one in reductions if one.around is not None)
    return {count: total for total, count in pairs}


@dataclass(frozen=True)
class Store:
    """A tensor and what is stored to it, in its type; of a row, to its element `at` some coordinates."""

    tensor: str
    value: Expr
    at: tuple[tuple[str, int], ...] = ()


RESULT = "result of all rows"  # no statement's


@dataclass(frozen=True)
class Column:
    """An output of one element for each place of a row, made of those of all rows; a `mean` divides by their number.

    `finish` is what is stored where that is not all: it has the result as the `Local` named `RESULT`, and may read the
    output's old value.
    """

    tensor: str
    function: Function
    mean: bool
    value: Expr
    finish: Expr | None = None

    @property
    def dtype(self) -> Dtype:
        assert self.value.dtype is not None
        return self.value.dtype


@dataclass(frozen=True)
class Element:
    """A tensor along the rows at one place of the row, `value`, read by itself; 0 unless the row has it: `there`."""

    name: str
    tensor: str
    value: Expr
    there: Expr


RowStep = Named | Element | Store


@dataclass(frozen=True)
class Walk:
    """One walk over a row, and then what is the same along it: `reads` are the tensors along the row that it needs."""

    reads: tuple[str, ...]
    elements: tuple[Named, ...]
    stores: tuple[Store, ...]
    reductions: tuple[Reduction, ...]
    columns: tuple[Column, ...]
    after: tuple[RowStep, ...]

    @property
    def scans(self) -> bool:
        """Whether it scans the row, which it then walks from its start."""
        return any(isinstance(named.value, Scan) for named in self.elements)

    @property
    def values(self) -> tuple[Expr, ...]:
        """All that is computed of each element."""
        steps: tuple[Named | Store | Reduction | Column, ...]
        steps = (*self.elements, *self.reductions, *self.stores, *self.columns)
        return tuple(step.value for step in steps)


@dataclass(frozen=True)
class Program:
    """The steps for a row before its first walk, then the walks. The name of the row's mode denotes its size."""

    before: tuple[RowStep, ...]
    walks: tuple[Walk, ...]

    @property
    def reductions(self) -> tuple[Reduction, ...]:
        return tuple(chain.from_iterable(one.reductions for one in self.walks))

    @property
    def scans(self) -> tuple[Scan, ...]:
        """The scans of all walks, in order; one that several walks make again is there for each of them."""
        return tuple(named.value for one in self.walks for named in one.elements if isinstance(named.value, Scan))

    @property
    def meetings(self) -> int:
        """How often the threads of a row exchange what they have of its reductions."""
        return sum(bool(one.reductions) for one in self.walks)

    @property
    def columns(self) -> tuple[Column, ...]:
        return tuple(chain.from_iterable(one.columns for one in self.walks))

    @property
    def behind_columns(self) -> frozenset[str]:
        """The names of what the columns' elements are computed from: tensors, values of elements, and values of the
        row, but not what the latter are computed from.
        """
        elements = {named.name: named.value for one in self.walks for named in one.elements}
        found, left = set[str](), [column.value for column in self.columns]
        while left:
            names = {node.id for node in walk(left.pop()) if isinstance(node, Name | Local)} - found
            found |= names
            left += [elements[name] for name in names if name in elements]
        return frozenset(found)

    @property
    def rows(self) -> tuple[RowStep, ...]:
        """All that is computed and stored of a row as a whole, in order."""
        return (*self.before, *chain.from_iterable(one.after for one in self.walks))
