"""Common subexpressions of statements are computed once, with the same results."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import pytest
import torch

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.reference import arithmetic, bounds
from cutegen.reference.repeated import NONE, repeats
from cutegen.reference.rounding import Bounded, settle

MATRIX = ("M", "N")


def kernel(*statements: str) -> KernelSpec:
    compute = parse_compute(list(statements))
    outputs = tuple(Tensor(name, MATRIX, Dtype.f32, role="out") for name in compute.targets if name in "DE")
    return KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=(Tensor("X", MATRIX, Dtype.bf16), Tensor("Y", MATRIX, Dtype.f32), *outputs),
        scalars=(Scalar("s", Dtype.f32),),
        compute=compute,
        schedule=ElementwiseSchedule(),
    )


def texts(spec: KernelSpec) -> dict[str, int]:
    """How often what is repeated is asked for: by the last operation of it."""
    found = {}
    for text, count in repeats(bounds.statements(spec)).values():
        function = text.partition("function='")[2].partition("'")[0]
        found[function or text.partition("op='")[2].partition("'")[0]] = count
    return found


@pytest.mark.parametrize(
    ("statements", "wanted"),
    [
        (["D = exp(X) + Y", "E = exp(X) * Y"], {"exp": 2}),
        (["D = (X - Y) * (X - Y)", "E = (X - Y) * s"], {"-": 3}),
        (["D = log(X) + Y", "E = exp(X) * Y"], {}),
        (["D = X + Y", "E = X"], {}),
        (["p = exp(X)", "D = p * Y", "E = p * Y + log(p * Y)"], {"*": 3}),
        (["D = 0.0 * X + -0.0 * X", "E = Y"], {}),
        (["D = sigmoid(X) + sigmoid(X)", "E = sigmoid(Y)"], None),
    ],
)
def test_what_is_repeated_is_computed_once(
    statements: Sequence[str], wanted: dict[str, int] | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    spec = kernel(*statements)
    if wanted is not None:
        assert texts(spec) == wanted
    generator = torch.Generator().manual_seed(3)
    x, y = (torch.randn(30, 40, generator=generator) * 50 for _ in "xy")
    x[0, :4] = torch.tensor([0.0, -0.0, math.inf, math.nan])
    given = {"X": x.to(torch.bfloat16), "Y": y}
    once = bounds.evaluate(spec, given, {"s": 3.0})
    monkeypatch.setattr(bounds, "repeats", lambda typed: NONE)
    again = bounds.evaluate(kernel(*statements), given, {"s": 3.0})
    for name, one in again.items():
        for a, b in ((one.value, once[name].value), (one.bound, once[name].bound)):
            assert torch.equal(a.clone().view(torch.int64), b.clone().view(torch.int64))


def test_what_is_kept_goes_with_its_last_use() -> None:
    spec = kernel("D = exp(X) + Y", "E = exp(X) * exp(X)")
    evaluator = bounds.Evaluator(spec, {"X": torch.ones(2, 3, dtype=torch.bfloat16), "Y": torch.ones(2, 3)}, {"s": 1.0})
    evaluator.outputs()
    assert not evaluator.kept._values


def by_full_formula(f: Callable[[torch.Tensor], torch.Tensor], x: Bounded, dtype: Dtype) -> Bounded:
    """The result of a monotone function, on elements of any kind."""
    up = torch.full_like(x.value, torch.inf)
    value = f(x.value)
    low = torch.where(x.exact, value, f(torch.nextafter(x.value - x.error, -up)))
    high = torch.where(x.exact, value, f(torch.nextafter(x.value + x.error, up)))
    error = torch.maximum((high - value).abs(), (value - low).abs())
    same = ((low == value) & (high == value)) | (low.isnan() & value.isnan() & high.isnan())
    same &= x.error.isfinite()
    error = torch.where(same, 0.0, error.nan_to_num(torch.inf, torch.inf))
    error = torch.where(x.error.isfinite(), error, torch.inf)
    return settle(value, error, arithmetic.allowance(value, error, dtype), dtype, lambda: same)


@pytest.mark.parametrize("function", ["exp", "log", "tanh", "sqrt", "rsqrt"])
@pytest.mark.parametrize("errors", ["known", "exact", "some", "all", "unknown"])
@pytest.mark.parametrize("special", [False, True])
def test_monotone_functions_are_what_the_full_formula_gives(function: str, errors: str, special: bool) -> None:
    generator, f = torch.Generator().manual_seed(len(function)), getattr(torch, function)
    value = torch.randn(20, 30, generator=generator, dtype=torch.float64).abs() * 20 + 0.1
    if special:
        value[0, :7] = torch.tensor([0.0, -0.0, math.inf, -math.inf, math.nan, -1.0, 1000.0])
    error = value.nan_to_num(1.0, 1.0, 1.0).abs() * 1e-6
    few = torch.rand(value.shape, generator=generator) < 0.2
    made = {
        "known": torch.zeros((), dtype=torch.float64),
        "exact": torch.zeros_like(value),
        "some": torch.where(few, 0.0, error),
        "all": error + 1e-9,
        "unknown": torch.where(few, torch.inf, error),
    }
    x = Bounded(value, made[errors], Dtype.f32)
    found, wanted = arithmetic._monotone(f, x, Dtype.f32), by_full_formula(f, x, Dtype.f32)
    for a, b in ((found.value, wanted.value), (found.error, wanted.error)):
        assert torch.equal(a.expand_as(value).clone().view(torch.int64), b.expand_as(value).clone().view(torch.int64))
