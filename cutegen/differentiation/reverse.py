"""The chain rule, backwards: from the gradients of what was computed to those of what it was computed from."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from cutegen.differentiation.rules import CONSTANT, DERIVATIVES, OF_REDUCTIONS
from cutegen.errors import CutegenError
from cutegen.expressions.functions import FUNCTIONS
from cutegen.expressions.reading_sums import sum_of_text
from cutegen.expressions.sums import (
    Atom,
    Sum,
    Term,
    add,
    call,
    expanded,
    indicator,
    of,
    power,
    scaled,
    size,
    spread,
    times,
    total,
    total_over,
)

MOST_TERMS = 2000
_FLOATS = ("f64", "f32", "f16", "bf16")


class DifferentiationError(CutegenError):
    """Says why there is no backward of a spec, and what can be asked for instead."""


def gradients(given: Sequence[tuple[Sum, Sum]], wanted: Collection[Atom], order: Sequence[str]) -> dict[Atom, Sum]:
    """The gradients of atoms: of each that anything given depends on where it can be differentiated.

    `given` has pairs: the gradient of what was computed, and that. `order` has all modes; sums over several of them
    begin with the last.
    """
    return _Reverse(wanted, order).run(given)


class _Reverse:
    def __init__(self, wanted: Collection[Atom], order: Sequence[str]) -> None:
        self.wanted, self.order = frozenset(wanted), tuple(reversed(order))
        self.collected: dict[Atom, Sum] = {}
        self.reaches: dict[Atom, bool] = {}

    def run(self, given: Sequence[tuple[Sum, Sum]]) -> dict[Atom, Sum]:
        """Goes back from what is given to what is wanted.

        Where the rest of a kernel takes away again what a value adds, nothing is taken on: as from the shift of a
        softmax, be it the largest of a row or of that and a sink.
        """
        for gradient, value in given:
            self.into(value, self.along(gradient, gradient.modes, value.modes))
        found: dict[Atom, Sum] = {}
        while self.collected:
            atom = max(self.collected, key=lambda atom: atom.height)  # what is made of others comes before them
            gradient = self.collected.pop(atom)
            if atom in self.wanted and gradient.terms:
                found[atom] = gradient
            elif not vanishes(gradient):
                self.through(atom, gradient)
        return found

    def along(self, gradient: Sum, present: frozenset[str], wanted: frozenset[str]) -> Sum:
        """The gradient of what broadcasts: summed over the modes of `present` that it has not."""
        return total_over(gradient, [mode for mode in self.order if mode in present - wanted])

    def into(self, value: Sum, gradient: Sum) -> None:
        """Adds to the gradients of the atoms of a sum what they have in its own, which differs along its modes."""
        for term in value.terms:
            for atom, exponent in term.powers:
                if not self.needed(atom):
                    continue
                rest = tuple((a, p - (a == atom)) for a, p in term.powers if a != atom or p != 1)
                part = spread(gradient, Sum((Term(term.number * exponent, rest),)))
                part = self.along(part, value.modes, atom.modes)
                found = add(self.collected[atom], part) if atom in self.collected else part
                if len(found.terms) > MOST_TERMS:
                    message = f"a gradient has more than {MOST_TERMS} terms"
                    raise DifferentiationError(message, "differentiate a part of the statements, as a spec of its own")
                self.collected[atom] = found

    def needed(self, atom: Atom) -> bool:
        """Whether something wanted is in an atom, and not only where no derivative goes."""
        if atom not in self.reaches:
            inner = (a for x in differentiated(atom) for a in x.atoms())
            self.reaches[atom] = atom in self.wanted or any(self.needed(a) for a in inner)
        return self.reaches[atom]

    def through(self, atom: Atom, gradient: Sum) -> None:
        """Takes the gradient of an atom on to what it is made of."""
        x = atom.arguments[0]
        if atom.kind == "reduce" and atom.name in ("max", "min"):
            self.through_extreme(atom, gradient)
        elif atom.kind == "reduce" and atom.name in OF_REDUCTIONS:
            whole = OF_REDUCTIONS[atom.name].replace(", N)", f", {atom.mode})")
            values = {"x": x, "f": of(atom), "n": of(size(atom.mode))}
            self.into(x, spread(gradient, sum_of_text(whole, values)))
        elif atom.kind in ("group", "reduce") or atom.name.startswith("cast "):
            self.into(x, gradient)
        else:
            values = dict(zip(FUNCTIONS[atom.name].parameters, atom.arguments, strict=True)) | {"f": of(atom)}
            for argument, text in zip(atom.arguments, DERIVATIVES[atom.name], strict=True):
                if text is not None and any(self.needed(a) for a in argument.atoms()):
                    part = spread(gradient, sum_of_text(text, values))
                    self.into(argument, self.along(part, atom.modes, argument.modes))

    def through_extreme(self, atom: Atom, gradient: Sum) -> None:
        """The gradient of a largest or smallest value: all that are equal to it share it evenly, as by torch's amax."""
        x = atom.arguments[0]
        is_extreme = call("==", [x, of(atom)])
        count = total(is_extreme, atom.mode)
        self.into(x, spread(gradient, times(indicator(is_extreme), power(count, -1))))


def differentiated(atom: Atom) -> tuple[Sum, ...]:
    """The arguments of an atom by which it has a derivative."""
    if atom.kind == "reduce" and atom.name in CONSTANT:
        return ()
    if atom.kind in ("group", "reduce") or atom.name.partition(" ")[2] in _FLOATS:
        return atom.arguments
    if atom.kind != "call":
        return ()
    texts: Mapping[str, tuple[str | None, ...]] = DERIVATIVES
    return tuple(x for x, text in zip(atom.arguments, texts.get(atom.name, ()), strict=False) if text is not None)


def vanishes(x: Sum) -> bool:
    """Whether a sum is zero once all of it is multiplied out, over what it is divided by in parentheses."""
    if not x.terms:
        return True
    if len(x.terms) == 1:
        return False
    whole = expanded(scaled(x, 1))
    divisors = dict.fromkeys(atom for term in x.terms for atom, p in term.powers if p < 0 and atom.kind == "group")
    for atom in divisors:
        if whole is not None and whole.terms:
            most = max(-term.power(atom) for term in whole.terms)
            whole = expanded(spread(whole, of(atom, most))) if most > 0 else whole
    return whole is not None and not whole.terms
