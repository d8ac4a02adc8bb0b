"""Operators on integers as CuTeDSL's text: `//`, `%` and shifts, for every operand.

CuTeDSL's `%` has the sign of the dividend, and the machine leaves open what a division by zero, that of the least
integer by -1, or a shift by more bits than there are gives: their operands are replaced before, unless they are numbers
of the spec that need it not.
"""

from __future__ import annotations

from typing import Protocol

from cutegen.codegen.texts import AND, ATOM, NEGATE, PRODUCT, SHIFT, SUM, Text
from cutegen.dtypes import Dtype
from cutegen.expressions.intervals import Intervals
from cutegen.expressions.tree import Binary, Expr, Literal_


class Words(Protocol):
    """A printer of kernels, as far as integers need it."""

    intervals: Intervals

    def print(self, node: Expr) -> Text: ...

    def is_tensor(self, node: Expr) -> bool: ...

    def name(self, printed: Text) -> Text: ...

    def spread(self, node: Expr, printed: Text) -> str: ...

    def picked(self, condition: str, one: str, other: str) -> Text:
        """The text of one of two values."""

    def alike(self, variable: str, number: int, dtype: Dtype) -> str:
        """The text of a number as what a variable is."""


def quotient(words: Words, node: Binary) -> Text:
    """The text of `//` or `%`: 0 where the divisor is 0."""
    if isinstance(node.right, Literal_):
        return _by_number(words, node, int(node.right.value))
    x, y, dtype = _variable(words, node.left), _variable(words, node.right), _of(node)
    one = words.alike(y, 1, dtype)
    divisor = words.name(words.picked(f"({y} == 0) | ({y} == -1)", one, y)).text
    if node.op == "%":
        return Text(f"{x} - {x} // {divisor} * {divisor}", SUM)
    by_minus_one = words.name(words.picked(f"{y} == -1", f"-{x}", f"{x} // {divisor}")).text
    return words.picked(f"{y} == 0", words.alike(y, 0, dtype), by_minus_one)


def _by_number(words: Words, node: Binary, divisor: int) -> Text:
    """By a number that is not 0; by a power of two it is a matter of bits."""
    left, power = words.print(node.left), divisor.bit_length() - 1
    if divisor == 1 << power and node.op == "%":
        return Text(f"{left.inside(AND)} & {divisor - 1}", AND)
    if divisor == 1 << power:
        return _shifted(words, node, ">>", left, str(power)) if power else left
    x = words.name(left).text
    if divisor == -1:
        return Text(f"{x} - {x}", SUM) if node.op == "%" else Text(f"-{x}", NEGATE)
    result = f"{x} // {divisor}"
    return Text(f"{x} - {result} * {divisor}", SUM) if node.op == "%" else Text(result, PRODUCT)


def shift(words: Words, node: Binary) -> Text:
    """The text of a shift by any number of bits; one that is negative counts as more than there are."""
    dtype, last = _of(node), _of(node).bits - 1
    if isinstance(node.right, Literal_):
        left, bits = words.print(node.left), int(node.right.value)
        if not 0 <= bits <= last:
            if node.op == "<<":
                return Text(words.alike(words.name(left).text, 0, dtype))
            bits = last
        return _shifted(words, node, node.op, left, str(bits))
    x, count = Text(_variable(words, node.left)), _variable(words, node.right)
    outside = f"({count} < 0) | ({count} > {last})"
    if node.op == ">>":
        inside = words.name(words.picked(outside, words.alike(count, last, dtype), count))
        return _shifted(words, node, node.op, x, inside.text)
    inside = words.name(Text(f"{count} & {last}", AND))
    moved = words.name(_shifted(words, node, node.op, x, inside.text))
    return words.picked(outside, words.alike(x.text, 0, dtype), moved.text)


def _shifted(words: Words, node: Binary, op: str, x: Text, count: str) -> Text:
    """A value by as many bits as there are or fewer: CuTeDSL's tensors have no operator for it."""
    if not words.is_tensor(node):
        return Text(f"{x.inside(SHIFT)} {op} {count}", SHIFT)
    return Text(f"{x.inside(ATOM)}.apply_op(operator.{'lshift' if op == '<<' else 'rshift'}, {count})")


def _variable(words: Words, node: Expr) -> str:
    """A variable of a value, as a tensor where the printer has tensors."""
    return words.name(Text(words.spread(node, words.print(node)))).text


def _of(node: Expr) -> Dtype:
    assert node.dtype is not None
    return node.dtype
