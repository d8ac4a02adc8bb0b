"""Expressions as sums of products: equal ones are equal objects, independent of the written order.

A `Sum` has terms, a term is a number times atoms to whole powers, and an atom is a name, a function of sums, a
reduction of one or a sum in parentheses. The functions below make them and keep to `LAWS`. What is made keeps the order
in which it came, so that it can be printed as it was written.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from fractions import Fraction
from functools import cached_property
from typing import Literal

_ZERO_AT_ZERO = ("tanh", "silu", "gelu", "gelu_tanh", "relu", "abs", "sqrt")
AT_ZERO = {**dict.fromkeys(_ZERO_AT_ZERO, 0.0), "exp": 1.0, "sigmoid": 0.5}
"""Function -> its value at 0, where it is one without a rounding."""

LAWS = {
    "numbers are computed": ("2 * x * 3 + x", "7 * x"),
    "a sum has no order": ("x + y - x", "y"),
    "a product has no order": ("x * y * x / y", "x * x"),
    "a difference from itself is nothing": ("(x + y) * z - z * (y + x)", "0 * x"),
    "signs come out of parentheses": ("(-x - y) * z", "-((x + y) * z)"),
    "a negative of a negative is positive": ("-(-x)", "x"),
    "dividing by a quotient multiplies": ("x / (y / z)", "x * z / y"),
    "an exponential of a sum with a logarithm": ("exp(x + log(z))", "z * exp(x)"),
    "an exponential of a difference with one": ("exp(x - 2 * log(z))", "exp(x) / (z * z)"),
    "a logarithm of an exponential": ("log(exp(x))", "x"),
    "functions of nothing": ("silu(x - x) + exp(x - x)", "1 + 0 * x"),
    "a choice between the same": ("where(x > y, z, z)", "z"),
    "the larger of the same": ("maximum(x, x)", "x"),
    "sums are added term by term": ("sum(x + y, N)", "sum(x, N) + sum(y, N)"),
    "what is the same along a row is no part of its sum": ("sum(x * w, N)", "w * sum(x, N)"),
    "a sum of what is the same counts it": ("mean(w + x, N)", "w + mean(x, N)"),
    "deviations from the mean have none": ("mean(x - mean(x, N), N)", "0 * w"),
    "what adds up to one": ("sum(x / sum(x, N), N)", "1 + 0 * w"),
}
"""Law -> two texts that are one sum; `w` is the same along the mode N, z is positive."""

MOST_BITS = 4096
"""Of a number's numerator or denominator: those of repeated powers would grow without end."""

Kind = Literal["name", "coord", "size", "call", "reduce", "group", "indicator"]
Powers = tuple[tuple["Atom", int], ...]
Number = int | float | Fraction
_ONE = Fraction(1)
_OF_ALIKE = ("max", "min", "any", "all")  # reductions that give what all elements are, where these are alike


class NoForm(Exception):
    """Says why an expression has no form as a sum: a number is infinite or too long, or there are too many terms."""


class Atom:
    """A factor of a product.

    `name` is that of a tensor, a scalar, a value or a function; a reduction also has its `mode`. An indicator is 1
    where its condition is as its name says, `true` or `false`, and 0 elsewhere. `modes` are those along which the atom
    varies.
    """

    def __init__(
        self,
        kind: Kind,
        name: str,
        arguments: tuple[Sum, ...] = (),
        mode: str = "",
        modes: frozenset[str] = frozenset(),
    ) -> None:
        self.kind, self.name, self.arguments, self.mode = kind, name, arguments, mode
        inner = modes.union(*(argument.modes for argument in arguments))
        self.modes: frozenset[str] = inner - {mode} if kind == "reduce" else inner
        self.height: int = 1 + max((argument.height for argument in arguments), default=-1)
        self._key = (kind, name, mode, arguments)
        self._hash = hash(self._key)

    def __hash__(self) -> int:
        return self._hash

    def __eq__(self, other: object) -> bool:
        if self is other:
            return True
        return isinstance(other, Atom) and self._hash == other._hash and self._key == other._key

    def __repr__(self) -> str:
        inside = ", ".join([*map(repr, self.arguments), *([self.mode] if self.mode else [])])
        return self.name if self.kind == "name" else f"{self.kind} {self.name}({inside})"


class Term:
    """A number times atoms to whole powers, none of which is 0. Raises NoForm for a number of more than MOST_BITS."""

    def __init__(self, number: Fraction, powers: Powers) -> None:
        if max(number.numerator.bit_length(), number.denominator.bit_length()) > MOST_BITS:
            raise NoForm(f"a number has more than {MOST_BITS} bits")
        self.number, self.powers = number, powers
        self.factors = frozenset(powers)

    @cached_property
    def modes(self) -> frozenset[str]:
        """Those that it differs along."""
        return frozenset[str]().union(*(atom.modes for atom, _ in self.powers))

    def power(self, atom: Atom) -> int:
        """The power of an atom; 0 where it is not there."""
        return next((power for other, power in self.powers if other == atom), 0)

    def __repr__(self) -> str:
        return " * ".join([str(self.number), *(f"{atom!r}^{power}" for atom, power in self.powers)])


class Sum:
    """Terms of different factors; none of them is zero."""

    def __init__(self, terms: tuple[Term, ...]) -> None:
        self.terms = terms

    @cached_property
    def modes(self) -> frozenset[str]:
        """Those that it differs along."""
        return frozenset[str]().union(*(term.modes for term in self.terms))

    @cached_property
    def height(self) -> int:
        """How many atoms are inside of each other."""
        return max((atom.height for term in self.terms for atom, _ in term.powers), default=0)

    @cached_property
    def _key(self) -> frozenset[tuple[Fraction, frozenset[tuple[Atom, int]]]]:
        return frozenset((term.number, term.factors) for term in self.terms)

    def __hash__(self) -> int:
        return hash(self._key)

    def __eq__(self, other: object) -> bool:
        return self is other or (isinstance(other, Sum) and self._key == other._key)

    def __repr__(self) -> str:
        return f"({' + '.join(map(repr, self.terms))})"

    @property
    def number(self) -> Fraction | None:
        """Its constant value for all arguments; None if there is none."""
        if not self.terms:
            return Fraction(0)
        return self.terms[0].number if len(self.terms) == 1 and not self.terms[0].powers else None

    @property
    def atom(self) -> Atom | None:
        """The atom that it is, if it is one alone."""
        term = self.terms[0] if len(self.terms) == 1 else None
        alone = term is not None and term.number == 1 and len(term.powers) == 1 and term.powers[0][1] == 1
        return term.powers[0][0] if term is not None and alone else None

    def atoms(self) -> Iterator[Atom]:
        """The atoms of its terms, not those inside of them."""
        return (atom for term in self.terms for atom, _ in term.powers)


# ------------------------------------------------------------------------------------------------------------- making


def number(value: Number) -> Sum:
    """A number."""
    return _sum([Term(Fraction(value), ())])


def of(atom: Atom, power: int = 1) -> Sum:
    """An atom to a power."""
    return _sum([Term(_ONE, ((atom, power),))])


def named(name: str, modes: Iterable[str] = ()) -> Atom:
    """The atom of a name."""
    return Atom("name", name, modes=frozenset(modes))


def size(mode: str) -> Atom:
    """The number of elements along a mode."""
    return Atom("size", mode)


def add(*sums: Sum) -> Sum:
    """The sum of sums."""
    return _sum(term for x in sums for term in x.terms)


def scaled(x: Sum, by: Number) -> Sum:
    """A sum times a number."""
    by = Fraction(by)
    return _sum(Term(term.number * by, term.powers) for term in x.terms)


def times(*factors: Sum) -> Sum:
    """The product of sums; those of several terms stay together, in parentheses."""
    return _sum([_product([factor_of(x) for x in factors])])


def spread(x: Sum, by: Sum) -> Sum:
    """The product as a sum of products of each term of `x`."""
    factor = factor_of(by)
    return _sum(_product([term, factor]) for term in x.terms)


def power(x: Sum, exponent: int) -> Sum:
    """A sum to a whole power; one divided by nothing is no number."""
    if not x.terms and exponent < 0:
        return of(named("nan"))
    term = factor_of(x)
    return _sum([Term(term.number**exponent, tuple((atom, p * exponent) for atom, p in term.powers))])


def call(name: str, arguments: Sequence[Sum]) -> Sum:
    """A function of sums, simplified where `LAWS` say so."""
    if name in ("where", "minimum", "maximum") and arguments[-1] == arguments[-2]:
        return arguments[-1]
    if name == "where" and (are_equal := _equal_numbers(arguments[0])) is not None:
        return arguments[1 if are_equal else 2]
    if name in AT_ZERO and not arguments[0].terms:
        return number(AT_ZERO[name])
    if name == "exp":
        return _exp(arguments[0])
    if name == "log" and (inner := arguments[0].atom) is not None and inner.kind == "call" and inner.name == "exp":
        return inner.arguments[0]
    return of(Atom("call", name, tuple(arguments)))


def _equal_numbers(condition: Sum) -> bool | None:
    """Whether a condition asks two numbers, such as a written exponent and 0, to be equal, and they are; else None."""
    atom = condition.atom
    if atom is None or atom.kind != "call" or atom.name != "==":
        return None
    left, right = (argument.number for argument in atom.arguments)
    return None if left is None or right is None else left == right


def indicator(condition: Sum, truth: bool = True) -> Sum:
    """1 where a condition holds, or where it does not, and 0 elsewhere."""
    return of(Atom("indicator", "true" if truth else "false", (condition,)))


def total(x: Sum, mode: str) -> Sum:
    """The sum along a mode, of each term apart, without what is the same along all of it."""
    return add(*(_total(term, mode) for term in x.terms))


def mean(x: Sum, mode: str) -> Sum:
    """The sum along a mode divided by its size."""
    return times_each(total(x, mode), of(size(mode), -1))


def times_each(x: Sum, by: Sum) -> Sum:
    """A sum times one term, without parentheses where it is one term itself."""
    return spread(x, by) if len(by.terms) == 1 else times(x, by)


def reduced(function: str, x: Sum, mode: str) -> Sum:
    """A reduction along a mode; the extreme of what is the same along it is that."""
    if function == "sum":
        return total(x, mode)
    if function == "mean":
        return mean(x, mode)
    if function in _OF_ALIKE and mode not in x.modes:
        return x
    return of(Atom("reduce", function, (x,), mode))


def total_over(x: Sum, modes: Iterable[str]) -> Sum:
    """The sum along several modes, the first of them innermost."""
    for mode in modes:
        x = total(x, mode)
    return x


def remade(atom: Atom, arguments: Sequence[Sum]) -> Sum:
    """An atom with other arguments, as a sum."""
    match atom.kind:
        case "call":
            return call(atom.name, arguments)
        case "reduce":
            return reduced(atom.name, arguments[0], atom.mode)
        case "indicator":
            return indicator(arguments[0], atom.name == "true")
    return arguments[0]


def expanded(x: Sum, most: int = 2000) -> Sum | None:
    """The sum without parentheses that can be multiplied out; None where more terms than `most` come of it."""
    while any(atom.kind == "group" and p > 0 for term in x.terms for atom, p in term.powers):
        terms: list[Term] = []
        for term in x.terms:
            group = next((atom for atom, p in term.powers if atom.kind == "group" and p > 0), None)
            if group is None:
                terms.append(term)
                continue
            rest = Term(term.number, tuple((a, p - (a == group)) for a, p in term.powers if p != 1 or a != group))
            terms += [_product([rest, inner]) for inner in group.arguments[0].terms]
            if len(terms) > most:
                return None
        x = _sum(terms)
    return x


def inside(x: Sum) -> Iterator[Atom]:
    """Every atom of a sum and inside of its atoms, each once."""
    seen: set[Atom] = set()
    waiting = list(reversed([*x.atoms()]))
    while waiting:
        atom = waiting.pop()
        if atom not in seen:
            seen.add(atom)
            yield atom
            waiting += reversed([inner for argument in atom.arguments for inner in argument.atoms()])


# ------------------------------------------------------------------------------------------------------------ the laws


def factor_of(x: Sum) -> Term:
    """A sum as one term: itself, or what is in parentheses, the first term's sign and the number of all outside."""
    if len(x.terms) == 1:
        return x.terms[0]
    if not x.terms:
        return Term(Fraction(0), ())
    sizes = {abs(term.number) for term in x.terms}
    outside = sizes.pop() if len(sizes) == 1 else _ONE
    if x.terms[0].number < 0:
        outside = -outside
    return Term(outside, ((Atom("group", "", (x if outside == 1 else scaled(x, 1 / outside),)), 1),))


def _sum(terms: Iterable[Term]) -> Sum:
    """The terms, those of the same factors as one; a sum times a number, or over a mode's size, as its terms."""
    found: dict[frozenset[tuple[Atom, int]], Term] = {}

    def put(term: Term) -> None:
        others = [(atom, p) for atom, p in term.powers if atom.kind != "size"]
        if len(others) == 1 and others[0][1] == 1 and others[0][0].kind == "group":
            outside = Term(term.number, tuple((atom, p) for atom, p in term.powers if atom.kind == "size"))
            for inner in others[0][0].arguments[0].terms:
                put(_product([inner, outside]))
            return
        other = found.get(term.factors)
        found[term.factors] = term if other is None else Term(other.number + term.number, other.powers)

    for term in terms:
        put(term)
    return Sum(tuple(term for term in found.values() if term.number))


def _product(terms: Iterable[Term]) -> Term:
    """The product of terms."""
    factor, powers = _ONE, dict[Atom, int]()
    for term in terms:
        if term.number is not _ONE:
            factor *= term.number
        for atom, exponent in term.powers:
            powers[atom] = powers.get(atom, 0) + exponent
    for atom in list(powers):
        if atom.kind == "indicator":
            powers[atom] = max(-1, min(powers[atom], 1))
            if Atom("indicator", "false" if atom.name == "true" else "true", atom.arguments) in powers:
                return Term(Fraction(0), ())
    return Term(factor, tuple((atom, exponent) for atom, exponent in powers.items() if exponent))


def _total(term: Term, mode: str) -> Sum:
    """A term summed along a mode: what is the same along it comes before the sum."""
    outside = Term(term.number, tuple((atom, p) for atom, p in term.powers if mode not in atom.modes))
    within = tuple((atom, p) for atom, p in term.powers if mode in atom.modes)
    if not within:
        return _sum([_product([outside, Term(_ONE, ((size(mode), 1),))])])
    if len(within) == 1 and within[0][0].kind == "group" and within[0][1] == 1:
        return spread(total(within[0][0].arguments[0], mode), Sum((outside,)))
    whole = Atom("reduce", "sum", (Sum((Term(_ONE, within),)),), mode)
    return _sum([_product([outside, Term(_ONE, ((whole, 1),))])])


def _exp(x: Sum) -> Sum:
    """The exponential, before which logarithms in the exponent come as what they are of."""
    factors, rest = [], []
    for term in x.terms:
        log = term.powers[0][0] if len(term.powers) == 1 and term.powers[0][1] == 1 else None
        if log is not None and log.kind == "call" and log.name == "log" and term.number.denominator == 1:
            factors.append(power(log.arguments[0], int(term.number)))
        else:
            rest.append(term)
    left = Sum(tuple(rest))
    return times(*factors, of(Atom("call", "exp", (left,)))) if rest else times(number(1), *factors)
