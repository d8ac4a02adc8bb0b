"""Expressions of rows as text: on numbers that are the same along a row, beside a printer of its elements."""

from __future__ import annotations

from dataclasses import dataclass, field

from cutegen.codegen.casts import after, ends, holds_ends
from cutegen.codegen.expressions import is_number
from cutegen.codegen.kernel_expressions import ZERO, KernelPrinter
from cutegen.codegen.texts import COMPARE, PRODUCT, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Binary, Call, Cast, Expr


@dataclass
class NumberedPrinter(KernelPrinter):
    """A printer whose temporaries have other names than those of the other one: `numbers` holds the next number."""

    numbers: list[int] = field(default_factory=lambda: [0])

    def name(self, printed: Text) -> Text:
        self.next_number = self.numbers[0]
        named = super().name(printed)
        self.numbers[0] = self.next_number
        return named


class RowPrinter(NumberedPrinter):
    """Prints on single numbers: selections are Python's own, which CuTeDSL compiles to select instructions."""

    def is_tensor(self, node: Expr) -> bool:
        return False

    def run(self, value: Expr, target: str) -> list[str]:
        if not is_number(value):
            return super().run(value, target)
        typed = self.typed(self.print(value), _of(value))  # a store converts none of Python's own
        statements, self.statements = [*self.statements, f"{target} = {typed.text}"], []
        return statements

    def with_type(self, node: Expr, printed: Text) -> Text:
        """A printed value with a type, which Python's own numbers lack."""
        return self.typed(printed, _of(node)) if is_number(node) else printed

    def spread(self, node: Expr, printed: Text) -> str:
        """A variable of a printed value with a type, as both sides of a selection need the same."""
        return self.name(self.with_type(node, printed)).text

    def chosen(self, condition: str, one: str, other: str) -> Text:
        return self.name(Text(f"{one} if {condition} else {other}", COMPARE - 1))

    def picked(self, condition: str, one: str, other: str) -> Text:
        return self.chosen(condition, one, other)

    def alike(self, variable: str, number: int, dtype: Dtype) -> str:
        return f"cutlass.{dtype.cutlass}({number})"

    def zero_quotient(self, node: Binary) -> Text:
        x = self.spread(node.right, self.print(node.right))
        nan = f"cutlass.{_of(node).cutlass}({self.special('nan')})"
        return self.chosen(f"{x} == 0", nan, f"{self.print(node.left).inside(PRODUCT)} / {x}")

    def call(self, node: Call, arguments: list[Text]) -> Text:
        dtype = _of(node)
        match node.function:
            case "relu":
                x = self.spread(node.arguments[0], arguments[0])
                negative = self.compared(node.arguments[0], Text(x), "<", ZERO, Text("0")).text
                return self.chosen(negative, f"cutlass.{dtype.cutlass}(0)", x)
            case "where" | "minimum" | "maximum":
                return self.selection(node, arguments)
        typed = [
            Text(self.spread(x, text)) if is_number(x) else text
            for x, text in zip(node.arguments, arguments, strict=True)
        ]
        return super().call(node, typed)

    def selection(self, node: Call, arguments: list[Text]) -> Text:
        pairs = list(zip(node.arguments, arguments, strict=True))
        if node.function != "where" and not _of(node).is_float:
            one, other = (self.fit(self.with_type(*pair), 2 * self.width // 3).text for pair in pairs)
            return Text(f"cutlass.{node.function[:3]}({one}, {other})")
        parts = [self.spread(*pair) for pair in pairs]
        if node.function == "where":
            return self.chosen(*parts)
        x, y = parts
        takes_y, takes_x = self.extremes(node, Text(x), Text(y))
        neither = self.chosen(takes_x, x, f"{x} + {y}")  # a NaN is on no side, and the sum is one
        return self.chosen(takes_y, y, neither.text)

    def cast(self, node: Cast, x: Text) -> Text:
        if not is_number(node.x):
            return super().cast(node, x)
        return super().cast(node, Text(self.spread(node.x, x)))

    def saturated(self, node: Cast, x: Text) -> Text:
        source, dtype = _of(node.x), _of(node)
        (low, high), (least, largest) = dtype.range, ends(dtype)
        value = self.spread(node.x, x)
        if source.compute is not source:
            value = self.name(Text(f"{value}.to(cutlass.{source.compute.cutlass})")).text
        number = f"cutlass.{source.compute.cutlass}"
        below = f"{number}({least})"
        if not self.intervals.are_around(node.x, low):  # as in `codegen.saturation`
            value = self.chosen(f"{value} == {value}", value, f"{number}(0)").text
        elif low < 0:  # a NaN is on neither side, and becomes 0
            below = self.chosen(f"{value} <= {least}", below, f"{number}(0)").text
        value = self.chosen(f"{value} > {least}", value, below).text
        to = f".to(cutlass.{dtype.cutlass})"
        if holds_ends(source, dtype):
            return Text(self.chosen(f"{value} < {high}", value, f"{number}({high})").text + to)
        return self.chosen(f"{value} < {after(dtype)}", f"{value}{to}", f"cutlass.{dtype.cutlass}({largest})")


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
