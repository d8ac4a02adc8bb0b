"""What statements compute, as a form that two of them share only if they are equal wherever both are defined.

An expression is a sum of products: a number for each set of factors with their powers. Factors are names, and what is
not multiplied out: functions, reductions, comparisons, sums that are divided by. Each is known by a number, so that
equal factors are one. What earlier statements computed is put in the place of its name.

`where(c, x, y)` is `[c] * x + (1 - [c]) * y`, where `[c]` is 1 if the condition holds and 0 if not. So it is the same
wherever it stands in a product: `where(c, 0, x) * y` is `where(c, 0, x * y)`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from fractions import Fraction

from cutegen.expressions.tree import (
    Binary,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    Literal_,
    Local,
    MatMul,
    Name,
    Reduce,
    Unary,
)

Term = tuple[tuple[int, Fraction], ...]  # factors by their numbers, in order, with their powers
Form = tuple[tuple[Term, Fraction], ...]  # each term once, in order, with what it is multiplied by
MOST_TERMS = 256
MOST_BITS = 4096  # of a number: repeated powers grow without end
ONE: Form = (((), Fraction(1)),)


class NoForm(Exception):
    """Says that an expression has no form here: it has too many terms, or a number that is infinite or very long."""


class Forms:
    """Makes forms; those that one object made can be compared with `==`."""

    def __init__(self) -> None:
        self._factors: dict[object, int] = {}  # from 1; those that are 0 or 1, their own squares, are negative

    def of(
        self, compute: Compute, names: Mapping[str, Form] | None = None, modes: Mapping[str, str] | None = None
    ) -> dict[str, Form]:
        """The form of what each target holds in the end.

        `names` are the forms of names that are not assigned before they are read, where they are not just the names;
        `modes` are other names for modes. Raises NoForm.
        """
        known, modes = dict(names or {}), modes or {}
        for statement in compute.statements:
            known[statement.target] = self._form(statement.value, known, modes)
        return {target: known[target] for target in compute.targets}

    def name(self, name: str) -> Form:
        """The form of a name alone."""
        return self._factor("name", name)

    def size(self, mode: str) -> Form:
        """The form of the number of elements along a mode whose size is not known."""
        return self._factor("size", mode)

    def _form(self, node: Expr, known: Mapping[str, Form], modes: Mapping[str, str]) -> Form:
        def form(child: Expr) -> Form:
            return self._form(child, known, modes)

        match node:
            case Literal_():
                return number(node.value)
            case Name() | Local():
                return known[node.id] if node.id in known else self.name(node.id)
            case Unary(op="-"):
                return _negative(form(node.x))
            case Binary(op="+"):
                return _sum((form(node.left), form(node.right)))
            case Binary(op="-"):
                return _sum((form(node.left), _negative(form(node.right))))
            case Binary(op="*"):
                return _product(form(node.left), form(node.right))
            case Binary(op="/"):
                return _product(form(node.left), self._power(form(node.right), Fraction(-1)))
            case Binary(op="**", right=Literal_(value=exponent)):
                found, base = ONE, form(node.left)
                for _ in range(int(exponent)):
                    found = _product(found, base)
                return found
            case Call(function="sqrt" | "rsqrt"):
                return self._power(form(node.arguments[0]), Fraction(1 if node.function == "sqrt" else -1, 2))
            case Call(function="silu"):
                x = form(node.arguments[0])
                return _product(x, self._factor("sigmoid", x))
            case Call(function="where"):
                holds, (x, y) = self._condition(node.arguments[0], form), map(form, node.arguments[1:])
                return _sum((_product(holds, x), _product(_not(holds), y)))
            case Call():
                return self._factor(node.function, *map(form, node.arguments))
            case Reduce():
                return self._factor("reduce", node.function, modes.get(node.mode, node.mode), form(node.x))
            case Coord():
                return self._factor("coord", modes.get(node.mode, node.mode))
            case Cast():
                return self._factor("cast", node.dtype, form(node.x))
            case MatMul():
                a, b = (known[name] if name in known else self.name(name) for name in (node.a, node.b))
                return self._factor("matmul", a, b)
            case Unary() | Binary():
                return self._factor(node.op, *map(form, node.children))

    def _condition(self, node: Expr, form: Callable[[Expr], Form]) -> Form:
        """1 where a condition holds, and 0 where it does not."""
        match node:
            case Unary(op="not"):
                return _not(self._condition(node.x, form))
            case Binary(op="!="):
                return _not(self._condition(replace(node, op="=="), form))
            case Binary(op="=="):
                return self._truth(node.op, *sorted(map(form, node.children)))
            case _:
                return self._truth("holds", form(node))

    def _power(self, form: Form, power: Fraction) -> Form:
        """A form to a power that is negative or broken: into a single product, where that is the same for all reals."""
        if len(form) == 1 and power.denominator == 1:
            ((term, factor),) = form
            return ((tuple((number, old * power) for number, old in term), factor**power.numerator),)
        return ((((self._number("sum", form), power),), Fraction(1)),)

    def _factor(self, *key: object) -> Form:
        return ((((self._number(*key), Fraction(1)),), Fraction(1)),)

    def _truth(self, *key: object) -> Form:
        return ((((-self._number("truth", *key), Fraction(1)),), Fraction(1)),)

    def _number(self, *key: object) -> int:
        return self._factors.setdefault(key, len(self._factors) + 1)


def number(value: float) -> Form:
    """The form of a number. Raises NoForm for what is none."""
    try:
        exact = Fraction(value)
    except (OverflowError, ValueError):
        raise NoForm(f"{value} is no real number") from None
    return (((), exact),) if exact else ()


def _negative(form: Form) -> Form:
    return tuple((term, -factor) for term, factor in form)


def _not(form: Form) -> Form:
    return _sum((ONE, _negative(form)))


def _sum(forms: Iterable[Form]) -> Form:
    found: dict[Term, Fraction] = {}
    for form in forms:
        for term, factor in form:
            found[term] = found.get(term, Fraction(0)) + factor
    if len(found) > MOST_TERMS or any(_bits(factor) > MOST_BITS for factor in found.values()):
        raise NoForm("too many terms, or too long numbers")
    return tuple(sorted((term, factor) for term, factor in found.items() if factor))


def _product(left: Form, right: Form) -> Form:
    if len(left) * len(right) > MOST_TERMS:
        raise NoForm("too many terms")
    return _sum(((_times(a, b), x * y),) for a, x in left for b, y in right)


def _bits(value: Fraction) -> int:
    return max(value.numerator.bit_length(), value.denominator.bit_length())


def _times(left: Term, right: Term) -> Term:
    powers = dict(left)
    for factor, power in right:
        power += powers.get(factor, Fraction(0))
        powers[factor] = power if factor > 0 else max(Fraction(-1), min(power, Fraction(1)))
    return tuple(sorted((factor, power) for factor, power in powers.items() if power))
