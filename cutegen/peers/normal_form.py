"""Normal forms of statements, as sums: two statements have the same form only if they are equal where both are defined.

Products are multiplied out, also inside functions and divisors. `where(c, x, y)` is `[c] * x + (1 - [c]) * y`, where
`[c]` is 1 if the condition holds and 0 if not. So its place in a product does not matter: `where(c, 0, x) * y` is
`where(c, 0, x * y)`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from fractions import Fraction
from functools import cache

from cutegen.expressions.defining import definition
from cutegen.expressions.functions import FUNCTIONS, WAYS
from cutegen.expressions.named_numbers import NAMED_NUMBERS
from cutegen.expressions.parsing import parse
from cutegen.expressions.reading_sums import sum_of
from cutegen.expressions.sums import (
    Atom,
    NoForm,
    Sum,
    Term,
    add,
    call,
    expanded,
    number,
    power,
    remade,
    scaled,
    times,
)
from cutegen.expressions.tree import Compute, Expr

MOST_TERMS = 256


class NormalForms:
    """Makes normal forms; those that one object made can be compared with `==`.

    `sizes` are those of modes that have one size alone. Equal atoms of normal forms are one object, so that a form with
    parts that are used again and again is compared, and made, as fast as one without.
    """

    def __init__(self, sizes: Mapping[str, int] | None = None) -> None:
        self._sizes = sizes or {}
        self._sums: dict[Sum, Sum] = {}
        self._forms: dict[Atom, Sum] = {}
        self._places: dict[Atom, int] = {}  # of the atoms that forms are made of, as they came
        self._read: dict[object, Sum] = {}

    def of(
        self, compute: Compute, values: Mapping[str, Sum], modes: Mapping[str, str] | None = None
    ) -> Iterator[tuple[str, Sum]]:
        """The targets of statements with the normal forms of what they are assigned, one after the other.

        `values` are those of names that are read before they are assigned; `modes` are other names for modes. Raises
        NoForm.
        """
        known, modes = dict(values), modes or {}
        renamed = tuple(modes.items())
        for statement in compute.statements:
            key = (statement, renamed, *(known[name] for name in statement.names()))
            if key not in self._read:
                self._read[key] = self.normal(sum_of(statement.value, known, modes=modes))
            known[statement.target] = self._read[key]
            yield statement.target, known[statement.target]

    def normal(self, x: Sum) -> Sum:
        """The normal form of a sum. Raises NoForm."""
        if x not in self._sums:
            whole = _expanded(add(*map(self._term, x.terms)))
            self._sums[x] = add(*map(self._over_one, whole.terms))
        return self._sums[x]

    def _term(self, term: Term) -> Sum:
        """A term of the forms of its atoms, with those of several terms in parentheses."""
        if all(self._form(atom).atom is atom for atom, _ in term.powers):
            return Sum((term,))
        return times(number(term.number), *(self._power(self._form(atom), p) for atom, p in term.powers))

    def _over_one(self, term: Term) -> Sum:
        """A term with one sum that it is divided by, which is the product of all that there were."""
        sums = tuple((atom, -p) for atom, p in term.powers if atom.kind == "group")
        if sum(p for _, p in sums) < 2:
            return Sum((term,))
        above = Term(term.number, tuple((atom, p) for atom, p in term.powers if atom.kind != "group"))
        return times(Sum((above,)), self._power(_expanded(Sum((Term(Fraction(1), sums),))), -1))

    def _power(self, x: Sum, exponent: int) -> Sum:
        """A form to a power. Of several terms it is one atom, with the number of the first of them outside."""
        if not x.terms and exponent < 0:
            raise NoForm("something is divided by 0")
        if len(x.terms) < 2:
            return x if exponent == 1 else power(x, exponent)
        first = min(x.terms, key=self._place).number
        whole = self._one(Atom("group", "", (scaled(x, 1 / first),))).terms[0].powers[0][0]
        return Sum((Term(first**exponent, ((whole, exponent),)),))

    def _place(self, term: Term) -> list[tuple[int, int]]:
        """The first term, independent of the order of a sum's terms."""
        return sorted((self._places[atom], p) for atom, p in term.powers)

    def _form(self, atom: Atom) -> Sum:
        if atom not in self._forms:
            self._forms[atom] = self._new_form(atom)
        return self._forms[atom]

    def _one(self, atom: Atom) -> Sum:
        """The form of an atom that forms are made of: that of the first one that was equal to it."""
        if atom not in self._places:
            self._places[atom] = len(self._places)
            self._forms[atom] = Sum((Term(Fraction(1), ((atom, 1),)),))
        return self._forms[atom]

    def _new_form(self, atom: Atom) -> Sum:
        if atom.kind == "size" and atom.name in self._sizes:
            return number(self._sizes[atom.name])
        if atom.kind == "name" and atom.name in NAMED_NUMBERS:
            raise NoForm(f"{atom.name} is no real number")
        if not atom.arguments:
            return self._one(atom)
        arguments = [self.normal(argument) for argument in atom.arguments]
        if atom.kind == "group":
            return arguments[0]
        meaning = _meaning(atom.name) if atom.kind == "call" else None
        if meaning is not None:
            return self.normal(sum_of(meaning, dict(zip(FUNCTIONS[atom.name].parameters, arguments, strict=True))))
        match atom.name:
            case "where":
                (_, x, y), holds = arguments, self._truth(arguments[0])
                return self.normal(add(times(holds, x), times(_not(holds), y)))
            case "rsqrt":
                return self.normal(power(call("sqrt", arguments), -1))
            case "!=":
                return self.normal(call("not", [call("==", arguments)]))
            case ">" | ">=":
                return self.normal(call(atom.name.replace(">", "<"), arguments[::-1]))
            case "<" | "<=" | "==":
                return self._comparison(atom.name, self.normal(add(arguments[0], scaled(arguments[1], -1))))
            case "minimum" | "maximum":
                arguments.sort(key=lambda x: sorted((self._place(term), term.number) for term in x.terms))
        found = remade(atom, arguments)
        whole = found.atom
        return self._one(whole) if whole is not None and whole.arguments else self.normal(found)

    def _comparison(self, operator: str, difference: Sum) -> Sum:
        """How a difference compares with 0, where 2 * x - 2 * y compares as x - y does."""
        if (known := difference.number) is not None:
            return number({"<": known < 0, "<=": known <= 0, "==": known == 0}[operator])
        first = min(difference.terms, key=self._place).number
        by = 1 / (first if operator == "==" else abs(first))
        return self._one(Atom("call", operator, (scaled(difference, by), number(0))))

    def _truth(self, condition: Sum) -> Sum:
        """1 where a condition holds, and 0 where it does not."""
        if condition.number is not None:
            return number(condition.number != 0)
        atom = condition.atom
        parts = [] if atom is None else atom.arguments
        match atom and atom.name:
            case "not":
                return _not(self._truth(parts[0]))
            case "and":
                return times(*map(self._truth, parts))
            case "or":
                return _not(times(*(_not(self._truth(part)) for part in parts)))
        return self._one(Atom("indicator", "true", (condition,)))


def _expanded(x: Sum) -> Sum:
    found = expanded(x, MOST_TERMS)
    if found is None or len(found.terms) > MOST_TERMS:
        raise NoForm(f"there are more than {MOST_TERMS} terms")
    return found


def _not(truth: Sum) -> Sum:
    return add(number(1), scaled(truth, -1))


@cache
def _meaning(function: str) -> Expr | None:
    """A function written with others."""
    if function in WAYS:
        return parse(f"_ = {WAYS[function]}").value
    return definition(function) if function in FUNCTIONS else None
