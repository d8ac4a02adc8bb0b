"""Sums with parts of them changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from cutegen.expressions.sums import Atom, Sum, add, number, of, power, remade, scaled, times


def rebuilt(
    x: Sum,
    change: Callable[[Atom], Sum | None],
    sums: Mapping[Sum, Sum] | None = None,
    memo: dict[Atom, Sum] | None = None,
) -> Sum:
    """The sum with atoms changed, and all around them made anew; None leaves an atom, and looks inside.

    `sums` are changed where they stand whole: in parentheses, as arguments, or alone. `memo` has what came of atoms,
    for another sum in which the same is changed.
    """
    memo = {} if memo is None else memo
    sums = sums or {}

    def atom_of(atom: Atom) -> Sum:
        if atom not in memo:
            changed = change(atom)
            memo[atom] = inner(atom) if changed is None else changed
        return memo[atom]

    def inner(atom: Atom) -> Sum:
        if not atom.arguments:
            return of(atom)
        arguments = [whole(argument) for argument in atom.arguments]
        if all(new is old for new, old in zip(arguments, atom.arguments, strict=True)):
            return of(atom)
        return remade(atom, arguments)

    def whole(old: Sum) -> Sum:
        if old in sums:
            return sums[old]
        found = {atom: atom_of(atom) for atom in old.atoms()}
        if all(new.atom == atom for atom, new in found.items()):
            return old
        terms = []
        for term in old.terms:
            if all(found[atom].atom == atom for atom, _ in term.powers):
                terms.append(Sum((term,)))
                continue
            factors = [power(found[atom], exponent) for atom, exponent in term.powers]
            terms.append(scaled(times(*factors), term.number) if factors else number(term.number))
        return add(*terms)

    return whole(x)
