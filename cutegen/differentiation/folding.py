"""Other names in a sum: what the forward computed, kept or named stands for the parts of gradients that it is.

A value `V = a * b` takes the place of products of `a` and `b`; or `a` becomes `V / b` everywhere, which pays where `b`
goes away. A value `V = a + b` takes the place of such sums, or `a` becomes `V - b` everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping

from cutegen.differentiation.rebuilding import rebuilt
from cutegen.expressions.sums import Atom, Sum, Term, add, inside, of, power, remade, scaled, times

Change = Callable[[Sum], Sum]
_COMPARED = ("<", "<=", ">", ">=", "==", "!=")


def changes(value: Atom, meaning: Sum) -> Iterator[tuple[Change, Sum]]:
    """The ways to write sums with a value that means a sum; each with what it writes around the value."""
    nothing = Sum(())
    if (atom := meaning.atom) is not None:
        yield _replacing({atom: of(value)}), nothing
    elif len(meaning.terms) > 1:
        yield _replacing({}, {meaning: of(value), scaled(meaning, -1): scaled(of(value), -1)}), nothing
        for term in meaning.terms:
            if abs(term.number) == 1 and len(term.powers) == 1 and term.powers[0][1] == 1:
                rest = Sum(tuple(other for other in meaning.terms if other is not term))
                solved = scaled(add(of(value), scaled(rest, -1)), term.number)
                yield from _solving(term.powers[0][0], solved, rest)
    elif meaning.terms and meaning.terms[0].powers:
        product = meaning.terms[0]
        yield _Folding(value, product), nothing
        for atom, exponent in product.powers:
            if abs(exponent) == 1:
                rest = Sum((Term(product.number, tuple((a, p) for a, p in product.powers if a != atom)),))
                yield from _solving(atom, power(times(of(value), power(rest, -1)), exponent), rest)


def _replacing(atoms: Mapping[Atom, Sum], sums: Mapping[Sum, Sum] | None = None) -> Change:
    memo: dict[Atom, Sum] = {}
    return lambda x: rebuilt(x, atoms.get, sums, memo)


def _solving(atom: Atom, solved: Sum, rest: Sum) -> Iterator[tuple[Change, Sum]]:
    """Writes `solved` for an atom, but not inside of reductions that `solved` itself is made of.

    Not for one that is the same along a mode where `solved` is not: it may stand outside of a sum along that.
    """
    if solved.modes <= atom.modes:
        parts = (*rest.atoms(), *(part for part in inside(rest) if part.kind == "reduce"))
        yield _replacing({part: of(part) for part in parts if part != atom} | {atom: solved}), rest


class _Folding:
    """Writes a value in the place of a product, in all terms of a sum and inside of them."""

    def __init__(self, value: Atom, product: Term) -> None:
        self.value, self.product = value, product
        self.sums: dict[Sum, Sum] = {}
        self.atoms: dict[Atom, Sum] = {}

    def __call__(self, x: Sum) -> Sum:
        if x not in self.sums:
            self.sums[x] = add(*(self.term(term) for term in rebuilt(x, self.atom, None, self.atoms).terms))
        return self.sums[x]

    def term(self, term: Term) -> Sum:
        """A term with the value as often as the product is there, where its first factor was."""
        product = self.product
        powers = [(term.power(atom), p) for atom, p in product.powers]
        count = min(own // p if own * p > 0 else 0 for own, p in powers)
        if count < 1:
            return Sum((term,))
        left = [(atom, p - count * product.power(atom)) for atom, p in term.powers]
        first = next(i for i, (atom, _) in enumerate(term.powers) if product.power(atom))
        parts = (left[:first], [(self.value, count)], left[first:])
        folded = tuple((atom, p) for part in parts for atom, p in part if p)
        return Sum((Term(term.number / product.number**count, folded),))

    def atom(self, atom: Atom) -> Sum | None:
        if not atom.arguments:
            return of(atom)
        arguments = [self(argument) for argument in atom.arguments]
        same = all(new is old for new, old in zip(arguments, atom.arguments, strict=True))
        return of(atom) if same else remade(atom, arguments)


def is_condition(atom: Atom) -> bool:
    """Whether an atom is a comparison."""
    return atom.kind == "call" and atom.name in _COMPARED


def may_round(change: Change, atom: Atom) -> bool:
    """Whether a change that solved for nothing may still write one side of a comparison with another last bit.

    `max(X, N)` is `V / 3` of a value `V = 3 * max(X, N)`, and no element of X may be equal to that. A comparison with 0
    comes out the same.
    """
    scales = isinstance(change, _Folding) and abs(change.product.number) != 1
    return scales and is_condition(atom) and all(argument.number != 0 for argument in atom.arguments)


def products(sums: Iterable[Sum], most: int = 8) -> list[Sum]:
    """Products and quotients of two atoms that are in several terms, the most frequent first, wide factors in front.

    One with a higher power of an atom counts twice: a reduction may take the other one in.
    """
    found: dict[Sum, int] = {}
    sums = tuple(sums)
    inner = (argument for x in sums for atom in inside(x) for argument in atom.arguments)
    for each in dict.fromkeys([*sums, *inner]):
        for term in each.terms:
            atoms = [(a, p) for a, p in term.powers if a.kind not in ("size", "indicator")]
            atoms.sort(key=lambda each: -len(each[0].modes))
            for i, (a, p) in enumerate(atoms):
                for b, q in atoms[i + 1 :]:
                    if p > 0 or q > 0:
                        pair = times(of(a, 1 if p > 0 else -1), of(b, 1 if q > 0 else -1))
                        found[pair] = found.get(pair, 0) + min(abs(p), abs(q)) + (abs(p) != abs(q))
    return sorted((pair for pair in found if found[pair] > 1), key=lambda pair: -found[pair])[:most]
