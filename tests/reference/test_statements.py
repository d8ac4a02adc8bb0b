"""The reference of several statements: each output has its own bound, from unrounded values of the earlier ones."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import parse_compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.language.model import KernelSpec, Scalar, Tensor
from cutegen.reference.autograd import differentiate
from cutegen.reference.bounds import evaluate
from cutegen.verification.compare import compare, together

MATRIX = ("M", "N")


def kernel(*statements: str, **tensors: Tensor) -> KernelSpec:
    """X and Y [M, N] are f32, b [N] too; D and E are what is written, f32 unless `tensors` says otherwise."""
    given = [Tensor("X", MATRIX, Dtype.f32), Tensor("Y", MATRIX, Dtype.f32), Tensor("b", ("N",), Dtype.f32)]
    given += [Tensor(name, MATRIX, Dtype.f32, role="out") for name in "DE"]
    compute = parse_compute(list(statements))
    used = {*compute.names(), *compute.targets}
    return KernelSpec(
        kernel="k",
        op="elementwise",
        tensors=tuple(tensors.get(t.name, t) for t in given if t.name in used or t.name == "X"),
        compute=compute,
        schedule=ElementwiseSchedule(),
    )


def data(rows: int = 50, columns: int = 40) -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(5)
    x, y = (torch.randn(rows, columns, generator=generator) for _ in "xy")
    return {"X": x, "Y": y, "b": torch.randn(columns, generator=generator)}


def of(spec: KernelSpec, values: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    return {t.name: values[t.name] for t in spec.tensors if t.reads}


def test_each_output_has_a_bound_of_its_own() -> None:
    spec, values = kernel("t = X * Y + b", "D = sqrt(abs(t))", "E = cast(t > 0, i32)"), data()
    spec = replace(spec, tensors=tuple(replace(t, dtype=Dtype.i32) if t.name == "E" else t for t in spec.tensors))
    found = evaluate(spec, of(spec, values), {})
    assert list(found) == ["D", "E"]
    x, y, b = (values[name].double() for name in "XYb")
    torch.testing.assert_close(found["D"].value, (x * y + b).abs().sqrt(), rtol=1e-14, atol=0)
    assert torch.equal(found["E"].value, (x * y + b > 0).long())
    t = values["X"] * values["Y"] + values["b"]  # as a kernel computes it
    fused = torch.addcmul(values["b"], values["X"], values["Y"])
    for value in (t, fused):
        assert compare(value.abs().sqrt(), *found["D"]).ok
        assert compare((value > 0).int(), *found["E"]).ok
    assert not compare(t.abs().sqrt() * (1 + 1e-4), *found["D"]).ok
    assert (found["E"].bound == 0).float().mean() > 0.99


def test_a_tensor_that_was_assigned_is_read_unrounded() -> None:
    half = Tensor("D", MATRIX, Dtype.bf16, role="out")
    spec, values = kernel("D = X / 3.0", "E = D * 3.0", D=half), data()
    found = evaluate(spec, of(spec, values), {})
    assert compare((values["X"] / 3).bfloat16(), *found["D"]).ok
    assert compare(values["X"] / 3 * 3, *found["E"]).ok
    assert not compare((values["X"] / 3).bfloat16().float() * 3, *found["E"]).ok


def test_what_is_read_and_written_is_read_as_it_was_until_it_is_assigned() -> None:
    both = Tensor("X", MATRIX, Dtype.f32, role="inout")
    x = data()["X"]
    before = evaluate(kernel("D = X", "X = X + 1", X=both), {"X": x}, {})
    assert list(before) == ["X", "D"] and torch.equal(before["D"].value, x.double())
    after = evaluate(kernel("X = X + 1", "D = X", X=both), {"X": x}, {})
    assert list(after) == ["X", "D"]
    for name, value in (("X", x + 1), ("D", x + 1)):
        assert compare(value, *after[name]).ok and not compare(x, *after[name]).ok


def test_coordinates_are_exact() -> None:
    whole = Tensor("D", MATRIX, Dtype.i32, role="out")
    spec = kernel("m = coord(M)", "D = 100 * m + coord(N)", "E = where(coord(N) > m, 0.0, X)", D=whole)
    x = data(7, 9)["X"]
    found = evaluate(spec, {"X": x}, {})
    assert found["D"].value.tolist() == [[100 * m + n for n in range(9)] for m in range(7)]
    assert torch.equal(found["E"].value, x.double().tril())
    assert all(bool((bound == 0).all()) for _, bound, *_ in found.values())


def test_sizes_may_follow_from_an_output_only() -> None:
    spec = kernel("D = coord(M) + X")
    spec = replace(spec, tensors=(Tensor("X", ("N",), Dtype.f32), *spec.tensors[1:]))
    with pytest.raises(ValueError, match="the size of M .*: pass D"):
        evaluate(spec, {"X": torch.ones(3)}, {})
    found = evaluate(spec, {"X": torch.ones(3), "D": torch.empty(2, 3)}, {})
    assert found["D"].value.tolist() == [[1] * 3, [2] * 3]


def test_a_number_is_stored_in_its_tensors_type() -> None:
    spec = kernel("D = 0.1", "E = 1")
    found = evaluate(spec, {"X": torch.ones(2, 2), "D": torch.ones(2, 2), "E": torch.ones(2, 2)}, {})
    assert found["D"].value[0, 0] == torch.tensor(0.1).double() and found["E"].value.tolist() == [[1, 1], [1, 1]]


PIECES = ["X * Y", "X - b", "exp(X)", "abs(Y) + 0.5", "maximum(X, b)", "s * X", "where(X < Y, X, b)"]
OUTER = ["{} + {}", "{} * {}", "{} - 2 * {}", "minimum({}, {})", "sqrt(abs({})) / (1 + abs({}))"]


@settings(max_examples=40, deadline=None)
@given(st.sampled_from(PIECES), st.sampled_from(PIECES), st.sampled_from(OUTER))
def test_a_local_value_is_what_stands_for_it(one: str, other: str, outer: str) -> None:
    """Bounds too: a kernel may compute it once or twice."""
    values, scalars = data(6, 5), {"s": 0.75}

    def found(*statements: str) -> torch.Tensor:
        spec = replace(kernel(*statements), scalars=(Scalar("s", Dtype.f32),))
        expected = evaluate(spec, {n: v for n, v in values.items() if n in {t.name for t in spec.tensors}}, scalars)[
            "D"
        ]
        return torch.stack([expected.value, expected.bound])

    inlined = found(f"D = {outer.format(f'({one})', f'({other})')}")
    assert torch.equal(found(f"t = {one}", f"u = {other}", f"D = {outer.format('t', 'u')}"), inlined)


def test_verdicts_of_several_outputs_are_one() -> None:
    expected, bound = torch.zeros(4, dtype=torch.float64), torch.full((4,), 0.5, dtype=torch.float64)
    good, close = compare(torch.zeros(4), expected, bound), compare(torch.full((4,), 0.25), expected, bound)
    bad = compare(torch.tensor([0, 0, 9.0, 0]), expected, bound)
    assert together([good]) is good
    both = together([good, close])
    assert (both.ok, both.count, both.failed, both.max_error, both.ratio) == (True, 8, 0, 0.25, 0.5)
    for order in ([good, bad, close], [bad, close, good]):
        found = together(order)
        assert (found.ok, found.count, found.failed, found.worst, found.reason) == (False, 12, 1, (2,), bad.reason)


def test_remainders_have_the_gradients_that_torchs_have() -> None:
    values = {name: x.double() for name, x in data().items() if name in "XY"}
    arriving = {"D": torch.ones_like(values["X"])}
    for text, of_torch in (("X % Y", torch.remainder), ("fmod(X, Y)", torch.fmod), ("X // Y", None)):
        leaves = [x.clone().requires_grad_() for x in values.values()]
        found = differentiate(kernel(f"D = X * Y + {text}"), values, {}, arriving, ["X", "Y"]).gradients
        total = leaves[0] * leaves[1] + (of_torch(*leaves) if of_torch else 0)
        for name, gradient in zip("XY", torch.autograd.grad(total.sum(), leaves), strict=True):
            torch.testing.assert_close(found[name], gradient, rtol=1e-12, atol=1e-12)


def test_a_quotient_that_is_zero_has_the_sign_that_torch_gives_it() -> None:
    edges = torch.tensor([0.0, -0.0, 1.0, -1.0, 3.0, -3.0, 1e-45, torch.inf, -torch.inf])
    x, y = (part.reshape(9, 9) for part in torch.cartesian_prod(edges, edges).unbind(1))
    value, _, signed, _ = evaluate(kernel("D = X // Y"), {"X": x, "Y": y}, {})["D"]
    wanted = torch.floor_divide(x.double(), y.double())
    assert signed and compare(wanted.float(), value, torch.zeros_like(value), signed).ok
    assert torch.equal(value.signbit() & (value == 0), wanted.signbit() & (wanted == 0))
