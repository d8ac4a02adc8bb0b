"""The statements of a kernel that walks a mode, as sums of tensors and scalars. Products of two tensors, and the sums
and maxima that are carried from tile to tile, are atoms with names.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cached_property

from cutegen.differentiation.choosing import Value
from cutegen.differentiation.rebuilding import rebuilt as rebuilt_sum
from cutegen.expressions.reading_sums import sum_of
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.sums import Atom, Sum, indicator, inside, named, of, times
from cutegen.expressions.tree import ON_FLOATS, Binary, Call, Cast, Expr, Len, Literal_, Local, Name, walk
from cutegen.language.model import KernelSpec
from cutegen.ops.walked import Carried, Walked

CARRIED = "carried "  # begins the names of what is carried, and LENGTH those of sizes: no spec can have such names
LENGTH = "len "


class WalkedForward:
    """The meaning of each statement of a kernel, as a sum, and its text."""

    def __init__(self, spec: KernelSpec, walked: Walked) -> None:
        self.spec, self.walked = spec, walked
        self.rows = (*walked.batch, *walked.rows)
        self.along = (*walked.around, walked.walked)
        self.elements = (*self.rows, *self.along)
        self.products = {one.name: named(one.name, self.elements) for one in walked.products}
        self.carried = {one.name: named(f"{CARRIED}{one.name}", walked.spans[one.name]) for one in walked.carried}
        self.meanings: dict[str, Sum] = {s.name: of(named(s.name)) for s in spec.scalars}
        self.meanings |= {t.name: of(named(t.name, t.modes)) for t in spec.tensors if t.reads}
        self.meanings |= {f"{LENGTH}{mode}": of(named(f"{LENGTH}{mode}")) for mode in spec.modes}
        self.texts: dict[str, Expr] = {}
        for name, value in walked.definitions.items():
            self.texts[name] = bare(value)
            atom = self.products.get(name) or self.carried.get(name)
            self.meanings[name] = self.meaning(value) if atom is None else of(atom)

    def meaning(self, value: Expr) -> Sum:
        """An expression of the statements as a sum. Casts from float to float are left out: they only round."""
        return sum_of(without_rounding(bare(value)), self.meanings)

    def term(self, one: Carried) -> Sum:
        """The terms of a sum or a maximum, for each element; of a product with a tensor the other factor."""
        if one.product is None:
            return self.meaning(one.value)
        assert one.product.factor is not None
        return self.meaning(one.product.factor)

    @cached_property
    def outputs(self) -> list[Value]:
        """The outputs of floats, and what was computed for each."""
        floats = [t for t in self.spec.outputs if t.dtype.is_float]
        return [Value(t.name, self.meanings[t.name]) for t in floats]

    @cached_property
    def locals(self) -> list[Value]:
        """The local values that depend on no carried sum or maximum: another kernel can compute them again."""
        stored = {t.name for t in self.spec.outputs}
        names = [name for name in self.walked.definitions if name not in (*self.products, *self.carried, *stored)]
        values = [Value(name, self.meanings[name]) for name in names]
        return [value for value in values if not carried_in(value.meaning)]

    def line_of(self, name: str) -> str:
        """The line of the statement that computes the value of this name, as `line 12: `; empty for a spec that was not
        read from a text.
        """
        compute, values = self.spec.compute, self.spec.source.values
        number = next((i for i, one in enumerate(compute.statements) if one.target == name), None)
        if number is None:  # a part of a statement
            text = self.texts.get(name)
            said = (i for i, x in enumerate(compute.values) if any(bare(node) == text for node in walk(x)))
            number = next(said, None)
        place = values.get(("compute", number)) if number is not None else None
        place = place or values.get(("compute",))
        return f"line {place.line}: " if place is not None else ""


def carried_in(x: Sum) -> list[str]:
    """The names of the carried sums and maxima inside of a sum, each once."""
    return list(dict.fromkeys(a.name.removeprefix(CARRIED) for a in inside(x) if is_carried(a)))


def is_carried(atom: Atom) -> bool:
    """Whether an atom stands for a carried sum or maximum."""
    return atom.kind == "name" and atom.name.startswith(CARRIED)


def bare(node: Expr) -> Expr:
    """An annotated expression as it was written, with functions for the quotients of floats, and names for sizes."""
    match node:
        case Cast() if not node.explicit:
            return bare(node.x)
        case Cast():
            return Cast(bare(node.x), True, dtype=node.dtype)
        case Local() | Name():
            return Name(node.id)
        case Len():
            return Name(f"{LENGTH}{node.mode}")
        case Literal_() if isinstance(node.value, bool):  # a condition of numbers, which `annotate` has computed
            return Binary("==", Literal_(0), Literal_(int(not node.value)))
        case Literal_():
            return Literal_(node.value)
        case Binary() if node.op in ON_FLOATS and node.dtype is not None and node.dtype.is_float:
            return Call(ON_FLOATS[node.op], (bare(node.left), bare(node.right)))
    return replace(rebuilt(node, bare), dtype=None)


def without_rounding(node: Expr) -> Expr:
    """An expression without its casts to floats."""
    if isinstance(node, Cast) and node.dtype is not None and node.dtype.is_float:
        return without_rounding(node.x)
    return rebuilt(node, without_rounding)


def choices_as_factors(x: Sum) -> Sum:
    """A sum in which choices between something and 0 are products with a truth."""

    def change(atom: Atom) -> Sum | None:
        if atom.kind != "call" or atom.name != "where":
            return None
        condition, one, other = atom.arguments
        for truth, side, rest in ((True, one, other), (False, other, one)):
            if not rest.terms:
                return times(indicator(condition, truth), choices_as_factors(side))
        return None

    return rebuilt_sum(x, change)
