"""Normal forms are the same for what is equal, for nothing else, and made soon whatever they are of."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
import torch
from differentiation_kit import SIZES, VALUES, numbers

from cutegen.expressions.named_numbers import with_named_numbers
from cutegen.expressions.parsing import parse_compute
from cutegen.expressions.sums import NoForm, Sum
from cutegen.peers.normal_form import NormalForms


def form(forms: NormalForms, statements: Sequence[str]) -> Sum:
    """The normal form of what the last statement computes."""
    compute = with_named_numbers(parse_compute(statements), VALUES)
    *_, (_, found) = forms.of(compute, VALUES)
    return found


@pytest.mark.parametrize("power", ["4 ** 16", "(x + exp(x)) ** 16", "(x + 1.5) ** 16"])
def test_what_grows_without_end_is_given_up_soon(power: str) -> None:
    """Numbers of millions of digits, sums of millions of terms."""
    statements = [f"t0 = {power}", *(f"t{i} = (t{i - 1} + 0.5) ** 16" for i in range(1, 12))]
    with pytest.raises(NoForm):
        form(NormalForms(), statements)


@pytest.mark.parametrize(
    "text",
    [
        "x / 0",
        "x / ((x + 1) * (x - 1) - x * x + 1)",
        "z / (w + x / ((x + 1) * (x - 1) - x * x + 1))",
        "where(x > y, x, -inf)",
    ],
)
def test_what_is_no_real_number_has_no_form(text: str) -> None:
    with pytest.raises(NoForm):
        form(NormalForms(), [f"a = {text}"])


def test_what_is_used_twice_in_each_step_is_looked_at_once() -> None:
    """Forms share their parts: written out, this one has 2 ** 60 of them."""
    statements = ["t0 = x", *(f"t{i} = exp(t{i - 1}) + log(t{i - 1})" for i in range(1, 60))]
    forms = NormalForms()
    assert form(forms, statements) == form(forms, statements)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("x * (y + 2)", "2 * x + y * x"),
        ("(x - y) ** 2", "x * x - 2 * x * y + y * y"),
        ("x / (y * 2)", "0.5 * x * (1 / y)"),
        ("rsqrt(x + y)", "1 / sqrt(y + x)"),
        ("silu(x)", "sigmoid(x) * x"),
        ("x - -y", "y + x"),
        ("max(x + y, N)", "max(y + x, N)"),
        ("where(x > y, 0, x) * y", "where(x > y, 0, x * y)"),
        ("where(x > y, x, y)", "x - where(x > y, 0, x - y)"),
        ("where(x != y, x, 0)", "where(not y == x, x, 0)"),
        ("where(x > y, where(x > y, x, y), 0)", "where(x > y, x, 0)"),
        ("where(x > 0, where(y > 0, 1, 0), 0)", "where(y > 0, 1, 0) * where(x > 0, 1, 0)"),
        ("where(x > 0 and y > 0, x, y)", "where(0 < y, where(x > 0, x, y), y)"),
        ("where(x > 0 or y > 0, x, y)", "where(x > 0, x, where(y > 0, x, y))"),
        ("where(2 * x > 2 * y, x, y)", "where(y - x < 0, x, y)"),
        ("where(x == y, z, w)", "where(2 * y - 2 * x == 0, z, w)"),
        ("where(2 > 1, x, y)", "x"),
        ("z / (x - y)", "-z / (y - x)"),
        ("x + 1 / (1 + z / (y - x))", "1 / (1 - z / (x - y)) + x"),
        ("z / (2 * x + 4 * y)", "0.5 * z / (2 * y + x)"),
        ("1 / (x + y) / (x - y)", "1 / (x * x - y * y)"),
        ("1 / (x + y) / (y + x)", "1 / (x + y) ** 2"),
        ("(x + y) / (2 * y + 2 * x)", "0.5"),
        ("exp((x + y) * (x - y))", "exp(x * x - y * y)"),
        ("mean((x - mean(x, N)) ** 2, N)", "mean(x * x, N) - mean(x, N) ** 2"),
        ("sum(w * (x + y), N)", "w * sum(x, N) + sum(y, N) * w"),
        ("mean(x, N)", "sum(x, N) / 5"),
        ("maximum(x + y, z)", "maximum(z, y + x)"),
        ("square(x) * reciprocal(z)", "x * x / z"),
    ],
)
def test_equal_forms(one: str, other: str) -> None:
    forms = NormalForms({"N": SIZES["N"]})
    assert form(forms, [f"a = {one}"]) == form(forms, [f"a = {other}"])
    torch.testing.assert_close(numbers(one), numbers(other), rtol=1e-9, atol=1e-9, equal_nan=True)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("sqrt(x * x)", "x"),
        ("sqrt(x) * sqrt(y)", "sqrt(x * y)"),
        ("sqrt(4 * x)", "4 * sqrt(x)"),
        ("1 / (x + y)", "1 / x + 1 / y"),
        ("max(x, N)", "max(x, M)"),
        ("max(x, N)", "min(x, N)"),
        ("x < y", "x <= y"),
        ("minimum(x, y)", "maximum(x, y)"),
        ("cast(x, bf16)", "x"),
        ("cast(x, bf16)", "cast(x, f16)"),
        ("coord(N)", "coord(M)"),
        ("exp(x)", "log(x)"),
        ("x", "y"),
        ("0.1 * x", "0.1000000000000001 * x"),
        ("where(x > y, x, y)", "where(x > y, y, x)"),
        ("where(x > y, x, 0)", "where(x >= y, x, 0)"),
        ("where(x > 0, x, 0) * where(y > 0, x, 0)", "where(x > 0, x * x, 0)"),
        ("where(x == y, x, 0)", "where(x != y, x, 0)"),
        ("where(x < y, 1, 0)", "where(y < x, 1, 0)"),
        ("where(x == y, 1, 0)", "where(x == -y, 1, 0)"),
        ("where(x > 0 and y > 0, 1, 0)", "where(x > 0 or y > 0, 1, 0)"),
        ("1 / (x - y)", "1 / (y - x)"),
        ("1 / (2 * x + 4 * y)", "1 / (x + 2 * y)"),
        ("sum(x * y, N)", "sum(x, N) * sum(y, N)"),
        ("mean(x, N)", "sum(x, N) / 4"),
        ("prod(x / x * w, N)", "w"),
        ("x / where(y > 0, 1, 0)", "where(y > 0, x, 0)"),
    ],
)
def test_other_forms(one: str, other: str) -> None:
    forms = NormalForms({"N": SIZES["N"]})
    assert form(forms, [f"a = {one}"]) != form(forms, [f"a = {other}"])
