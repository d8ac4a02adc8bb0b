"""Selections, `topk(x, N, K)`: the modes of what they keep, and statements without such modes.

A mode of what is kept has a fixed size and no threads of its own: a kernel has a value for each of its coordinates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from itertools import chain, count, product

from cutegen.dtypes import Dtype
from cutegen.expressions.errors import ExpressionError
from cutegen.expressions.parsing import parse
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.spans import span
from cutegen.expressions.tree import (
    Binary,
    BinaryOp,
    Call,
    Cast,
    Compute,
    Coord,
    Expr,
    Literal_,
    Local,
    Name,
    Part,
    Reduce,
    Select,
    Typed,
    walk,
)

MOST_KEPT = 32
"""Values of a row that a selection keeps at most: each takes a round over the row, and registers of every thread."""
OVER_KEPT = ("sum", "mean", "max", "min", "prod", "any", "all")
"""Reductions along a mode of what is kept."""
KEY, KEY_VALUE, KEY_PLACE = "_key", "_key_value", "_key_place"
"""Functions of kernels: an integer that orders as values do, and of equal values has the first place above the others;
and the value and the place of such an integer. The last argument is how many of its low bits the place has.
"""
WIDE = 32  # bits of a place, in keys of 64 bits
_SPARE = {
    **dict.fromkeys((Dtype.bf16, Dtype.i8, Dtype.u8, Dtype.i16, Dtype.bool), 16),
    Dtype.f16: 13,
    Dtype.f8e4m3: 20,
    Dtype.f8e5m2: 21,
}
"""Low bits that values of a type leave for a place in keys of 32 bits: of floats those of an f32 that are 0 for all."""
_OPERATORS: Mapping[str, BinaryOp] = {"sum": "+", "mean": "+", "prod": "*", "any": "or", "all": "and"}


def kept_modes(compute: Compute) -> tuple[str, ...]:
    """The modes of what selections keep, in order of first use."""
    nodes = (node for value in compute.values for node in walk(value))
    return tuple(dict.fromkeys(node.kept for node in nodes if isinstance(node, Select)))


def kept_in(texts: Sequence[str]) -> tuple[str, ...]:
    """The same of statements that need not be right."""
    found: list[str] = []
    for text in texts:
        with suppress(ExpressionError):
            found += kept_modes(Compute((parse(text),)))
    return tuple(dict.fromkeys(found))


def without_selections(
    statements: Sequence[Typed], shapes: Mapping[str, tuple[str, ...]], sizes: Mapping[str, int]
) -> tuple[Typed, ...]:
    """The statements with one for each coordinate along the modes of what is kept, and with reductions for selections.

    `shapes` has the modes of each tensor, and `sizes` those of the modes.
    """
    kept = [node.kept for typed in statements for node in walk(typed.value) if isinstance(node, Select)]
    if not kept:
        return tuple(statements)
    expander = _Expander(statements, shapes, {mode: sizes[mode] for mode in kept}, sizes)
    for typed in statements:
        expander.add(typed)
    return tuple(expander.found)


At = Mapping[str, int]  # a coordinate along some modes


class _Expander:
    """Makes the statements of `without_selections`, one after the other."""

    def __init__(
        self,
        statements: Sequence[Typed],
        shapes: Mapping[str, tuple[str, ...]],
        sizes: Mapping[str, int],
        lengths: Mapping[str, int],
    ) -> None:
        """`sizes` are those of the modes of what is kept, `lengths` of all modes that have a fixed one."""
        self.shapes, self.sizes, self.lengths = shapes, sizes, lengths
        self.spans = {name: frozenset(shape) for name, shape in shapes.items()}
        self.found: list[Typed] = []
        self.parts: dict[str, dict[tuple[int, ...], Local]] = {}  # by name, of values that differ along kept modes
        self.keys: dict[tuple[Expr, tuple[int, ...]], tuple[Local, list[Local]]] = {}
        self.reductions: dict[Expr, Local] = {}
        self.taken = {*shapes, *(typed.target for typed in statements)}
        self.taken |= {node.id for typed in statements for node in walk(typed.value) if isinstance(node, Name | Local)}

    def add(self, typed: Typed) -> None:
        modes = self.modes_of(typed.value)
        tensor = typed.target if typed.stored is not None else ""
        written = [mode for mode in self.sizes if mode in modes or mode in self.shapes.get(tensor, ())]
        if not written:
            self.found.append(self.put_into(typed, {}))
        parts: dict[tuple[int, ...], Local] = {}
        for at in self.coordinates(written):
            name = self.free(f"{typed.target}_{'_'.join(map(str, at.values()))}")
            part = Part(tensor, tuple(at.items())) if tensor else None
            made = replace(self.put_into(typed, at), target=name, part=part)
            self.found.append(made)
            parts[tuple(at[mode] for mode in modes)] = Local(name, dtype=made.value.dtype, place=made.value.place)
        self.keys = {key: known for key, known in self.keys.items() if not _reads(key[0], typed.target)}
        self.reductions = {x: known for x, known in self.reductions.items() if not _reads(x, typed.target)}
        self.spans[typed.target] = span(typed.value, self.spans)
        self.parts.pop(typed.target, None)
        if written:
            self.parts[typed.target] = parts

    def modes_of(self, node: Expr) -> list[str]:
        """The modes of what is kept along which an expression differs."""
        found = span(node, self.spans)
        return [mode for mode in self.sizes if mode in found]

    def coordinates(self, modes: Sequence[str]) -> Iterator[dict[str, int]]:
        if modes:
            for at in product(*(range(self.sizes[mode]) for mode in modes)):
                yield dict(zip(modes, at, strict=True))

    def put_into(self, typed: Typed, at: At) -> Typed:
        """A statement at a coordinate."""
        value, stored = self.put(typed.value, at), typed.stored
        if stored is typed.value:
            stored = value
        elif isinstance(stored, Cast) and stored.x is typed.value:
            stored = replace(stored, x=value)
        return replace(typed, value=value, stored=stored)

    def put(self, node: Expr, at: At) -> Expr:
        """An expression at a coordinate."""
        match node:
            case Local() if node.id in self.parts:
                modes = [mode for mode in self.sizes if mode in self.spans[node.id]]
                return self.parts[node.id][tuple(at[mode] for mode in modes)]
            case Coord() if node.mode in at:
                return Literal_(at[node.mode], dtype=node.dtype, place=node.place)
            case Reduce() if node.mode in self.sizes:
                return self.reduced(node, at)
            case Select():
                return self.selected(node, at)
        return rebuilt(node, lambda part: self.put(part, at))

    def reduced(self, node: Reduce, at: At) -> Expr:
        """A reduction along a mode of what is kept; one that is the same along all of these has a name."""
        if node in self.reductions:
            return self.reductions[node]
        parts = [self.put(node.x, {**at, node.mode: i}) for i in range(self.sizes[node.mode])]
        whole = _together(node, parts)
        if not self.modes_of(node):
            self.reductions[node] = whole = self.named(f"kept_{node.function}", whole)
        return whole

    def selected(self, node: Select, at: At) -> Expr:
        """The value that a selection has at a coordinate, or its place."""
        key = self.key(node, at)
        function = KEY_VALUE if node.function == "topk" else KEY_PLACE
        dtype = node.dtype if node.function == "topk" else Dtype.i32
        bits = Literal_(self.place_bits(node), dtype=Dtype.i32)
        found: Expr = Call(function, (key, bits), dtype=dtype, place=node.place)
        return found if dtype is node.dtype else Cast(found, dtype=node.dtype, place=node.place)

    def key(self, node: Select, at: At) -> Local:
        """The key of the value that is at a coordinate along the kept mode: the largest below that before it."""
        same = node.x, tuple(at[mode] for mode in self.modes_of(node.x))
        if same not in self.keys:
            bits = self.place_bits(node)
            parts = (self.put(node.x, at), Coord(node.mode, dtype=Dtype.i32), Literal_(bits, dtype=Dtype.i32))
            keys = Call(KEY, parts, dtype=Dtype.i64 if bits == WIDE else Dtype.i32, place=node.place)
            self.keys[same] = self.named("keys", keys), []
        every, chosen = self.keys[same]
        dtype = every.dtype
        assert dtype is not None
        least = Literal_(dtype.range[0], dtype=dtype)
        while len(chosen) <= at[node.kept]:
            left: Expr = every
            if chosen:
                below = Binary("<", every, chosen[-1], dtype=Dtype.bool)
                left = Call("where", (below, every, least), dtype=dtype)
            largest = Reduce("max", left, node.mode, dtype=dtype, place=node.place)
            chosen.append(self.named(f"key_{len(chosen)}", largest))
        return chosen[at[node.kept]]

    def place_bits(self, node: Select) -> int:
        """The bits that a place has in the keys of a selection: as few as the type of an input leaves, if these do."""
        x = node.x.x if isinstance(node.x, Cast) and not node.x.explicit else node.x
        spare = _SPARE.get(x.dtype, 0) if isinstance(x, Name) and x.dtype else 0
        return spare if self.lengths[node.mode] <= 1 << spare else WIDE

    def named(self, wanted: str, value: Expr) -> Local:
        name = self.free(wanted)
        self.found.append(Typed(name, value, None))
        return Local(name, dtype=value.dtype, place=value.place)

    def free(self, wanted: str) -> str:
        name = next(n for n in chain([wanted], (f"{wanted}_{i}" for i in count(1))) if n not in self.taken)
        self.taken.add(name)
        return name


def _reads(x: Expr, name: str) -> bool:
    """Whether an expression reads a name."""
    return any(isinstance(node, Name | Local) and node.id == name for node in walk(x))


def _together(node: Reduce, parts: Sequence[Expr]) -> Expr:
    """A reduction of a few values, one after another."""
    assert node.dtype is not None
    join: Callable[[Expr, Expr], Expr]
    if node.function in ("max", "min"):
        function = f"{node.function}imum"

        def join(x: Expr, y: Expr) -> Expr:
            return Call(function, (x, y), dtype=node.dtype, place=node.place)
    else:
        operator = _OPERATORS[node.function]

        def join(x: Expr, y: Expr) -> Expr:
            return Binary(operator, x, y, dtype=node.dtype, place=node.place)

    if node.function in ("any", "all"):
        zero = Literal_(0.0 if parts[0].dtype and parts[0].dtype.is_float else 0, dtype=parts[0].dtype)
        parts = [Binary("!=", part, zero, dtype=Dtype.bool, place=node.place) for part in parts]
    whole = parts[0]
    for part in parts[1:]:
        whole = join(whole, part)
    if node.function == "mean":
        size = Literal_(float(len(parts)), dtype=node.dtype)
        whole = Binary("/", whole, size, dtype=node.dtype, place=node.place)
    return whole


def mixed(compute: Compute) -> Reduce | None:
    """A reduction that goes along a mode of what is kept, and in the same call along another one; None if none does."""
    kept = {*kept_modes(compute)}
    nodes = (node for value in compute.values for node in walk(value))
    several = (node for node in nodes if isinstance(node, Reduce) and len(node.nested) > 1)
    return next((node for node in several if {one.mode for one in node.nested} & kept), None)
