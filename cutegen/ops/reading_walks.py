"""Reads the statements of a contraction: which are products of two tensors, which mode is walked, what is carried."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import count
from typing import Literal

from cutegen.errors import CutegenError
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.spans import span
from cutegen.expressions.tree import (
    COMPARISONS,
    Binary,
    Call,
    Cast,
    Coord,
    Expr,
    Literal_,
    Local,
    Name,
    Place,
    Reduce,
    Typed,
    Unary,
    walk,
)
from cutegen.language.model import Tensor
from cutegen.ops.walked import Carried, Product, Walked, meant_by

Growth = Literal["fixed", "above"]


class NotWalked(CutegenError):
    """Says why statements have no such form, in which of them and where, and what would work."""

    def __init__(self, message: str, statement: int, place: Place, help: str | None = None) -> None:
        super().__init__(message)
        self.message, self.statement, self.place, self.help = message, statement, place, help


def walked(statements: Sequence[Typed], tensors: Mapping[str, Tensor]) -> Walked:
    """The statements as a walk along one mode. Raises `NotWalked`."""
    reader = _Reader(statements, {name: frozenset(tensor.modes) for name, tensor in tensors.items()}, tensors)
    return reader.read()


def without_widening(node: Expr) -> Expr:
    """The expression inside of the casts that were made where types met."""
    while isinstance(node, Cast) and not node.explicit:
        node = node.x
    return node


class _Reader:
    def __init__(
        self, statements: Sequence[Typed], spans: dict[str, frozenset[str]], tensors: Mapping[str, Tensor]
    ) -> None:
        self.given, self.spans, self.tensors = statements, dict(spans), tensors
        self.taken = {*spans, *(typed.target for typed in statements)}
        self.taken |= {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name)}
        self.found: list[tuple[int, Typed]] = []  # with the number of the statement that each is of
        self.definitions: dict[str, Expr] = {}
        self.number = 0

    # -------------------------------------------------------------------------------- reductions as statements

    def read(self) -> Walked:
        for number, typed in enumerate(self.given):
            self.number, value = number, typed.value
            value = self.reduced(value) if isinstance(value, Reduce) else self.hoisted(value)
            self.add(Typed(typed.target, value, _stored(typed, value)))
        return self.placed()

    def add(self, typed: Typed) -> None:
        self.spans[typed.target] = span(typed.value, self.spans)
        self.definitions[typed.target] = typed.value
        self.found.append((self.number, typed))

    def hoisted(self, node: Expr) -> Expr:
        """An expression whose reductions are statements of their own before it."""
        if not isinstance(node, Reduce):
            return rebuilt(node, self.hoisted)
        node = self.reduced(node)
        same = next((name for name, value in self.definitions.items() if value == node), None)
        name = same or self.free("product" if self.is_product(node) else {"sum": "total"}.get(node.function, "most"))
        if same is None:
            self.add(Typed(name, node, None))
        return Local(name, dtype=node.dtype, place=node.place)

    def reduced(self, node: Reduce) -> Reduce:
        """A reduction in which other ones are names of statements before it: all but those that are one with it."""
        inner = node.x
        if isinstance(inner, Reduce) and self.is_one(node):
            return replace(node, x=self.reduced(inner))
        return replace(node, x=self.hoisted(inner))

    def is_one(self, node: Reduce) -> bool:
        """Whether a reduction is one with the one directly inside it, over several modes of the same elements: scores
        that are summed again are not.
        """
        if len(node.nested) < 2:
            return False
        inner = node.nested[-1].x
        modes = {one.mode for one in node.nested}
        if not isinstance(inner, Binary) or inner.op != "*":
            return True
        one, other = (span(x, self.spans) for x in inner.children)
        return modes <= one & other or not self.is_product(node.nested[-1])

    def free(self, wanted: str) -> str:
        numbered = (f"{wanted}_{number}" for number in count(1))
        name = wanted if wanted not in self.taken else next(name for name in numbered if name not in self.taken)
        self.taken.add(name)
        return name

    def is_product(self, node: Reduce) -> bool:
        inner, modes = node.nested[-1].x, {one.mode for one in node.nested}
        if node.function != "sum" or not isinstance(inner, Binary) or inner.op != "*":
            return False
        one, other = (span(x, self.spans) for x in inner.children)
        return modes <= one & other and bool(one - other) and bool(other - one)

    # ------------------------------------------------------------------------------------------ roles of statements

    def placed(self) -> Walked:
        number, scores = self.first_product(found := self.two_tensors())
        left, right = self.spans[scores.a], self.spans[scores.b]
        self.number = number
        place = self.definitions[scores.name].place
        rows, apart = self.ordered(left - right), self.ordered(right - left)
        if not apart or not rows:
            message = f"`{scores.b}` has no mode that `{scores.a}` lacks, or the reverse: one of {scores.b} is walked"
            raise self.wrong(message, place, f"give `{scores.b}` such a mode, as N of K [N, D]")
        walked = apart[0] if len(apart) == 1 else self.tiled(apart, rows[-1], replace(scores, a=scores.b, b=scores.a))
        around = tuple(mode for mode in apart if mode != walked)
        more = tuple(self.another_product(one, scores, walked) for one in found[1:])
        products = {one.name for one in (scores, *more)}
        tiled = self.tiled(rows, walked, scores)
        rows = (tiled, *(mode for mode in rows if mode != tiled))
        elements: list[Typed] = []
        carried: list[Carried] = []
        ends: list[Typed] = []
        for number, typed in self.found:
            self.number, value, target = number, typed.value, typed.target
            if target in products:
                if typed.stored is not None:
                    raise self.wrong(f"`{target}` has a value for each score", value.place, "write `op: gemm` for that")
            elif {walked, *around} & self.spans[target]:
                if typed.stored is not None:
                    message = (
                        f"`{target}` has an element along {walked}, and the kernel keeps one tile of those at once"
                    )
                    help = "write what is reduced along it, or a gemm and a row kernel"
                    if isinstance(value, Reduce) and (others := self.ordered(self.spans[target] & {*rows})):
                        inside = f"{value.function}(x, {value.mode})"
                        for mode in others:
                            inside = f"{value.function}({inside}, {mode})"
                        help = f"rows lie along {walked} or along {' and '.join(others)}: reduce along both, `{inside}`"
                    raise self.wrong(message, value.place, help)
                self.refuse_reductions(value, walked)
                elements.append(typed)
            elif isinstance(value, Reduce):
                carried.append(self.carry(typed, value, (walked, *around), products, carried))
                if typed.stored is not None:
                    held = Local(target, dtype=value.dtype, place=value.place)
                    ends.append(Typed(target, held, _stored(Typed(target, value, typed.stored), held)))
            else:
                ends.append(typed)
        made = Walked(
            scores, tuple(elements), tuple(carried), tuple(ends), self.ordered(left & right - {scores.mode}),
            rows, walked, self.spans, self.definitions, more, around,
        )  # fmt: skip
        self.check(made)
        return made

    def two_tensors(self) -> list[tuple[int, Product, Place]]:
        """The products of two tensors, each with the number of its statement and its place."""
        found: list[tuple[int, Product, Place]] = []
        for number, typed in self.found:
            if isinstance(typed.value, Reduce) and self.is_product(typed.value):
                inner = typed.value.nested[-1].x
                assert isinstance(inner, Binary)
                a, b = (without_widening(x) for x in inner.children)
                if isinstance(a, Name) and isinstance(b, Name):
                    if len(typed.value.nested) > 1:
                        self.number = number
                        message = "a product of two tensors that is summed along several modes"
                        raise self.wrong(message, typed.value.place, "give the tensors one mode for these")
                    found.append((number, Product(typed.target, a.id, b.id, typed.value.mode), typed.value.place))
        if not found:
            self.number = 0
            help = "write `sum(Q * K, D)`, of Q [M, D] and K [N, D], or `op: rowwise` where nothing is multiplied"
            raise self.wrong("a contraction needs a sum of products of two tensors", Place(), help)
        return found

    def first_product(self, found: Sequence[tuple[int, Product, Place]]) -> tuple[int, Product]:
        """The first product of two tensors, what is walked on its right, with the number of its statement."""
        number, product, _ = found[0]
        left, right = self.spans[product.a], self.spans[product.b]
        outputs = frozenset().union(*(self.spans[typed.target] for _, typed in self.found if typed.stored is not None))
        only_left, only_right = left - right, right - left
        if only_left and not only_left & outputs and only_right <= outputs:  # what is walked must be on the right
            product = replace(product, a=product.b, b=product.a)
        return number, product

    def another_product(self, found: tuple[int, Product, Place], scores: Product, walked: str) -> Product:
        """A further product of two tensors, what is walked on its right. Each of its elements belongs to a score."""
        self.number, product, place = found
        if walked in self.spans[product.a]:
            product = replace(product, a=product.b, b=product.a)
        left, right = self.spans[product.a] - {product.mode}, self.spans[product.b] - {product.mode}
        if (left, right) != (self.spans[scores.a] - {scores.mode}, self.spans[scores.b] - {scores.mode}):
            modes = [_listed(self.ordered(self.spans[one.name])) for one in (scores, product)]
            message = f"a second product of two tensors has the modes {modes[1]}, and the first one has {modes[0]}"
            raise self.wrong(message, place, "write a kernel for each, or join both along the summed mode")
        return product

    def tiled(self, rows: Sequence[str], walked: str, scores: Product) -> str:
        """The mode of rows that a tile has several elements of: queries rather than heads, however long both are.

        That is one that a comparison relates to the walked mode, such as `coord(N) <= coord(M)`, where there is one.
        Else it is one that stands where the walked mode does among the modes that both tensors have, as M in
        [B, G, R, M, D] and N in [B, G, N, D]. Of several the last one is taken.
        """
        compared = [
            {part.mode for part in walk(meant_by(node, self.definitions, set())) if isinstance(part, Coord)}
            for _, typed in self.found
            for node in walk(typed.value)
            if isinstance(node, Binary) and node.op in COMPARISONS
        ]
        related = {mode for modes in compared if walked in modes for mode in modes}
        left, right = (self.tensors[name].modes for name in (scores.a, scores.b))
        before = {mode for mode in right[: right.index(walked)] if mode in left}
        alike = [mode for mode in rows if {x for x in left[: left.index(mode)] if x in right} == before]
        among = [mode for mode in rows if mode in related] or alike or rows
        return among[-1]

    def carry(
        self, typed: Typed, value: Reduce, modes: Sequence[str], products: set[str], known: Sequence[Carried]
    ) -> Carried:
        walked, inner = modes[0], value.nested[-1].x
        if {one.mode for one in value.nested} != {*modes}:
            along, every = (" and ".join(names) for names in ([one.mode for one in value.nested], modes))
            inside = f"{value.function}(x, {walked})"
            for mode in modes[1:]:
                inside = f"{value.function}({inside}, {mode})"
            message = f"`{value.function}` along {along}: reductions go along {every}, which {_is(modes)} walked"
            help = f"write it along {walked}" if len(modes) == 1 else f"write `{inside}`"
            raise self.wrong(message, value.place, f"{help}, or in a kernel with `op: rowwise`")
        if value.function not in ("max", "sum"):
            help = "a minimum is `-max(-x, N)`, a mean `sum(x, N) / len(N)`"
            raise self.wrong(f"`{value.function}` cannot be carried along {walked}", value.place, help)
        kept = {one.name for one in known} | products
        product = self.outer_product(typed.target, value) if self.is_product(value) else None
        terms = inner if product is None else product.factor
        assert terms is not None
        if value.function == "max":
            if self.carried_in(terms, known):
                raise self.wrong("a maximum of what another reduction is needed for", value.place, _SPLIT)
            return Carried(typed.target, "max", inner)
        meant = meant_by(terms, self.definitions, kept)
        largest = {one.name: meant_by(one.value, self.definitions, kept) for one in known if one.function == "max"}
        growth, above = self.growth(meant, largest, {one.name for one in known})
        return Carried(typed.target, "sum", inner, above if growth == "above" else None, product)

    def carried_in(self, node: Expr, known: Sequence[Carried]) -> bool:
        names = {one.name for one in known}
        meant = meant_by(node, self.definitions, names)
        return any(isinstance(part, Local) and part.id in names for part in walk(meant))

    def outer_product(self, name: str, value: Reduce) -> Product:
        """The product of what was computed of scores with a tensor."""
        inner = value.nested[-1].x
        assert isinstance(inner, Binary)
        sides = [without_widening(x) for x in inner.children]
        tensors = [side for side in sides if isinstance(side, Name) and side.id in self.tensors]
        factors = [side for side in sides if side not in tensors]
        if len(tensors) != 1 or len(factors) != 1:
            raise self.wrong("a product along the walked mode has a tensor and what was computed", value.place)
        return Product(name, "", tensors[0].id, value.nested[-1].mode, factors[0])

    def growth(self, node: Expr, largest: Mapping[str, Expr], carried: set[str]) -> tuple[Growth, str | None]:
        """Whether terms do not depend on the largest value so far, or are exponentials above it, and above which.

        `largest` are the maxima, with what they are of. Raises `NotWalked` for what is neither.
        """
        names = {part.id for part in walk(node) if isinstance(part, Local)} & carried
        if not names:
            return "fixed", None
        match node:
            case Call(function="exp", arguments=(Binary(op="-", left=x, right=Local(id=name)),)):
                if largest.get(name) == x:
                    return "above", name
            case Binary(op="*"):
                sides = [self.growth(side, largest, carried) for side in node.children]
                if [growth for growth, _ in sides].count("above") < 2:
                    return next(side for side in sides if side[0] == "above")
            case Binary(op="/"):
                if self.growth(node.right, largest, carried)[0] == "fixed":
                    return self.growth(node.left, largest, carried)
            case Binary(op="+" | "-"):
                sides = [self.growth(side, largest, carried) for side in node.children]
                if sides[0] == sides[1]:
                    return sides[0]
            case Cast() | Unary(op="-"):
                return self.growth(node.x, largest, carried)
            case Call(function="where", arguments=(condition, x, Literal_(value=0))):
                self.growth(condition, {}, carried)
                return self.growth(x, largest, carried)
        part = "`, `".join(sorted(names))
        message = (
            f"a sum along the walked mode uses `{part}` other than as `exp(x - {part})` of what that is the largest"
        )
        raise self.wrong(message, node.place, _SPLIT)

    # ------------------------------------------------------------------------------------------------------ checks

    def refuse_reductions(self, value: Expr, walked: str) -> None:
        for node in walk(value):
            if isinstance(node, Reduce):
                message = f"`{node.function}` along {node.mode} gives an element along {walked}"
                raise self.wrong(message, node.place, "write it in a kernel before this one")

    def check(self, made: Walked) -> None:
        """That there are products to carry, of one mode more, and that each output has the modes of its rows."""
        numbers = {typed.target: number for number, typed in self.found}
        place = self.definitions[made.scores.name].place
        self.number = numbers[made.scores.name]
        if not made.outer:
            help = f"write `sum(cast(p, bf16) * V, {made.walked})` with a tensor V, or `op: gemm` and `op: rowwise`"
            raise self.wrong("nothing computed of the scores is multiplied again", place, help)
        every = {*made.batch, *made.rows}
        values = [(typed.target, typed.value.place) for typed in made.elements]
        values += [(one.name, self.definitions[one.name].place) for one in made.of_rows]
        for name, where in values:
            if extra := self.spans[name] - every - {made.walked, *made.around}:
                self.number = numbers[name]
                message = f"`{name}` differs along {_listed(self.ordered(extra))}, which no score has"
                raise self.wrong(
                    message, where, "multiply it with what is computed of the scores, or use it at the end"
                )
        for one in made.outer:
            added = self.ordered(self.spans[one.name] - every)
            if len(added) != 1 or not every <= self.spans[one.name]:
                self.number, where = numbers[one.name], self.definitions[one.name].place
                message = f"the products along {made.walked} add the modes {_listed(added)}, and they add one in all"
                raise self.wrong(message, where, "write a kernel for each")
        for typed in made.ends:
            meant = meant_by(typed.value, self.definitions, {one.name for one in made.carried})
            used = {node.id for node in walk(meant) if isinstance(node, Local)} & {one.name for one in made.outer}
            if len(used) > 1:
                self.number = numbers[typed.target]
                message = (
                    f"`{typed.target}` follows from {len(used)} products along {made.walked}, and an output from one"
                )
                raise self.wrong(message, typed.value.place, "write a kernel for each, and one that joins them")

    def ordered(self, modes: frozenset[str]) -> tuple[str, ...]:
        """Modes in the order in which tensors have them."""
        every = dict.fromkeys(mode for tensor in self.tensors.values() for mode in tensor.modes)
        return tuple(mode for mode in every if mode in modes)

    def wrong(self, message: str, place: Place, help: str | None = None) -> NotWalked:
        return NotWalked(message, self.number, place, help)


_SPLIT = "write a kernel that makes what is needed first, and this one with it as a tensor"


def _is(modes: Sequence[str]) -> str:
    return "is" if len(modes) == 1 else "are"


def _listed(modes: Sequence[str]) -> str:
    return ", ".join(f"`{mode}`" for mode in modes) or "none"


def _stored(typed: Typed, value: Expr) -> Expr | None:
    """The stored form of a statement whose value became `value`."""
    stored = typed.stored
    if stored is None or stored == typed.value:
        return None if stored is None else value
    return replace(stored, x=value) if isinstance(stored, Cast) and stored.x == typed.value else stored
