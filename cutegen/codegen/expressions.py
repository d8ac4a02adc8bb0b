"""The typed tree of `compute` as Python text: on CuTeDSL's register tensors in `kernel_expressions`, on torch's in
`torch_expressions`.

Both printers keep lines short by naming parts of the expression, so that what they emit needs no reformatting.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

from cutegen.codegen.texts import ATOM, COMPARE, NEGATE, PRODUCT, STRENGTH, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import (
    Binary,
    Call,
    Cast,
    Coord,
    Expr,
    Literal_,
    Local,
    MatMul,
    Name,
    Reduce,
    Unary,
    walk_bodies,
)
from cutegen.expressions.tree import QUOTIENTS, SHIFTS, Len, Scan, Select

SQRT_HALF = "0.7071067811865476"  # 1 / sqrt(2), for gelu(x) = x / 2 * (1 + erf(x / sqrt(2)))
SQRT_2_PI = "0.7978845608028654"  # sqrt(2 / pi), for gelu_tanh

_SPREADING = ("where", "minimum", "maximum", "relu")  # of the kernel: they always give a tensor


@dataclass
class Printer:
    """Prints expressions as Python statements.

    `names` maps tensors and scalars to the variables that hold them, `products` the name of B to that of `A @ B.T`.
    `coordinates` has the text of `coord(...)` by mode; those along the modes `uniform` are numbers, `axes` the number
    of each mode that is reduced. `taken` are further names that no temporary may have.
    """

    names: Mapping[str, str]
    tensors: frozenset[str]
    products: Mapping[str, str]
    width: int
    coordinates: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, int] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    uniform: frozenset[str] = frozenset()
    lengths: Mapping[str, str] = field(default_factory=dict)  # the text of `len(...)`, by mode
    anchor: str | None = None  # a variable that holds a tensor
    next_number: int = 0  # of the next temporary
    functions: ClassVar[str] = "torch"  # where the functions are that both printers call by one name
    statements: list[str] = field(default_factory=list)
    locals: dict[str, str] = field(default_factory=dict)  # variables of what was computed before
    kept: dict[str, Expr] = field(default_factory=dict)  # what those are of
    tensor_locals: set[str] = field(default_factory=set)  # those of them that are tensors

    def run(self, value: Expr, target: str) -> list[str]:
        """The statements that compute a value, the last of which is `target = ...`."""
        printed = self.fit(self.print(value), len(target) + 3)
        statements = [*self.statements, f"{target} = {printed.text}"]
        self.statements = []
        return statements

    def keep(self, value: Expr, name: str, variable: str) -> list[str]:
        """The statements after which `Local(name)` is the value: in `variable`, or in one that holds it already."""
        self.remember(name, value)
        if self.is_tensor(value):
            self.tensor_locals.add(name)
        if is_number(value):  # of Python's own, which has no type yet
            typed = self.typed(self.print(value), _of(value))
            statements = [*self.statements, f"{variable} = {typed.text}"]
            self.statements = []
        else:
            statements = self.run(value, variable)
            held = statements[-1].removeprefix(f"{variable} = ")
            if held.isidentifier():
                variable = held
                statements.pop()
        self.locals[name] = variable
        return statements

    def remember(self, name: str, value: Expr) -> None:
        """`Local(name)` stands for this value."""
        self.kept[name] = value

    def fit(self, printed: Text, used: int) -> Text:
        return printed if used + len(printed.text) <= self.width else self.name(printed)

    def name(self, printed: Text) -> Text:
        """A variable that holds the value, unless it is one already."""
        if printed.text.isidentifier():
            return printed
        numbers = (f"x{i}" for i in count(self.next_number))
        variable = next(name for name in numbers if name not in self.names.values() and name not in self.taken)
        self.next_number = int(variable[1:]) + 1
        self.statements.append(f"{variable} = {printed.text}")
        return Text(variable)

    def is_tensor(self, node: Expr) -> bool:
        """Whether an expression prints as a tensor, not as a number that is the same for all elements."""
        return any(
            isinstance(n, MatMul)
            or (isinstance(n, Coord) and n.mode not in self.uniform)
            or (isinstance(n, Name) and n.id in self.tensors)
            or (isinstance(n, Local) and n.id in self.tensor_locals)
            or (isinstance(n, Call) and n.function in _SPREADING)
            or (isinstance(n, Cast) and n.saturates)
            or (isinstance(n, Binary) and n.op in (*QUOTIENTS, *SHIFTS) and not isinstance(n.right, Literal_))
            for n in walk_bodies(node)
        )

    def print(self, node: Expr) -> Text:
        match node:
            case Literal_():
                return self.literal(node)
            case Name():
                return Text(self.names[node.id])
            case Local():
                return Text(self.locals[node.id])
            case Coord():
                return Text(self.coordinates[node.mode])
            case Len():
                return Text(self.lengths[node.mode])
            case MatMul():
                return Text(self.products[node.b])
            case Unary(op="-"):
                return Text(f"-{self.print(node.x).inside(NEGATE)}", NEGATE)
            case Unary():
                return self.negation(self.print(node.x))
            case Binary(op="**"):
                base = self.name(self.print(node.left))
                assert isinstance(node.right, Literal_)
                return self.fit(Text(" * ".join([base.text] * int(node.right.value)), PRODUCT), self.width // 2)
            case Binary():
                return self.binary(node)
            case Cast():
                return self.cast(node, self.print(node.x))
            case Call(body=None):
                return self.call(node, [self.print(a) for a in node.arguments])
            case Call():
                return self.defined(node)
            case Reduce():
                return self.reduction(node, self.print(node.nested[-1].x))
            case Scan():
                return self.scan(node, self.print(node.x))
            case Select():
                return self.selected(node)
        raise AssertionError(node)

    def defined(self, node: Call) -> Text:
        """The text of a function that is defined by others: each argument is in a variable."""
        assert node.body is not None
        bound = [(name, x, self.argument(x)) for name, x in node.bound]
        for name, x, text in bound:
            self.locals[name] = text.text
            self.remember(name, x)
            (self.tensor_locals.add if self.is_tensor(x) else self.tensor_locals.discard)(name)
        return self.print(node.body)

    def argument(self, x: Expr) -> Text:
        """The variable of an argument of a function that is defined by others."""
        printed = self.print(x)
        return self.name(self.typed(printed, _of(x)) if is_number(x) else printed)

    def literal(self, node: Literal_) -> Text:
        if not math.isfinite(node.value):
            sign, name = "-" if node.value < 0 else "", "nan" if math.isnan(node.value) else "inf"
            return Text(sign + self.special(name), NEGATE if sign else ATOM)
        text = repr(node.value).replace("e+", "e")  # as formatters write it
        return Text(text, NEGATE if text.startswith("-") else ATOM)

    def special(self, name: str) -> str:
        """The text of infinity, `inf`, or of NaN, `nan`."""
        return f"torch.{name}"

    def operands(self, node: Binary) -> tuple[Text, Text]:
        """The texts of both sides of an operator."""
        return self.print(node.left), self.print(node.right)

    def joins(self, node: Cast) -> bool:
        """Whether the compiler would make one conversion of this one and of that from an integer before it."""
        source, dtype, x = _of(node.x), _of(node), self.held(node.x)
        if dtype.is_f8 and not source.is_float:  # by way of f32
            return True
        narrows = source.is_float and dtype.is_float and dtype.bits < source.bits
        return narrows and isinstance(x, Cast) and not _of(x.x).is_float

    def returns(self, node: Cast) -> bool:
        """Whether the compiler would leave this conversion out with one before it, as the type becomes what it was."""
        x = self.held(node.x)
        return isinstance(x, Cast) and _of(x.x) is node.dtype

    def held(self, node: Expr) -> Expr:
        """The expression that a variable holds, through chains of variables; any other expression unchanged."""
        while isinstance(node, Local) and node.id in self.kept:
            node = self.kept[node.id]
        return node

    def binary(self, node: Binary) -> Text:
        left, right = self.operands(node)
        if node.op in ("and", "or"):
            symbol, strength = {"and": "&", "or": "|"}[node.op], STRENGTH[node.op]
        else:
            symbol, strength = node.op, STRENGTH.get(node.op, COMPARE)
        # A comparison binds weaker than & and does not chain; the right side of - and / needs its parentheses.
        keep_left = strength + (strength == COMPARE)
        budget = self.width // 2
        left, right = self.fit(left, budget), self.fit(right, budget)
        text = f"{left.inside(keep_left)} {symbol} {right.inside(strength + 1)}"
        if len(text) > self.width - 16:
            left, right = (self.name(left), right) if len(left.text) >= len(right.text) else (left, self.name(right))
            text = f"{left.inside(keep_left)} {symbol} {right.inside(strength + 1)}"
        return Text(text, strength)

    def negation(self, x: Text) -> Text:
        raise NotImplementedError

    def cast(self, node: Cast, x: Text) -> Text:
        """The text of a cast of what was printed as `x`."""
        raise NotImplementedError

    def typed(self, x: Text, dtype: Dtype) -> Text:
        """The text that gives a number of Python's own a type."""
        raise NotImplementedError

    def call(self, node: Call, arguments: list[Text]) -> Text:
        raise NotImplementedError

    def reduction(self, node: Reduce, x: Text) -> Text:
        """The text of a reduction and those nested in it, all in one, of what was printed as `x`."""
        raise NotImplementedError

    def scan(self, node: Scan, x: Text) -> Text:
        """The text of a scan of what was printed as `x`."""
        raise NotImplementedError

    def selected(self, node: Select) -> Text:
        """The text of what a selection keeps."""
        raise NotImplementedError

    def exponential(self, x: Text) -> str:
        return f"{self.functions}.exp(-{x.inside(NEGATE)})"

    def of_function(self, x: str, y: str) -> Text:
        """A quotient that a function is defined by: it may be off by as much as that."""
        return Text(f"{x} / ({y})", PRODUCT)

    def common(self, function: str, x: Text) -> Text | None:
        """The text of a function that both printers spell out in the same way; None for any other function."""
        if function in ("sigmoid", "silu"):
            x = self.name(x) if function == "silu" else x
            return self.of_function(x.text if function == "silu" else "1.0", f"1.0 + {self.exponential(x)}")
        if function == "gelu_tanh":
            variable = self.name(x).text
            cube = " * ".join([variable] * 3)
            inner = self.name(Text(f"{SQRT_2_PI} * ({variable} + 0.044715 * {cube})"))
            return Text(f"0.5 * {variable} * (1.0 + {self.functions}.tanh({inner.text}))", PRODUCT)
        return None


def is_number(node: Expr) -> bool:
    """Whether an expression prints as a number of Python's own: a literal, or arithmetic or functions of some."""
    node = node.body if isinstance(node, Call) and node.body is not None else node
    if isinstance(node, Unary | Binary):
        return all(map(is_number, node.children))
    return isinstance(node, Literal_)


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
