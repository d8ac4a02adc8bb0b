"""Other names in a sum: what the forward computed, kept or named stands for the parts of gradients that it is.

A value `V = a * b` takes the place of products of `a` and `b`; or `a` becomes `V / b` everywhere, which pays where `b`
goes away. A value `V = a + b` takes the place of such sums, or `a` becomes `V - b` everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from fractions import Fraction

from cutegen.differentiation.algebra import (
    Atom,
    Sum,
    Term,
    add,
    inside,
    of,
    power,
    rebuilt,
    remade,
    scaled,
    times,
)

Change = Callable[[Sum], Sum]
_COMPARED = ("<", "<=", ">", ">=", "==", "!=")


def changes(value: Atom, meaning: Sum) -> Iterator[tuple[Change, Sum]]:
    """The ways to write sums with a value that means a sum; each with what it writes around the value."""
    nothing = Sum(())
    if (atom := meaning.atom) is not None:
        yield (lambda x: rebuilt(x, {atom: of(value)}.get)), nothing
    elif len(meaning.terms) > 1:
        whole = {meaning: of(value), scaled(meaning, -1): scaled(of(value), -1)}
        yield (lambda x: rebuilt(x, lambda _: None, whole)), nothing
        yield from _solved_sums(value, meaning)
    elif meaning.terms and meaning.terms[0].powers:
        yield (lambda x: folded(x, value, meaning.terms[0])), nothing
        yield from _solved_products(value, meaning.terms[0])


def _solved_sums(value: Atom, meaning: Sum) -> Iterator[tuple[Change, Sum]]:
    for term in meaning.terms:
        if abs(term.number) == 1 and len(term.powers) == 1 and term.powers[0][1] == 1:
            rest = Sum(tuple(other for other in meaning.terms if other is not term))
            solved = scaled(add(of(value), scaled(rest, -1)), term.number)
            yield _solving(term.powers[0][0], solved, rest), rest


def _solved_products(value: Atom, meaning: Term) -> Iterator[tuple[Change, Sum]]:
    for atom, exponent in meaning.powers:
        if abs(exponent) == 1:
            rest = Sum((Term(meaning.number, tuple((a, p) for a, p in meaning.powers if a != atom)),))
            yield _solving(atom, power(times(of(value), power(rest, -1)), exponent), rest), rest


def _solving(atom: Atom, solved: Sum, rest: Sum) -> Change:
    """Writes `solved` for an atom, but not inside of what `solved` itself is made of."""
    parts = (*rest.atoms(), *(part for part in inside(rest) if part.kind == "reduce"))
    kept = {part: of(part) for part in parts if part != atom}

    def change(x: Sum) -> Sum:
        return rebuilt(x, lambda other: solved if other == atom else kept.get(other))

    return change


def folded(x: Sum, value: Atom, meaning: Term) -> Sum:
    """A sum with a value in the place of a product, in all its terms and inside of them."""

    def product(term: Term) -> Sum:
        ratios = [term.power(atom) // p if term.power(atom) * p > 0 else 0 for atom, p in meaning.powers]
        times_there = min(ratios)
        if times_there < 1:
            return Sum((term,))
        left = [(atom, p - times_there * meaning.power(atom)) for atom, p in term.powers]
        rest = Sum((Term(term.number / meaning.number**times_there, tuple((a, p) for a, p in left if p)),))
        first = next(i for i, (atom, _) in enumerate(term.powers) if meaning.power(atom))
        before = Sum((Term(Fraction(1), tuple((a, p) for a, p in left[:first] if p)),))
        return times(before, of(value, times_there), rest, power(before, -1))

    def inner(atom: Atom) -> Sum | None:
        if atom.kind not in ("call", "reduce", "group", "indicator"):
            return of(atom)
        arguments = [folded(argument, value, meaning) for argument in atom.arguments]
        same = all(new == old for new, old in zip(arguments, atom.arguments, strict=True))
        return of(atom) if same else remade(atom, arguments)

    return add(*(product(term) for term in rebuilt(x, inner).terms))


def is_condition(atom: Atom) -> bool:
    """Whether an atom is a comparison."""
    return atom.kind == "call" and atom.name in _COMPARED


def products(sums: Iterable[Sum], most: int = 12) -> list[Sum]:
    """Products and quotients of two atoms that are in several terms, the most frequent first, wide factors in front.

    One with a higher power of an atom counts twice: a reduction may take the other one in.
    """
    found: dict[Sum, int] = {}
    sums = tuple(sums)
    for x in dict.fromkeys([*sums, *(y for x in sums for atom in inside(x) for y in atom.arguments)]):
        for term in x.terms:
            atoms = [(a, p) for a, p in term.powers if a.kind not in ("size", "indicator")]
            atoms.sort(key=lambda each: -len(each[0].modes))
            for i, (a, p) in enumerate(atoms):
                for b, q in atoms[i + 1 :]:
                    if p > 0 or q > 0:
                        pair = times(of(a, 1 if p > 0 else -1), of(b, 1 if q > 0 else -1))
                        found[pair] = found.get(pair, 0) + min(abs(p), abs(q)) + (abs(p) != abs(q))
    return sorted((pair for pair in found if found[pair] > 1), key=lambda pair: -found[pair])[:most]
