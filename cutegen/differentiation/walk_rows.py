"""Values of rows that a gradient needs before its walk, such as delta = sum(dO * O, E), and the simplification of what
each element computes with them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection

from cutegen.differentiation.cost import common, without
from cutegen.differentiation.folding import changes
from cutegen.differentiation.rebuilding import rebuilt
from cutegen.expressions.sums import Atom, Powers, Sum, Term, add, call, indicator, inside, named, of, scaled, spread
from cutegen.language.modes import Lengths

DELTA, OF_ELEMENTS = "delta", "dP"


class RowValues:
    """The values of rows that elements need, each once, by name. `columns` are modes that rows of tensors have.

    `products` are those of two such tensors for each element, by the names that they get.
    """

    def __init__(self, rows: Collection[str], columns: Collection[str], new_name: Callable[[str], str]) -> None:
        self.rows, self.columns, self.new_name = frozenset(rows), frozenset(columns), new_name
        self.values: dict[str, Sum] = {}
        self.products: dict[str, Atom] = {}

    def taken_out(self, x: Sum) -> Sum:
        """A sum in which names stand for values of rows that are sums along columns.

        Terms that differ in such values alone are one term, whose value is all of theirs: p * a - p * b with the sums a
        and b has the value a - b.
        """
        groups: dict[frozenset[tuple[Atom, int]], list[Term]] = {}
        for term in x.terms:
            groups.setdefault(frozenset((a, p) for a, p in term.powers if not self.is_of_row(a)), []).append(term)
        terms: list[Sum] = []
        for elements, members in groups.items():
            row = Sum(tuple(Term(t.number, tuple((a, p) for a, p in t.powers if self.is_of_row(a))) for t in members))
            if any(self.is_summed(atom) for atom in row.atoms()):
                first = next(t for t in members for a, p in t.powers if (a, p) in elements or not elements)
                powers = tuple((a, p) for a, p in first.powers if (a, p) in elements)
                terms += [_product(term, powers) for term in self.named(row).terms]
            else:
                terms += [Sum((term,)) for term in members]
        return rebuilt(add(*terms), self.name_of)

    def name_of(self, atom: Atom) -> Sum | None:
        """A value of rows, or a product for each element, by its name; None of anything else."""
        if self.is_summed(atom):
            return self.named(of(atom))
        if atom.kind != "reduce" or atom.mode not in self.columns:
            return None
        name = next((name for name, known in self.products.items() if known == atom), None)
        if name is None:
            name = self.new_name(OF_ELEMENTS)
            self.products[name] = atom
        return of(named(name, atom.modes))

    def is_of_row(self, atom: Atom) -> bool:
        """Whether an atom has one value for each row; those without modes are none."""
        return bool(atom.modes) and atom.modes <= self.rows

    def is_summed(self, atom: Atom) -> bool:
        """Whether an atom is of a row, and has a sum along columns inside."""
        sums = (part for part in inside(of(atom)) if part.kind == "reduce")
        return self.is_of_row(atom) and any(part.mode in self.columns for part in sums)

    def named(self, x: Sum) -> Sum:
        """A value of rows by its name, times the numbers and scalars that all of it has, and its sign."""
        shared = common(x)[0] if len(x.terms) > 1 else x.terms[0]
        outside = Term(shared.number, tuple((a, p) for a, p in shared.powers if not self.is_summed(a)))
        rest = without(x, outside)
        if next(t for t in rest.terms if any(self.is_summed(a) for a, _ in t.powers)).number < 0:
            rest, outside = scaled(rest, -1), Term(-outside.number, outside.powers)
        name = next((name for name, value in self.values.items() if value == rest), None)
        if name is None:
            name = self.new_name(DELTA)
            self.values[name] = rest
        return _product(outside, ((named(name, self.rows), 1),))


def _product(term: Term, powers: Powers) -> Sum:
    return Sum((Term(term.number, (*powers, *term.powers)),))


def outside_of_sums(x: Sum) -> tuple[Term, Sum]:
    """The numbers and scalars that all terms of a sum have, and the sum without them."""
    shared = common(x)[0] if len(x.terms) > 1 else x.terms[0]
    outside = Term(shared.number, tuple((a, p) for a, p in shared.powers if not a.modes))
    rest = without(x, outside)
    if len(rest.terms) > 1 and all(term.number < 0 for term in rest.terms):
        rest, outside = scaled(rest, -1), Term(-outside.number, outside.powers)
    return outside, rest


def existing(x: Sum, lengths: Lengths) -> Sum:
    """A sum that is 0 where an element does not exist."""
    place = of(Atom("coord", lengths.mode, modes=frozenset([lengths.mode])))
    exists = indicator(call("<", [place, of(named(lengths.used, [lengths.of]))]))
    return spread(x, exists)


def by_weight(x: Sum, name: str, weight: Sum) -> Sum | None:
    """A sum as a product with a weight, by its name, where each of its terms has the weight's factors; else None."""
    if len(weight.terms) != 1:
        return None
    atom = named(name, weight.modes)
    change, _ = next(changes(atom, weight))
    found = change(x)
    return found if found.terms and all(term.power(atom) == 1 for term in found.terms) else None


def logarithm_in(weight: Sum) -> str | None:
    """The value of rows that a weight exp(s - lse) is relative to, where a condition excludes elements: NaN if it
    excludes all of a row.
    """
    exponents = [a.arguments[0] for a in weight.atoms() if a.kind == "call" and a.name == "exp"]
    if not any(atom.kind == "indicator" for atom in weight.atoms()) or len(exponents) != 1:
        return None
    terms = (term for term in exponents[0].terms if term.number == -1 and len(term.powers) == 1)
    atoms = (term.powers[0][0] for term in terms if term.powers[0][1] == 1)
    return next((atom.name for atom in atoms if atom.kind == "name" and atom.modes), None)


def of_rows_with_elements(x: Sum, logarithm: Sum) -> Sum:
    """A value of rows, and 0 for rows without any element: their logarithm is no number above minus infinity."""
    return spread(x, indicator(call(">", [logarithm, of(named("-inf"))])))


def masked(x: Sum) -> Sum:
    """A sum in which exp(where(c, s, -inf) + r) is where(c, exp(s + r), 0).

    That is the same, but where r is NaN: rows without any element that counts have no sum, and add nothing so.
    """

    def change(atom: Atom) -> Sum | None:
        if atom.kind != "call" or atom.name != "exp":
            return None
        exponent = atom.arguments[0]
        for term in exponent.terms:
            choice = term.powers[0][0] if len(term.powers) == 1 and term.powers[0][1] == term.number == 1 else None
            if choice is None or choice.kind != "call" or choice.name != "where":
                continue
            condition, one, other = choice.arguments
            for truth, side, rest in ((True, one, other), (False, other, one)):
                if _is_minus_infinity(rest):
                    left = Sum(tuple(other for other in exponent.terms if other is not term))
                    return spread(masked(call("exp", [add(left, side)])), indicator(condition, truth))
        return None

    return rebuilt(x, change)


def _is_minus_infinity(x: Sum) -> bool:
    if len(x.terms) != 1:
        return False
    (term,) = x.terms
    factors = [(power, atom.name) for atom, power in term.powers]
    return (factors == [(1, "-inf")] and term.number > 0) or (factors == [(1, "inf")] and term.number < 0)
