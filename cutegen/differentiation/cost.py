"""The cost of computing sums, by which one way to write a backward is compared with another."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction

from cutegen.expressions.sums import Atom, Sum, Term, inside

REDUCTION, FUNCTION, IN_REDUCTION, POWER, NAME = 20.0, 4.0, 1.5, 0.5, 1.0
"""Of a reduction and of a function, where an operation on two elements is 1; how much more an operation counts that is
reduced; what a power has on top of its multiplications, what a name costs, as two lines are read for one."""


@dataclass(frozen=True)
class Parts:
    """How many reductions and functions are computed."""

    reductions: int
    functions: int


def parts(sums: Iterable[Sum]) -> Parts:
    """Counts what is in sums, each once."""
    atoms = {atom for x in sums for atom in inside(x)}
    functions = [a for a in atoms if a.kind == "call" and a.name[0].isalpha() and a.name not in ("and", "or", "not")]
    return Parts(sum(atom.kind == "reduce" for atom in atoms), sum(not a.name.startswith("cast") for a in functions))


def reciprocals(sums: Iterable[Sum]) -> int:
    """The powers of divisors, of all terms that there are."""
    return -sum(p for _, p in _divided(sums))


def divisors(sums: Iterable[Sum]) -> set[Atom]:
    """Returns the atoms that any term is divided by, nested terms included; sizes of modes do not count."""
    return {atom for atom, _ in _divided(sums)}


def _divided(sums: Iterable[Sum]) -> Iterator[tuple[Atom, int]]:
    seen = list(sums)
    seen += {argument for x in seen for atom in inside(x) for argument in atom.arguments}
    return ((a, p) for x in set(seen) for term in x.terms for a, p in term.powers if p < 0 and a.kind != "size")


def cost(sums: Iterable[Sum]) -> float:
    """Returns the cost of computing sums. An atom counts once, also where several of them have it; factors that all
    terms of a sum have are taken out of it first.
    """
    seen: set[Atom] = set()

    def of_term(term: Term, weight: float) -> float:
        sizes = sum(abs(p) for atom, p in term.powers if atom.kind != "size")
        own: float = max(0, sizes - 1 + (abs(term.number) != 1 and bool(term.powers)))
        own += POWER * sum(abs(p) > 1 for atom, p in term.powers if atom.kind != "size")
        return weight * own + sum(of_atom(atom, weight) for atom, _ in term.powers)

    def of_atom(atom: Atom, weight: float) -> float:
        if atom in seen:
            return 0.0
        seen.add(atom)
        own = {"reduce": REDUCTION, "call": FUNCTION, "indicator": FUNCTION}.get(atom.kind, 0.0)
        weight = IN_REDUCTION if atom.kind == "reduce" else weight
        return own + sum(of_sum(argument, weight) for argument in atom.arguments)

    def of_sum(x: Sum, weight: float) -> float:
        return weight * (len(x.terms) - 1) + sum(of_term(term, weight) for term in x.terms)

    def whole(x: Sum) -> float:
        outside, rest = common(x)
        return of_sum(rest, 1.0) + (of_term(outside, 1.0) + 1 if outside.powers else 0)

    return sum(whole(x) for x in sums)


def common(x: Sum) -> tuple[Term, Sum]:
    """The factors that all terms of a sum have, and the sum without them."""
    if len(x.terms) < 2:
        return Term(Fraction(1), ()), x
    shared = []
    for atom, _ in x.terms[0].powers:
        powers = [term.power(atom) for term in x.terms]
        if atom.kind == "size" and any(other.mode == atom.name for other in x.atoms() if other.kind == "reduce"):
            continue  # it makes a mean of a sum
        if min(powers) > 0 or max(powers) < 0:
            shared.append((atom, min(powers) if min(powers) > 0 else max(powers)))
    numbers = {abs(term.number) for term in x.terms}
    number = numbers.pop() if len(numbers) == 1 else Fraction(1)
    return Term(number, tuple(shared)), without(x, Term(number, tuple(shared)))


def without(x: Sum, factor: Term) -> Sum:
    """A sum divided by a term, term by term."""
    terms = []
    for term in x.terms:
        left = dict(term.powers)
        for atom, p in factor.powers:
            left[atom] = left.get(atom, 0) - p
        terms.append(Term(term.number / factor.number, tuple((atom, p) for atom, p in left.items() if p)))
    return Sum(tuple(terms))
