"""The tables of what is known: each law twice, as one object and as numbers; each derivative beside torch's."""

from __future__ import annotations

import re

import pytest
import torch
from differentiation_kit import SIZES, VALUES, inputs, numbers, run, spec_of

from cutegen.differentiation.rules import DERIVATIVES
from cutegen.expressions.functions import FUNCTIONS, WAYS
from cutegen.expressions.reading_sums import sum_of_text
from cutegen.expressions.sums import LAWS

POSITIVE = ("log", "log2", "log10", "log1p", "sqrt", "rsqrt", "reciprocal", "pow", "hypot", "fmod", "remainder")


@pytest.mark.parametrize("law", LAWS)
def test_a_law(law: str) -> None:
    before, after = LAWS[law]
    assert sum_of_text(before, VALUES) == sum_of_text(after, VALUES)
    torch.testing.assert_close(numbers(before), numbers(after), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", WAYS)
def test_another_way(function: str) -> None:
    torch.testing.assert_close(numbers(f"{function}(x)"), numbers(WAYS[function]), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", [name for name in DERIVATIVES if name != "where"])
def test_a_derivative(function: str) -> None:
    parameters = FUNCTIONS[function].parameters
    arguments = ["x", "y", "z"][: len(parameters)]
    tensors = dict.fromkeys(arguments, "N f64")
    forward = spec_of("elementwise", {**tensors, "out_": "N f64 out"}, [f"out_ = {function}({', '.join(arguments)})"])
    values = {name: x for name, x in inputs(forward, SIZES).items() if name in arguments}
    if function in POSITIVE:
        values = {name: x.abs() + 0.1 for name, x in values.items()}
    elif function in ("asin", "acos", "atanh"):
        values = {"x": values["x"].tanh()}
    elif function == "acosh":
        values = {"x": values["x"].abs() + 1.5}
    else:
        values = {name: torch.cat([x[:3], torch.zeros(2, dtype=torch.float64)]) for name, x in values.items()}
    leaves = {name: x.clone().requires_grad_() for name, x in values.items()}
    result = run(forward, leaves, SIZES)["out_"]
    wanted = torch.autograd.grad(result.sum(), list(leaves.values()))
    for text, grad in zip(DERIVATIVES[function], wanted, strict=True):
        assert text is not None
        for parameter, argument in zip(parameters, arguments, strict=True):
            text = re.sub(rf"\b{parameter}\b", argument, text)
        known = {**tensors, "f": "N f64", "out_": "N f64 out"}
        used = {name: said for name, said in known.items() if name in ("out_", "f", *arguments)}
        spec = spec_of("elementwise", used, [f"out_ = {text} + 0 * ({' + '.join([*arguments, 'f'])})"])
        found = run(spec, {**values, "f": result.detach()}, SIZES)["out_"]
        torch.testing.assert_close(found, grad, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("function", ["elu", "hardswish", "silu", "softplus", "tanh"])
def test_a_derivative_at_nan_is_nan(function: str) -> None:
    """Torch's own has it so in the loops of its vectors, and 1 in what is left of them, for `elu` and `hardswish`."""
    text = (DERIVATIVES[function][0] or "").replace("alpha", "1")
    unknown = torch.full((5,), torch.nan, dtype=torch.float64)
    spec = spec_of(
        "elementwise", {"x": "N f64", "f": "N f64", "out_": "N f64 out"}, [f"out_ = where(x == f, 0, {text})"]
    )
    assert run(spec, {"x": unknown, "f": unknown}, SIZES)["out_"].isnan().all()
