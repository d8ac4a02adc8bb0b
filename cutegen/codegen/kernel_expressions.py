"""The typed tree of `compute` as Python text on CuTeDSL's register tensors and numbers."""

from __future__ import annotations

import re
import struct
from dataclasses import dataclass, field
from typing import ClassVar

from cutegen.codegen.casts import by_way_of_f32, within
from cutegen.codegen.expressions import SQRT_HALF, Printer, is_number
from cutegen.codegen.saturation import saturated
from cutegen.codegen.texts import AND, ATOM, COMPARE, PRODUCT, SUM, XOR, Text
from cutegen.codegen.whole_numbers import quotient, shift
from cutegen.dtypes import Dtype
from cutegen.expressions.intervals import Intervals, may_be_nan
from cutegen.expressions.parsing import Binary, Call, Cast, Expr, Literal_, walk_bodies
from cutegen.expressions.tree import COMPARISONS, QUOTIENTS, SHIFTS, BinaryOp
from cutegen.expressions.zeros import is_zero

ZERO = Literal_(0.0, dtype=Dtype.f32)
_IN_CUTE = {"round": "roundeven", "fmod": "rem"}  # function -> its name in CuTeDSL, where that is another one
_FLOAT = re.compile(r"-?\d+\.\d+(e[-+]?\d+)?")


@dataclass
class KernelPrinter(Printer):
    """Prints text on CuTeDSL values: `TensorSSA` for tensors, `Numeric` for scalars."""

    functions: ClassVar[str] = "cute.math"
    fast_math: bool = False  # as the schedule has it
    quotient: str = ""  # a function of the module that divides to 2 ulp, in fewer instructions than `/` takes
    intervals: Intervals = field(default_factory=Intervals)

    def remember(self, name: str, value: Expr) -> None:
        super().remember(name, value)
        self.intervals.keep(name, value)

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
        if node.op in COMPARISONS and self.is_foreseen(node.left, node.op, node.right):
            left, right = self.operands(node)
            x, y = (
                text if is_number(side) else self.name(text)
                for side, text in zip(node.children, (left, right), strict=True)
            )
            return self.compared(node.left, x, node.op, node.right, y)
        if is_number(node) or node.op not in (*QUOTIENTS, *SHIFTS):
            return super().binary(node)
        return quotient(self, node) if node.op in QUOTIENTS else shift(self, node)

    def is_foreseen(self, left: Expr, operator: BinaryOp, right: Expr) -> bool:
        """Whether a comparison is true of all numbers: a compiler may take it for true of a NaN as well."""
        return any(map(may_be_nan, (left, right))) and self.intervals.foresees(left, operator, right)

    def compared(self, left: Expr, x: Text, operator: BinaryOp, right: Expr, y: Text) -> Text:
        """The text of a comparison of two variables or numbers. Where all numbers keep it, it asks for NaN alone."""
        if not self.is_foreseen(left, operator, right):
            return Text(f"{x.inside(COMPARE + 1)} {operator} {y.inside(COMPARE + 1)}", COMPARE)
        asked = [f"{text.text} == {text.text}" for node, text in ((left, x), (right, y)) if may_be_nan(node)]
        return Text(asked[0], COMPARE) if len(asked) == 1 else Text(" & ".join(f"({one})" for one in asked), AND)

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
                negative = self.compared(node.arguments[0], x, "<", ZERO, Text("0")).text
                return Text(f"cute.where({negative}, cute.full_like({x.text}, 0), {x.text})")  # keeps a NaN
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
        x, y = (self.name(Text(part)) for part in parts)
        takes_y, takes_x = self.extremes(node, x, y)
        # Neither holds beside a NaN, and the sum is one
        other = f"cute.where({takes_x}, {x.text}, {x.text} + {y.text})"
        return self.wide_call("cute.where", [takes_y, y.text, other])

    def extremes(self, node: Call, x: Text, y: Text) -> tuple[str, str]:
        """The conditions under which `minimum` or `maximum` of two variables is the second one, and the first one."""
        left, right = node.arguments
        operators: tuple[BinaryOp, BinaryOp] = (">", "<=") if node.function == "minimum" else ("<", ">=")
        takes_y, takes_x = (self.compared(left, x, operator, right, y).text for operator in operators)
        return takes_y, takes_x

    def wide_call(self, function: str, parts: list[str]) -> Text:
        parts = [self.name(Text(p)).text if len(p) > self.width // 3 else p for p in parts]
        return Text(f"{function}({', '.join(parts)})")


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
