"""Comparisons of an element's place in its row with one i64 of the whole row, as comparisons of 32 bits.

A place has 32 bits. Compared with an i64 it would be widened, and every element compared in two halves; instead that
number is brought to 32 bits, once for the row.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import COMPARISONS, Binary, Call, Cast, Coord, Expr, Literal_

BEFORE, BEYOND = -1, 2**31 - 1
"""Numbers of 32 bits below and above all places: the host refuses longer rows."""
BROUGHT = "In 32 bits: -1 is below every coordinate, 2^31 - 1 above"


def beside_place(node: Expr, row: str, along: Callable[[Expr], bool]) -> Expr | None:
    """The i64 with which an expression compares the coordinate along `row`; None where it does not, or where that is
    one of each element, as `along` says of an expression.
    """
    if not isinstance(node, Binary) or node.op not in COMPARISONS:
        return None
    for place, number in ((node.left, node.right), (node.right, node.left)):
        if _widened(place, row) is not None and not along(number):
            return number
    return None


def brought(number: Expr) -> Expr:
    """An i64 as the nearest number from -1 to 2^31 - 1.

    What is below every place becomes -1, and what is above every place 2^31 - 1: that is on the same side of each as
    it was, and equal to none, so that all six comparisons of a place with it give what they gave.
    """
    least = Call("minimum", (number, Literal_(BEYOND, dtype=Dtype.i64)), dtype=Dtype.i64, place=number.place)
    both = Call("maximum", (least, Literal_(BEFORE, dtype=Dtype.i64)), dtype=Dtype.i64, place=number.place)
    return Cast(both, dtype=Dtype.i32, place=number.place)


def in_32_bits(node: Expr, row: str, number: Expr) -> Expr:
    """The comparison with the 32-bit `number` in the place of the one that `beside_place` found."""
    assert isinstance(node, Binary)
    left, right = _widened(node.left, row), _widened(node.right, row)
    return replace(node, left=left or number, right=right or number)


def _widened(node: Expr, row: str) -> Coord | None:
    """The coordinate along `row` that an expression widens to 64 bits; None where it is anything else."""
    if isinstance(node, Cast) and node.dtype is Dtype.i64 and isinstance(node.x, Coord) and node.x.mode == row:
        return node.x
    return None
