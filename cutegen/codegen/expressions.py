"""The typed tree of `compute` as Python text on CuTeDSL's register tensors; on those of torch in `torch_expressions`.

Both printers keep lines short by naming parts of the expression, so that what they emit needs no reformatting.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import ClassVar

from cutegen.codegen.casts import by_way_of_f32, within
from cutegen.codegen.saturation import saturated
from cutegen.codegen.texts import ATOM, COMPARE, NEGATE, PRODUCT, STRENGTH, SUM, XOR, Text
from cutegen.codegen.whole_numbers import quotient, shift
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
from cutegen.expressions.tree import QUOTIENTS, SHIFTS
from cutegen.expressions.zeros import is_zero

SQRT_HALF = "0.7071067811865476"  # 1 / sqrt(2), for gelu(x) = x / 2 * (1 + erf(x / sqrt(2)))
SQRT_2_PI = "0.7978845608028654"  # sqrt(2 / pi), for gelu_tanh

_SPREADING = ("where", "minimum", "maximum", "relu")  # of the kernel: they give a tensor whatever they are given
_IN_CUTE = {"round": "roundeven", "fmod": "rem"}  # function -> its name in CuTeDSL, where that is another one
_FLOAT = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")


@dataclass
class Printer:
    """Prints expressions as Python statements.

    `names` maps tensors and scalars to the variables that hold them, `products` the name of B to that of `A @ B.T`.
    `coordinates` has the text of `coord(...)` by mode, of which those along the modes `uniform` are numbers, `axes` the
    number of each mode that is reduced. `taken` are further names that no temporary may have.
    """

    names: Mapping[str, str]
    tensors: frozenset[str]
    products: Mapping[str, str]
    width: int
    coordinates: Mapping[str, str] = field(default_factory=dict)
    axes: Mapping[str, int] = field(default_factory=dict)
    taken: frozenset[str] = frozenset()
    uniform: frozenset[str] = frozenset()
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
        self.kept[name] = value
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
        raise AssertionError(node)

    def defined(self, node: Call) -> Text:
        """The text of a function that is defined by others: each argument is in a variable."""
        assert node.body is not None
        bound = [(name, x, self.argument(x)) for name, x in node.bound]
        for name, x, text in bound:
            self.locals[name], self.kept[name] = text.text, x
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
        """What a variable holds; another expression as it is."""
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


class KernelPrinter(Printer):
    """Prints text on CuTeDSL values: `TensorSSA` for tensors, `Numeric` for scalars."""

    functions = "cute.math"
    fast_math: bool = False  # as the schedule has it
    quotient: str = ""  # a function of the module that divides to 2 ulp, in fewer instructions than `/` takes

    def special(self, name: str) -> str:
        return f'float("{name}")'

    def of_function(self, x: str, y: str) -> Text:
        return self.wide_call(self.quotient, [x, y]) if self.quotient else super().of_function(x, y)

    def is_tensor(self, node: Expr) -> bool:
        return super().is_tensor(node) or any(self.is_zero_quotient(n) for n in walk_bodies(node))

    def negation(self, x: Text) -> Text:
        return Text(f"{x.inside(XOR + 1)} ^ True", XOR)

    def is_zero_quotient(self, node: Expr) -> bool:
        """Whether it is 0 divided by what is no number of Python's own: the compiler takes that for 0, too, where the
        divisor may be 0 but is no NaN, as what was a whole number.
        """
        if not isinstance(node, Binary) or node.op != "/":
            return False
        return not is_number(node.right) and is_zero(node.left, self.held)

    def binary(self, node: Binary) -> Text:
        if self.is_zero_quotient(node):
            return self.zero_quotient(node)
        if is_number(node) or node.op not in (*QUOTIENTS, *SHIFTS):
            return super().binary(node)
        return quotient(self, node) if node.op in QUOTIENTS else shift(self, node)

    def picked(self, condition: str, one: str, other: str) -> Text:
        return self.wide_call("cute.where", [condition, one, other])

    def alike(self, variable: str, number: int, dtype: Dtype) -> str:
        return f"cute.full_like({variable}, {number})"

    def zero_quotient(self, node: Binary) -> Text:
        """The text of 0 divided by something, NaN where that is 0."""
        x = self.name(Text(self.spread(node.right, self.print(node.right)))).text
        nan = f"cute.full_like({x}, {self.special('nan')})"
        return self.wide_call("cute.where", [f"{x} == 0", nan, f"{self.print(node.left).inside(PRODUCT)} / {x}"])

    def cast(self, node: Cast, x: Text) -> Text:
        dtype = _of(node)
        x = self.typed(x, _of(node.x)) if is_number(node.x) else x
        if dtype is Dtype.f8e5m2 and self.returns(node):
            x = self.print(within(node.x, dtype.largest))
        if by_way_of_f32(_of(node.x), dtype):
            x = x if x.strength == ATOM else self.name(x)
            x = Text(f"{x.text}.to(cutlass.{Dtype.f32.cutlass})")
        if self.joins(node):
            # Without a sum between them the compiler makes one conversion of two, which rounds once or is not there
            x = self.name(Text(f"{x.inside(SUM)} + 0.0", SUM))
        if dtype is Dtype.bool:  # .to(Boolean) would truncate first
            return Text(f"{x.inside(COMPARE + 1)} != 0", COMPARE)
        if node.saturates:
            return self.saturated(node, x)
        x = x if x.strength == ATOM else self.name(x)
        if dtype is Dtype.u32 and _of(node.x) in (Dtype.i8, Dtype.i16):  # else the compiler adds zeros, not the sign
            x = Text(f"{x.text}.to(cutlass.Int32)")
        return Text(f"{x.text}.to(cutlass.{dtype.cutlass})")

    def saturated(self, node: Cast, x: Text) -> Text:
        """The text of a cast from float to integer. For what is out of range the compiler promises nothing of its own:
        it wraps or saturates, as the code around allows.
        """
        return saturated(self, node, x)

    def typed(self, x: Text, dtype: Dtype) -> Text:
        if dtype is Dtype.f32 and _FLOAT.fullmatch(x.text):  # CuTeDSL rounds no number before it is one of f64
            x = Text(repr(struct.unpack("f", struct.pack("f", float(x.text)))[0]))
        return Text(f"cutlass.{dtype.cutlass}({x.text})")

    def spread(self, node: Expr, printed: Text) -> str:
        """A printed value as a tensor, since selections take no bare numbers."""
        if self.is_tensor(node):
            return printed.text
        printed = self.name(printed) if len(printed.text) > self.width // 3 else printed
        dtype = f"cutlass.{_of(node).cutlass}"
        if self.anchor is None:
            return f"cute.full((VALUES,), {printed.text}, {dtype})"
        return f"cute.full_like({self.anchor}, {printed.text}, {dtype})"

    def call(self, node: Call, arguments: list[Text]) -> Text:
        x, name = arguments[0], node.function
        shared = self.common(name, x)
        if shared is not None:
            return shared
        match name:
            case "where" | "minimum" | "maximum":
                return self.selection(node, arguments)
            case "relu":
                x = self.name(Text(self.spread(node.arguments[0], x)))
                return Text(f"cute.where({x.text} < 0, cute.full_like({x.text}, 0), {x.text})")  # keeps a NaN
            case "gelu":
                x = self.name(x)
                return Text(f"0.5 * {x.text} * (1.0 + cute.math.erf({x.text} * {SQRT_HALF}))", PRODUCT)
            case "rsqrt" if _of(node) is Dtype.f64:  # rsqrt.approx.f64 has 2**-20 or so of relative error
                return Text(f"1.0 / cute.math.sqrt({x.text})", PRODUCT)
            case "exp" if self.fast_math and _of(node) is Dtype.f32:
                return Text(f"cute.math.exp({x.text}, fastmath=True)")
        if len(arguments) > 1 or is_number(node.arguments[0]):
            arguments = self.of_one_kind(node, arguments)
        return self.wide_call(f"cute.math.{_IN_CUTE.get(name, name)}", [argument.text for argument in arguments])

    def of_one_kind(self, node: Call, arguments: list[Text]) -> list[Text]:
        """Printed arguments with a type, as tensors if one of them is."""
        pairs = list(zip(node.arguments, arguments, strict=True))
        if any(map(self.is_tensor, node.arguments)):
            return [Text(self.spread(*pair)) for pair in pairs]
        return [self.typed(text, _of(child)) if is_number(child) else text for child, text in pairs]

    def selection(self, node: Call, arguments: list[Text]) -> Text:
        """The text of `where`, and of the extrema by it: the math functions drop a NaN beside a constant."""
        parts = [self.spread(child, text) for child, text in zip(node.arguments, arguments, strict=True)]
        if node.function == "where":
            return self.wide_call("cute.where", parts)
        if not _of(node).is_float:
            return self.wide_call(f"cute.math.{node.function[:3]}", parts)
        x, y = (self.name(Text(part)).text for part in parts)
        takes_y, takes_x = (">", "<=") if node.function == "minimum" else ("<", ">=")
        # Neither holds beside a NaN, and the sum is one
        other = f"cute.where({x} {takes_x} {y}, {x}, {x} + {y})"
        return self.wide_call("cute.where", [f"{x} {takes_y} {y}", y, other])

    def wide_call(self, function: str, parts: list[str]) -> Text:
        parts = [self.name(Text(p)).text if len(p) > self.width // 3 else p for p in parts]
        return Text(f"{function}({', '.join(parts)})")


def is_number(node: Expr) -> bool:
    """Whether an expression prints as a number of Python's own: a literal, or arithmetic or functions of some."""
    node = node.body if isinstance(node, Call) and node.body is not None else node
    if isinstance(node, Unary | Binary):
        return all(map(is_number, node.children))
    return isinstance(node, Literal_)


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
