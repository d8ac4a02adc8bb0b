"""Statements from expressions: what is common gets a name, and stands before what needs it."""

from __future__ import annotations

import ast
import math
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import replace

from cutegen.differentiation.presenting import negated, size_of
from cutegen.dtypes import Dtype
from cutegen.expressions.functions import FUNCTIONS, WAYS
from cutegen.expressions.named_numbers import NAMED_NUMBERS
from cutegen.expressions.parsing import parse
from cutegen.expressions.tree import (
    ALONG,
    ON_FLOATS,
    Along,
    Binary,
    Call,
    Cast,
    Coord,
    Expr,
    Len,
    Literal_,
    MatMul,
    Name,
    Reduce,
    Scan,
    Select,
    Unary,
    walk,
)
from cutegen.language.names import name_problem

LONGEST = 100  # characters of a statement that is not cut
_LEAST = 12  # characters of what is worth a name to make a statement shorter
_NAMED = {
    "exp": "e",
    "sigmoid": "s",
    "tanh": "t",
    "rsqrt": "r",
    "sqrt": "root",
    "log": "l",
    "gelu": "a",
    "silu": "a",
    "gelu_tanh": "a",
    "max": "m",
    "min": "m",
    "sum": "c",
    "mean": "c",
    "where": "w",
}
"""Function -> what its value is named where nothing else is known of it."""
_SMALL = 4  # nodes of what is named only where it is there three times
_OTHERS = ("u", "v", "p", "q", "h", "k", "b", "z")
_OPERATORS: dict[str, ast.operator] = {
    **{"+": ast.Add(), "-": ast.Sub(), "*": ast.Mult(), "/": ast.Div(), "//": ast.FloorDiv(), "%": ast.Mod()},
    **{"**": ast.Pow(), "<<": ast.LShift(), ">>": ast.RShift()},
    **{"&": ast.BitAnd(), "|": ast.BitOr(), "^": ast.BitXor()},
}
_SIGNS: dict[str, ast.unaryop] = {"-": ast.USub(), "not": ast.Not(), "~": ast.Invert()}
_COMPARED: dict[str, ast.cmpop] = {
    "<": ast.Lt(), "<=": ast.LtE(), ">": ast.Gt(), ">=": ast.GtE(), "==": ast.Eq(), "!=": ast.NotEq(),
}  # fmt: skip


class Names:
    """Names for values, each once."""

    def __init__(self, taken: Iterable[str], gradients: Collection[str], tensors: Collection[str]) -> None:
        """`gradients` are the tensors that a backward is given gradients in, `tensors` all that it has."""
        self.taken = {*taken, *tensors, *FUNCTIONS, *ALONG, *Dtype.__members__, *NAMED_NUMBERS, "cast", "coord"}
        self.gradients, self.tensors = frozenset(gradients), frozenset(tensors)

    def new(self, *wanted: str) -> str:
        """The first of the wanted names that is free, or the first one with a number."""
        numbered = (f"{wanted[0]}{number}" for number in range(2, 1000))
        free = (name for name in (*wanted, *numbered) if name not in self.taken and name_problem(name) is None)
        name = next(free)
        self.taken.add(name)
        return name

    def of(self, x: Expr) -> str:
        """A name for a value: by its function, `g` of what has a gradient in it, `x` of what a tensor `X` is in."""
        if isinstance(x, Call | Reduce):
            return self.new(_NAMED.get(x.function, "u"), *_OTHERS)
        if isinstance(x, Binary) and isinstance(x.left, Reduce) and isinstance(x.left.x, Coord):
            return self.new(x.left.mode.lower(), f"size_{x.left.mode.lower()}")
        if isinstance(x, Binary) and x.op in _COMPARED:
            extreme = next((node.function for node in (x.left, x.right) if isinstance(node, Reduce)), None)
            return self.new("mask" if extreme is None else f"is_{extreme}")
        used = [node.id for node in walk(x) if isinstance(node, Name)]
        if any(name in self.gradients for name in used):
            return self.new("g", *_OTHERS)
        return self.new(*(name.lower() for name in used[:1] if name in self.tensors), "x", *_OTHERS)


def statements(
    results: Mapping[str, Expr], values: Mapping[str, Expr], names: Names, kept: Collection[str] = ()
) -> list[tuple[str, Expr]]:
    """The statements that give results, and before them those of values that they use.

    What is computed twice is named, and values that are used once are not, unless they are in `kept` or a statement
    gets too long.
    """
    draft = _Draft({**results}, {**values}, names, kept)
    draft.negate()
    draft.share()
    draft.inline()
    draft.unite()
    draft.cut()
    return draft.ordered()


class _Draft:
    def __init__(self, results: dict[str, Expr], values: dict[str, Expr], names: Names, kept: Collection[str]) -> None:
        self.results, self.values, self.names, self.kept = results, values, names, kept

    def ordered(self) -> list[tuple[str, Expr]]:
        found: dict[str, Expr] = {}

        def put(name: str, x: Expr) -> None:
            for used in _names(x):
                if used in known and used not in found:
                    put(used, known[used])
            found[name] = x

        known = {**self.values, **self.results}  # one result may be said with another
        for name, x in self.results.items():
            if name not in found:
                put(name, x)
        return list(found.items())

    def share(self) -> None:
        """Names what is there twice, the largest first, and numbers of elements."""
        while True:
            needed = dict(self.ordered())
            counts: Counter[Expr] = Counter()
            for x in needed.values():
                counts.update(node for node in walk(x) if _is_worth_a_name(node))
            named = [*self.values.values()]
            always = {part for x in needed.values() for node in walk(x) for part in _always_named(node)}
            least = {x: 2 if _weight(x) > _SMALL or _calls(x) else 3 for x in counts}
            again = [x for x in counts if counts[x] >= least[x]] + [x for x in always if x not in named]
            if not again:
                return
            self.name(max(again, key=lambda x: (x in always, _weight(x))))

    def name(self, x: Expr) -> None:
        """Gives a value a name, unless it has one, and writes that in its place."""
        known = next((name for name, value in self.values.items() if value == x), None)
        name = known or self.names.of(x)
        for group in (self.results, self.values):
            for other, value in group.items():
                if other != name:
                    group[other] = replaced(value, lambda node: Name(name) if node == x else None)
        self.values[name] = x

    def inline(self) -> None:
        """Writes values in place that are used once, where the statement stays short and nothing keeps their names."""
        for name in list(self.values):
            needed = dict(self.ordered())
            users = [other for other, x in needed.items() for used in _all_names(x) if used == name]
            if len(users) != 1 or name in self.kept or _is_size(self.values[name]):
                continue
            group = self.results if users[0] in self.results else self.values
            value = self.values[name]
            whole = replaced(needed[users[0]], lambda node: value if node == Name(name) else None)  # noqa: B023
            if len(text_of(users[0], whole)) <= LONGEST:
                group[users[0]] = whole

    def negate(self) -> None:
        """Has a result that is another one's negative say so."""
        for name, x in list(self.results.items()):
            for other in self.results:
                if other == name:
                    break
                if negated(True, self.results[other]) == x:
                    self.results[name] = Unary("-", Name(other))
                    break

    def unite(self) -> None:
        """Has the first of equal results computed, and the others be what it is."""
        for name, x in list(self.results.items()):
            if isinstance(x, Name) and x.id in self.values and x.id not in self.kept:
                value = self.values.pop(x.id)
                for group in (self.results, self.values):
                    for other in group:
                        group[other] = renamed(group[other], {x.id: name})
                self.results[name] = value

    def cut(self) -> None:
        """Names parts of statements that are too long, the part nearest to half of one first."""
        for _ in range(64):
            long = next((each for each in self.ordered() if len(text_of(*each)) > LONGEST), None)
            if long is None:
                return
            sizes = {node: len(expression(node)) for node in walk(long[1]) if _is_worth_a_name(node)}
            parts = [node for node, length in sizes.items() if length >= _LEAST and node != long[1]]
            if not parts:
                return
            self.name(min(parts, key=lambda node: abs(2 * sizes[node] - len(expression(long[1])))))


def text_of(name: str, x: Expr) -> str:
    """A statement as a line."""
    return f"{name} = {expression(x)}"


def expression(x: Expr) -> str:
    """An expression as text."""
    return ast.unparse(ast.fix_missing_locations(ast.Expression(_syntax(x))))


def _syntax(x: Expr) -> ast.expr:
    """An expression as Python's syntax has it."""
    match x:
        case Literal_() if isinstance(x.value, float) and not math.isfinite(x.value):
            name = ast.Name("nan" if math.isnan(x.value) else "inf")
            return ast.UnaryOp(ast.USub(), name) if x.value < 0 else name
        case Literal_() if not isinstance(x.value, bool) and x.value < 0:
            return ast.UnaryOp(ast.USub(), ast.Constant(-x.value))
        case Literal_():
            return ast.Constant(x.value)
        case Coord():
            return ast.Call(ast.Name("coord"), [ast.Name(x.mode)], [])
        case Len():
            return ast.Call(ast.Name("len"), [ast.Name(x.mode)], [])
        case Unary():
            return ast.UnaryOp(_SIGNS[x.op], _syntax(x.x))
        case Binary() if x.op in _OPERATORS:
            return ast.BinOp(_syntax(x.left), _OPERATORS[x.op], _syntax(x.right))
        case Binary() if x.op in _COMPARED:
            return ast.Compare(_syntax(x.left), [_COMPARED[x.op]], [_syntax(x.right)])
        case Binary():
            return ast.BoolOp(ast.And() if x.op == "and" else ast.Or(), [_syntax(x.left), _syntax(x.right)])
        case Call():
            return ast.Call(ast.Name(x.function), [_syntax(argument) for argument in x.arguments], [])
        case Reduce():
            modes = [ast.Name(one.mode) for one in x.nested]
            return ast.Call(ast.Name(x.function), [_syntax(x.nested[-1].x), *modes], [])
        case Scan():
            return ast.Call(ast.Name(x.function), [_syntax(x.x), ast.Name(x.mode)], [])
        case Select():
            return ast.Call(ast.Name(x.function), [_syntax(x.x), ast.Name(x.mode), ast.Name(x.kept)], [])
        case Cast():
            assert x.dtype is not None
            return ast.Call(ast.Name("cast"), [_syntax(x.x), ast.Name(x.dtype.value)], [])
        case MatMul():
            raise ValueError("a matrix product is not an expression of elements")
    return ast.Name(x.id)


def renamed(x: Expr, names: Mapping[str, str]) -> Expr:
    """An expression with other names."""
    return replaced(x, lambda node: Name(names.get(node.id, node.id)) if isinstance(node, Name) else None)


def with_ways(x: Expr, functions: Collection[str]) -> Expr:
    """An expression with functions as what `functions.WAYS` says that they also are."""

    def other(node: Expr) -> Expr | None:
        if not isinstance(node, Call) or node.function not in functions:
            return None
        argument = with_ways(node.arguments[0], functions)
        whole = parse(f"_ = {WAYS[node.function]}").value
        return replaced(whole, lambda part: argument if isinstance(part, Name) else None)

    return replaced(x, other)


def with_functions(x: Expr, whole: Callable[[Expr], bool]) -> Expr:
    """An expression with `//` and `%` of floats as the functions that they are; `whole` says what is an integer."""

    def function(node: Expr) -> Expr | None:
        if not isinstance(node, Binary) or node.op not in ON_FLOATS or whole(node):
            return None
        return Call(ON_FLOATS[node.op], (with_functions(node.left, whole), with_functions(node.right, whole)))

    return replaced(x, function)


def replaced(x: Expr, change: Callable[[Expr], Expr | None]) -> Expr:
    """An expression with parts changed; None leaves a part, and looks inside."""
    changed = change(x)
    if changed is not None:
        return changed
    match x:
        case Unary() | Cast() | Along():
            return replace(x, x=replaced(x.x, change))
        case Binary():
            return replace(x, left=replaced(x.left, change), right=replaced(x.right, change))
        case Call():
            return replace(x, arguments=tuple(replaced(argument, change) for argument in x.arguments))
    return x


def _all_names(x: Expr) -> list[str]:
    return [node.id for node in walk(x) if isinstance(node, Name)]


def _names(x: Expr) -> tuple[str, ...]:
    return tuple(dict.fromkeys(_all_names(x)))


def _weight(x: Expr) -> int:
    return sum(1 for _ in walk(x))


def _always_named(x: Expr) -> Iterator[Expr]:
    """Yields the parts that get a name even if they occur once: a number of elements, and a computed value that is
    compared with a reduction, as with its own extreme.
    """
    if _is_size(x):
        yield x
    if isinstance(x, Binary) and x.op == "==" and isinstance(x.right, Reduce) and isinstance(x.left, Binary | Call):
        yield x.left


def _is_size(x: Expr) -> bool:
    return isinstance(x, Binary) and isinstance(x.left, Reduce) and x == size_of(x.left.mode)


def _is_worth_a_name(x: Expr) -> bool:
    """Whether something may be named: a function, a reduction, an operation."""
    return isinstance(x, Call | Reduce | Binary) and not (isinstance(x, Reduce) and isinstance(x.x, Coord))


def _calls(x: Expr) -> bool:
    return any(isinstance(node, Call | Reduce) for node in walk(x))
