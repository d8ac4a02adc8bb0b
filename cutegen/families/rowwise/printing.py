"""Expressions of a row kernel as text: on the values of a thread, and on what is the same along a row."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from cutegen.codegen.casts import ends
from cutegen.codegen.texts import COMPARE, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.selecting import KEY, KEY_PLACE, KEY_VALUE
from cutegen.expressions.tree import Call, Cast, Expr, Name
from cutegen.families.common import row_printing
from cutegen.families.common.row_printing import NumberedPrinter
from cutegen.families.rowwise.key_text import function_of
from cutegen.families.rowwise.walks import Function, Reduction

_CALL = re.compile(r"[\w.]+\([^()]*(\([^()]*\)[^()]*)*\)")  # a single call, whose result needs no parentheses


OPERATIONS = {"sum": "ADD", "prod": "MUL", "max": "MAX", "min": "MIN"}  # of `cute.ReductionOp`


def identity(function: Function, dtype: Dtype) -> str:
    """The text of the number that changes no result of a reduction."""
    if function == "sum":
        return "0.0" if dtype.is_float else "0"
    if function == "prod":
        return "1.0" if dtype.is_float else "1"
    if dtype.is_float:
        return f'float("{"-inf" if function == "max" else "inf"}")'
    low, high = ends(dtype)
    return low if function == "max" else high


def combined(reduction: Reduction, x: str, y: str) -> str:
    """The text of two partial results as one."""
    return combined_texts(reduction.function, reduction.dtype, x, y)


def combined_texts(function: Function, dtype: Dtype, x: str, y: str) -> str:
    """The same for any reduction of numbers of a type."""
    if function == "sum":
        return f"{x} + {y}"
    if function == "prod":
        return f"{x} * {y}"
    if dtype is Dtype.f32:
        return f"cute.arch.f{function}({x}, {y}, nan=True)"
    return f"cutlass.{function}({x}, {y})"


@dataclass
class ElementPrinter(NumberedPrinter):
    """Prints on tensors of a thread's values; what is the same along a row is a number among them.

    `converted` are the tensors whose variables hold their values in the type that all uses want, by name.
    """

    converted: dict[str, Dtype] = field(default_factory=dict)

    def print(self, node: Expr) -> Text:
        if isinstance(node, Cast) and isinstance(node.x, Name) and self.converted.get(node.x.id) is node.dtype:
            return Text(self.names[node.x.id])
        return super().print(node)

    def call(self, node: Call, arguments: list[Text]) -> Text:
        if node.function == KEY:
            x = self.spread(node.arguments[0], arguments[0])
            return self.wide_call(function_of(node).name, [x, arguments[1].text])
        return super().call(node, arguments)

    def name_of(self, text: str) -> str:
        """A variable that holds what is printed as `text`."""
        return self.name(Text(text, COMPARE)).text

    def taken_statements(self) -> list[str]:
        """The statements that have been printed since, which are forgotten."""
        lines, self.statements = self.statements, []
        return lines

    def folded(self, reduction: Reduction, x: str, variable: str, walked: bool) -> list[str]:
        """The statements that make one value of a thread's values `x`, and add it to what came before, if `walked`."""
        dtype = reduction.dtype
        if not x.isidentifier() and len(x) + len(variable) + 60 > self.width:
            x = self.name_of(x)
        if reduction.function in ("sum", "prod") or dtype.is_float:
            operation = OPERATIONS[reduction.function]
            neutral = identity(reduction.function, dtype)
            x = x if x.isidentifier() or _CALL.fullmatch(x) else f"({x})"
            one = f"cutlass.{dtype.cutlass}({x}.reduce(cute.ReductionOp.{operation}, {neutral}, 0))"
        else:
            one = f"{'largest' if reduction.function == 'max' else 'smallest'}({x})"
        lines = self.taken_statements()
        if walked:
            whole = combined(reduction, variable, one)
            if len(variable) + 3 + len(whole) > self.width:
                named = self.name(Text(one)).text
                lines += self.taken_statements()
                whole = combined(reduction, variable, named)
            one = whole
        return [*lines, f"{variable} = {one}"]


class RowPrinter(row_printing.RowPrinter):
    """Prints on single numbers, the keys of selections among them."""

    def call(self, node: Call, arguments: list[Text]) -> Text:
        if node.function in (KEY_VALUE, KEY_PLACE):
            return Text(f"{function_of(node).name}({arguments[0].text})")
        return super().call(node, arguments)
