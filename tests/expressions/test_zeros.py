"""Which values are 0 whatever the arguments are, and which only may be."""

from __future__ import annotations

import pytest

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import Expr, Local, parse_compute
from cutegen.expressions.zeros import is_zero

TYPES = {"X": Dtype.f32, "I": Dtype.i32, "U": Dtype.u8, "B": Dtype.bool, "Y": Dtype.f64}


def zero(*statements: str) -> bool:
    """Whether what the last statement assigns to is 0."""
    typed = annotate(with_named_numbers(parse_compute(statements), TYPES), TYPES)
    values = {one.target: one.value for one in typed}

    def held(node: Expr) -> Expr:
        while isinstance(node, Local):
            node = values[node.id]
        return node

    return is_zero(typed[-1].value, held)


@pytest.mark.parametrize(
    "text",
    [
        *("0", "0.0", "-0.0", "cast(0, f16)", "cast(1 > 2, f32)", "cast(0.5, i32)", "0 * I", "I * 0", "I - I"),
        *("where(B, 0, 0.0)", "-(0 * U)", "0.0 / 2", "0.0 * 3 + 0", "minimum(0, 0 * I)", "sqrt(0.0)", "abs(I - I)"),
        *("(I - I) ** 2", "(I - I) / 3", "I & 0", "I ^ I", "U >> 8", "U // 256", "(I & 1) // 2", "I % 1", "0 << I"),
    ],
)
def test_what_is_0(text: str) -> None:
    assert zero(f"Y = {text}")
    assert zero(f"v = {text}", "Y = v")


@pytest.mark.parametrize(
    "text",
    [
        *("1", "X", "I", "coord(N)", "X - X", "0 * X", "0.0 * cast(X, f64)", "where(B, 0, 1)", "0 + I"),
        *("0 / I", "I - U", "U >> 7", "I // I", "I & U", "I << 40"),
        *("exp(0 * I)", "cast(B, f32)", "0.0 * inf", "nan", "maximum(0, I)", "where(B, X, 0)"),
    ],
)
def test_what_may_be_something_else(text: str) -> None:
    assert not zero(f"Y = {text}")
    assert not zero(f"v = {text}", "Y = v")
