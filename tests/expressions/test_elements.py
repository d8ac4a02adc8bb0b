"""Of which floats a compiler can know no bound, and of which it may."""

from __future__ import annotations

import pytest

from cutegen.dtypes import Dtype
from cutegen.expressions.annotating import annotate
from cutegen.expressions.parsing import Cast, parse_compute
from cutegen.expressions.tree import walk

TYPES = {"X": Dtype.f32, "Z": Dtype.f32, "H": Dtype.f16, "I": Dtype.i32, "Y": Dtype.i8}


def of_element(*statements: str) -> bool:
    """Whether the only cast of a float to an integer is one of an element."""
    typed = annotate(parse_compute(statements), TYPES)
    nodes = (node for one in typed for node in walk(one.stored or one.value))
    (found,) = (node for node in nodes if isinstance(node, Cast) and node.saturates)
    return found.of_element


@pytest.mark.parametrize("x", ["X", "H", "round(X)", "floor(H)", "X / 3", "X * (127 / max(X, N))", "trunc(X / 2)"])
def test_elements(x: str) -> None:
    assert of_element(f"Y = cast({x}, i8)")
    assert not of_element(f"v = {x}", "Y = cast(v, i8)")


def test_elements_divided_by_what_is_the_same_along_a_row() -> None:
    assert of_element("a = max(abs(X), N) + 1", "Y = cast(round(X * (127 / a)), i8)")
    assert of_element("a = max(abs(X), N)", "b = a * 2", "Y = cast(X / b, i8)")
    assert not of_element("a = abs(X)", "Y = cast(X / a, i8)")
    assert not of_element("a = abs(X)", "b = a * 2", "Y = cast(X * (1 / b), i8)")


@pytest.mark.parametrize(
    "x",
    [
        *("X * X", "X ** 2", "X * 3", "X + 1", "-X", "abs(X)", "relu(X)", "exp(X)", "sqrt(X)", "maximum(X, 0)"),
        *("X / Z", "X * (1 / Z)", "X / X", "X * max(X, N)", "sum(X * X, N)", "max(X, N)", "where(X < 0, 0, X)"),
        *("cast(I, f32)", "I / 2", "A @ B.T"),
    ],
)
def test_values_of_which_something_may_be_known(x: str) -> None:
    types = {**TYPES, "A": Dtype.f32, "B": Dtype.f32}
    (typed,) = annotate(parse_compute([f"Y = cast({x}, i8)"]), types, Dtype.f32)
    assert isinstance(typed.value, Cast)
    assert typed.value.saturates
    assert not typed.value.of_element
