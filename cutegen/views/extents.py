"""Sizes that are computed from those of modes: sums of products, such as `2*N` or `(HQ + 2*HK)*D`."""

from __future__ import annotations

import ast
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from math import gcd, prod

MOST_TERMS = 64
MOST_DIGITS = 10
Term = tuple[tuple[str, ...], int]  # the modes of a product, sorted, and the number that it is multiplied by


class ExtentError(ValueError):
    """Raised for a text that is no size; the message is the rest of a sentence about it."""


@dataclass(frozen=True, eq=False)
class Extent:
    """A polynomial in the sizes of modes with whole coefficients. Equal ones are equal for all sizes."""

    terms: tuple[Term, ...] = ()  # in the order of the text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Extent) and {*self.terms} == {*other.terms}

    def __hash__(self) -> int:
        return hash(frozenset(self.terms))

    @staticmethod
    def of(terms: Iterable[Term]) -> Extent:
        """The sum of terms; those with modes come first."""
        found: dict[tuple[str, ...], int] = {}
        for modes, factor in terms:
            found[modes] = found.get(modes, 0) + factor
        kept = {modes: factor for modes, factor in found.items() if factor}
        return Extent(tuple(sorted(kept.items(), key=lambda term: (not term[0],))))

    def __add__(self, other: Extent) -> Extent:
        return Extent.of((*self.terms, *other.terms))

    def __sub__(self, other: Extent) -> Extent:
        return self + other * number(-1)

    def __mul__(self, other: Extent) -> Extent:
        return Extent.of((tuple(sorted((*a, *b))), x * y) for a, x in self.terms for b, y in other.terms)

    @property
    def modes(self) -> tuple[str, ...]:
        """Its modes, each once, in order of appearance."""
        return tuple(dict.fromkeys(mode for modes, _ in self.terms for mode in modes))

    @property
    def constant(self) -> int | None:
        """Its value if it has no modes."""
        return None if self.modes else sum(factor for _, factor in self.terms)

    @property
    def is_mode(self) -> bool:
        """Whether it is the size of one mode, and nothing else."""
        return len(self.terms) == 1 and len(self.terms[0][0]) == 1 and self.terms[0][1] == 1

    @property
    def never_negative(self) -> bool:
        """Whether it is 0 or more for all sizes of modes, as its terms tell."""
        return all(factor >= 0 for _, factor in self.terms)

    def at(self, sizes: Mapping[str, int]) -> int:
        """Its value. Raises KeyError for a mode without a size."""
        return sum(factor * prod(sizes[mode] for mode in modes) for modes, factor in self.terms)

    def knowing(self, sizes: Mapping[str, int]) -> Extent:
        """The same with numbers for the modes that have a size."""
        return Extent.of(
            (tuple(m for m in modes if m not in sizes), factor * prod(sizes[m] for m in modes if m in sizes))
            for modes, factor in self.terms
        )

    def quotient(self, step: int) -> Extent | None:
        """Itself divided by a number and rounded up; None where that is no polynomial."""
        if any(modes and factor % step for modes, factor in self.terms):
            return None
        return Extent.of((modes, -(-factor // step)) for modes, factor in self.terms)

    def divisor(self, divisors: Mapping[str, int]) -> int:
        """A number that divides it for all sizes, given those that divide sizes of modes; 0 if it is 0."""
        return gcd(*(factor * prod(divisors.get(mode, 1) for mode in modes) for modes, factor in self.terms))

    def linear_in(self, mode: str) -> tuple[Extent, Extent] | None:
        """A and B where it is A times the mode plus B, and neither has the mode; None where it is not so."""
        found: list[Term] = []
        rest: list[Term] = []
        for modes, factor in self.terms:
            if modes.count(mode) > 1:
                return None
            if mode in modes:
                found.append((tuple(m for m in modes if m != mode), factor))
            else:
                rest.append((modes, factor))
        return Extent.of(found), Extent.of(rest)

    def text(self, names: Mapping[str, str] | None = None) -> str:
        """Its text as Python has it, with `names` in the place of modes."""
        parts = []
        for modes, factor in self.terms:
            named = [names[m] if names else m for m in modes]
            sign = "-" if factor < 0 else "+"
            factors = [str(abs(factor))] if abs(factor) != 1 or not named else []
            parts.append((sign, " * ".join([*factors, *named])))
        text = " ".join(f"{sign} {part}" for sign, part in parts)
        return text.removeprefix("+ ") if parts else "0"


def number(value: int) -> Extent:
    return Extent.of([((), value)])


def mode(name: str) -> Extent:
    return Extent((((name,), 1),))


@cache
def extent(text: str) -> Extent:
    """The size that a text such as `2*N` says. Raises ExtentError for another text."""
    try:
        tree = ast.parse(text.strip(), mode="eval").body
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        raise ExtentError("is not a size such as `2*N`") from None
    return of_tree(tree)


def of_tree(tree: ast.expr) -> Extent:
    """The size that an expression of Python is. Raises ExtentError for one that is none."""
    match tree:
        case ast.Constant(value=int(value)) if not isinstance(value, bool) and len(str(value)) <= MOST_DIGITS:
            return number(value)
        case ast.Name(id=name):
            return mode(name)
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() | ast.Mult() as op, right=right):
            a, b = of_tree(left), of_tree(right)
            found = a + b if isinstance(op, ast.Add) else a - b if isinstance(op, ast.Sub) else a * b
            if len(found.terms) > MOST_TERMS:
                raise ExtentError(f"has more than {MOST_TERMS} terms")
            return found
    raise ExtentError("is not a size: sizes are modes and whole numbers with `+`, `-` and `*`")


def is_computed(item: str) -> bool:
    """Whether an item of a shape is a size that is computed, or a number, and not a mode's name or a 1."""
    return item != "1" and not item.isidentifier()


def size_of(item: str, sizes: Mapping[str, int]) -> int:
    """The size along an item of a shape, a mode or a computed size. Raises KeyError for a mode without a size."""
    return sizes[item] if item in sizes or not is_computed(item) else extent(item).at(sizes)


def modes_of(item: str) -> tuple[str, ...]:
    """The modes of an item of a shape that is computed; none where it is no size."""
    try:
        return extent(item).modes if is_computed(item) else ()
    except ExtentError:
        return ()
