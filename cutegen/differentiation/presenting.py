"""Sums as expressions of the language, as a person would write them.

Factors of all terms come before parentheses, then the factor that most terms have. What is multiplied by a truth is
chosen by `where`; sums divided by their size are means; sums along one mode that are added are one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from fractions import Fraction
from typing import get_args

from cutegen.differentiation.cost import common, without
from cutegen.dtypes import Dtype
from cutegen.expressions.sums import Atom, Sum, Term, add, scaled
from cutegen.expressions.tree import (
    BITWISE,
    MAX_POWER,
    QUOTIENTS,
    SHIFTS,
    Binary,
    BinaryOp,
    Call,
    Cast,
    Coord,
    Expr,
    Literal_,
    Name,
    Reduce,
    Unary,
)

_LONG_NUMBER = 10  # characters, from which on a quotient of whole numbers is shorter
_WHOLE = 1000


class Presenter:
    """Writes sums. `sizes` are those of modes that have one only; names in `given` stand in front of products."""

    def __init__(self, sizes: Mapping[str, int], given: Collection[str], all_sums: Iterable[Sum]) -> None:
        self.sizes, self.given = sizes, frozenset(given)
        uses = Counter(a for x in all_sums for term in x.terms for a, _ in term.powers)
        self.shared = {atom for atom, count in uses.items() if count > 1}

    def gradient(self, x: Sum) -> Expr:
        """A sum, with its common factors in front of parentheses."""
        return self._factored(self._merged(x))

    def plain(self, x: Sum) -> Expr:
        """A sum in the order in which it was written."""
        return self._added([self._signed(term) for term in self._merged(x).terms])

    # ------------------------------------------------------------------------------------------------------ sums

    def _factored(self, x: Sum) -> Expr:
        return negated(*self._factored_signed(x))

    def _factored_signed(self, x: Sum) -> tuple[bool, Expr]:
        """A sum as an expression, and whether that is the sum's negative."""
        if len(x.terms) < 2:
            return self._signed(x.terms[0]) if x.terms else (False, Literal_(0))
        truths = [atom for atom, _ in x.terms[0].powers if atom.kind == "indicator"]
        for truth in truths:
            if all(term.power(truth) for term in x.terms):
                inner = without(x, Term(Fraction(1), ((truth, 1),)))
                return False, self._chosen(truth, self._factored(inner))
        outside, rest = common(x)
        if outside.powers or outside.number != 1:
            negative, inner_expr = self._factored_signed(rest)
            return negative, self._product(outside, [inner_expr])
        if all(term.number < 0 for term in x.terms):
            return True, self._factored(scaled(x, -1))
        return False, self._added(self._parts(x))

    def _parts(self, x: Sum) -> list[tuple[bool, Expr]]:
        """The parts of a sum without common factor: choices by one condition together, then by the commonest factor."""
        for atom in x.atoms():
            if atom.kind == "indicator":
                other = Atom("indicator", "false" if atom.name == "true" else "true", atom.arguments)
                sides = [Sum(tuple(t for t in x.terms if t.power(a))) for a in (atom, other)]
                rest = Sum(tuple(t for t in x.terms if not t.power(atom) and not t.power(other)))
                if len(sides[0].terms) > 1 or sides[1].terms:
                    return [*self._rest(rest), self._choice(atom, other, sides[0], sides[1])]
        counts = Counter((atom, p > 0) for term in x.terms for atom, p in term.powers if atom.kind != "size")
        best = max(counts, key=lambda each: counts[each], default=None)
        if best is None or counts[best] < 2:
            return [self._signed(term) for term in x.terms]
        those = Sum(tuple(term for term in x.terms if (term.power(best[0]) > 0) == best[1] and term.power(best[0])))
        others = Sum(tuple(term for term in x.terms if term not in those.terms))
        parts = [self._factored_signed(those), *self._rest(others)]
        first = x.terms[0] in those.terms
        return parts if first else [*parts[1:], parts[0]]

    def _rest(self, x: Sum) -> list[tuple[bool, Expr]]:
        if not x.terms:
            return []
        return [self._factored_signed(x)] if len(x.terms) == 1 or common(x)[0].powers else self._parts(x)

    def _choice(self, truth: Atom, other: Atom, yes: Sum, no: Sum) -> tuple[bool, Expr]:
        """Returns a `where` that chooses between two sums by a condition, preceded by whether it is to be negated."""
        one = without(yes, Term(Fraction(1), ((truth, 1),)))
        two = without(no, Term(Fraction(1), ((other, 1),)))
        negative = all(term.number < 0 for term in (*one.terms, *two.terms))
        first, second = (self._factored(scaled(side, -1 if negative else 1)) for side in (one, two))
        if truth.name == "false":
            first, second = second, first
        return negative, _where(self.plain(truth.arguments[0]), first, second)

    def _added(self, parts: Sequence[tuple[bool, Expr]]) -> Expr:
        """Parts, starting with one that is not subtracted, if there is any."""
        if not parts:
            return Literal_(0)
        first = next((i for i, (negative, _) in enumerate(parts) if not negative), 0)
        ordered = [parts[first], *parts[:first], *parts[first + 1 :]]
        result = negated(*ordered[0])
        for negative, part in ordered[1:]:
            result = Binary("-" if negative else "+", result, part)
        return result

    def _merged(self, x: Sum) -> Sum:
        """A sum whose reductions along one mode, with the same factors around them, are one reduction."""
        groups: dict[tuple[str, frozenset[tuple[Atom, int]]], list[tuple[Term, Atom]]] = {}
        terms: list[Term | tuple[str, frozenset[tuple[Atom, int]]]] = []
        for term in x.terms:
            sums = [a for a, p in term.powers if a.kind == "reduce" and a.name == "sum" and p == 1]
            if len(sums) != 1 or sums[0] in self.shared:
                terms.append(term)
                continue
            key = (sums[0].mode, frozenset(term.factors - {(sums[0], 1)}))
            if key not in groups:
                terms.append(key)
            groups.setdefault(key, []).append((term, sums[0]))
        found = []
        for entry in terms:
            if isinstance(entry, Term):
                found.append(entry)
                continue
            members = groups[entry]
            if len(members) == 1:
                found.append(members[0][0])
                continue
            inner = self._merged(add(*(scaled(a.arguments[0], term.number) for term, a in members)))
            whole = Atom("reduce", "sum", (inner,), entry[0])
            powers = tuple((whole if a == members[0][1] else a, p) for a, p in members[0][0].powers)
            found.append(Term(Fraction(1), powers))
        return Sum(tuple(found))

    # -------------------------------------------------------------------------------------------------- products

    def _signed(self, term: Term) -> tuple[bool, Expr]:
        """A term without its sign, and whether that is negative."""
        truths = [atom for atom, _ in term.powers if atom.kind == "indicator"]
        if not truths:
            return term.number < 0, self._product(Term(abs(term.number), term.powers), [])
        rest = Term(term.number, tuple((atom, p) for atom, p in term.powers if atom != truths[0]))
        negative, inner = self._signed(rest)
        return negative, self._chosen(truths[0], inner)

    def _chosen(self, truth: Atom, x: Expr) -> Expr:
        nothing = Literal_(0)
        sides = (x, nothing) if truth.name == "true" else (nothing, x)
        return _where(self.plain(truth.arguments[0]), *sides)

    def _product(self, term: Term, last: list[Expr]) -> Expr:
        """The product of a term that is not negative, without truths, and of what comes last."""
        over: list[Expr] = []
        under: list[Expr] = []
        factor = term.number
        sizes = {atom.mode or atom.name: p for atom, p in term.powers if atom.kind == "size"}
        for atom, exponent in sorted(term.powers, key=self._rank):
            if atom.kind == "size":
                continue
            side = over if exponent > 0 else under
            left = abs(exponent)
            while atom.kind == "reduce" and atom.name == "sum" and left and sizes.get(atom.mode, 0) * exponent < 0:
                over_size = 1 if exponent > 0 else -1
                sizes[atom.mode] += over_size
                side.append(self._mean(atom))
                left -= 1
            side += _powers(self._atom(atom), left)
        for mode, exponent in sizes.items():
            if mode in self.sizes:
                factor *= Fraction(self.sizes[mode]) ** exponent
            else:
                (over if exponent > 0 else under).extend(_powers(size_of(mode), abs(exponent)))
        over += last
        if factor.denominator != 1 and len(repr(float(factor))) >= _LONG_NUMBER and factor.denominator < _WHOLE:
            under.insert(0, _literal(Fraction(factor.denominator)))
            factor = Fraction(factor.numerator)
        if factor != 1 or not over:
            over.insert(0, _literal(factor))
        result = _chain("*", over)
        return Binary("/", result, _chain("*", under)) if under else result

    def _rank(self, factor: tuple[Atom, int]) -> tuple[bool, int]:
        """The sort key of a factor: names in `given` come first, then atoms with most modes."""
        return factor[0].name not in self.given, -len(factor[0].modes)

    def _mean(self, atom: Atom) -> Expr:
        return Reduce("mean", self._reduced(atom), atom.mode)

    def _reduced(self, atom: Atom) -> Expr:
        return self._factored(atom.arguments[0]) if atom.name == "sum" else self.plain(atom.arguments[0])

    def _atom(self, atom: Atom) -> Expr:
        match atom.kind:
            case "name" if atom.name in ("inf", "nan"):
                return Literal_(float(atom.name))
            case "name":
                return Name(atom.name)
            case "coord":
                return Coord(atom.name)
            case "group":
                return self.plain(atom.arguments[0])
            case "reduce":
                return Reduce(atom.name, self._reduced(atom), atom.mode)
        arguments = [self.plain(argument) for argument in atom.arguments]
        name, _, dtype = atom.name.partition(" ")
        if name == "cast":
            return Cast(arguments[0], True, dtype=Dtype(dtype))
        if name in ("not", "~"):
            return Unary(name, arguments[0] if name == "not" else _whole(arguments[0]))  # type: ignore[arg-type]
        if name in (*BITWISE, *SHIFTS, *QUOTIENTS):
            return Binary(name, *map(_whole, arguments))  # type: ignore[arg-type]
        if name in get_args(BinaryOp):
            return Binary(name, *arguments)  # type: ignore[arg-type]
        return _where(*arguments) if name == "where" else Call(name, tuple(arguments))


def size_of(mode: str) -> Expr:
    """The number of elements along a mode: one more than the last coordinate."""
    return Binary("+", Reduce("max", Coord(mode), mode), Literal_(1))


def _where(condition: Expr, yes: Expr, no: Expr) -> Expr:
    """A choice; between numbers alone one of floats."""
    if all(isinstance(side, Literal_) or _is_number(side) for side in (yes, no)):
        yes, no = (Literal_(float(x.value)) if isinstance(x, Literal_) else x for x in (yes, no))
    return Call("where", (condition, yes, no))


def _is_number(x: Expr) -> bool:
    """Whether an expression is one of several numbers."""
    return isinstance(x, Call) and x.function == "where" and all(isinstance(n, Literal_) for n in x.arguments[1:])


def _whole(x: Expr) -> Expr:
    """An integer whose large numbers were written as floats."""
    match x:
        case Literal_(value=float(value)) if value.is_integer():
            return Literal_(int(value))
        case Unary(op="-"):
            return Unary(x.op, _whole(x.x))
        case Binary(op="+" | "-" | "*" | "**"):
            return Binary(x.op, _whole(x.left), _whole(x.right))
    return x


def negated(negative: bool, x: Expr) -> Expr:
    """The negative of an expression, whose sign goes into its first factor where that is a number."""
    if not negative:
        return x
    if isinstance(x, Literal_):
        return Literal_(-x.value)
    if isinstance(x, Binary) and x.op in ("*", "/"):
        return Binary(x.op, negated(True, x.left), x.right)
    return Unary("-", x)


def _powers(x: Expr, exponent: int) -> list[Expr]:
    """A power as factors: a square of a name is that name twice."""
    if exponent == 0:
        return []
    if exponent == 1 or exponent == 2 and isinstance(x, Name):
        return [x] * exponent
    if exponent > MAX_POWER:
        return [Binary("**", x, Literal_(MAX_POWER)), *_powers(x, exponent - MAX_POWER)]
    return [Binary("**", x, Literal_(exponent))]


def _literal(value: Fraction) -> Expr:
    """A number: whole ones without a point where an i32 holds them."""
    return Literal_(int(value)) if value.denominator == 1 and abs(value) < 2**31 else Literal_(float(value))


def _chain(op: BinaryOp, parts: Sequence[Expr]) -> Expr:
    """Parts, joined from left to right."""
    result = parts[0]
    for part in parts[1:]:
        result = Binary(op, result, part)
    return result
