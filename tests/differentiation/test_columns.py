"""Gradients of what broadcasts along the rows are sums over these and no more, as a row kernel adds rows up."""

from __future__ import annotations

import pytest
from differentiation_kit import check, lines, spec_of

from cutegen.differentiation import buildable
from cutegen.expressions.tree import Reduce
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.planning import resolve
from cutegen.planning.report import Report

X, Y, W = {"X": "M,N f32"}, {"Y": "M,N f32 out"}, {"W": "N f32"}

# name -> op, tensors, compute, scalars, tensors whose gradients are sums over rows
FORWARDS = {
    "a number": ("elementwise", X | W | Y, ["Y = -0.3 * X * W"], "", "W"),
    "a scalar": ("elementwise", X | W | Y, ["Y = a * X * W ** 2"], "{a: f32}", "W"),
    "an outer product": ("elementwise", {"U": "M f32"} | W | Y, ["Y = exp(-(U - W) ** 2)"], "", "W"),
    "two terms": ("elementwise", X | W | {"Z": "M,N f32"} | Y, ["Y = W * X - 3 * a * Z * W"], "{a: f32}", "W"),
    "a sum in parentheses": ("elementwise", X | W | Y, ["Y = (1 - a) * X * W + (1 + a) * W"], "{a: f32}", "W"),
    "several rows' modes": ("elementwise", {"X": "B,M,N f32"} | W | {"Y": "B,M,N f32 out"}, ["Y = 5 * X * W"], "", "W"),
    "a mean of each row": ("rowwise", X | W | {"y": "M f32 out"}, ["y = mean(X * W, N)"], "", "W"),
    "a loss with weights": (
        "rowwise", X | W | {"T": "M i32", "L": "M f32 out"},
        ["p = X - logsumexp(X, N)", "L = -sum(where(coord(N) == T, (1 - a) * W * p, 0) + a * W * p / 7, N)"],
        "{a: f32}", "W",
    ),
    "the scale of a quantiser": ("rowwise", X | W | {"s": "M f32 out"}, ["s = max(abs(X * W), N) / 127"], "", "W"),
    "two of them": ("elementwise", X | W | {"b": "N f32"} | Y, ["Y = 2 * X * W + b / 3"], "", "Wb"),
}  # fmt: skip


@pytest.mark.parametrize("name", FORWARDS)
def test_one_kernel_computes_it_of_tensors_as_torch_makes_them(name: str) -> None:
    op, tensors, compute, scalars, columns = FORWARDS[name]
    spec = spec_of(op, tensors, compute, scalars, "static: {N: 5}\n")
    built = buildable(spec)
    assert not built.refused
    made = check(spec, built.made)
    for column in columns:
        (value,) = [s.value for s in made.spec.compute.statements if s.target == f"d{column}"]
        assert isinstance(value, Reduce), lines(made.spec)
    (read,) = read_specs(write_spec(made.spec))
    report = Report(read.source)
    resolved = resolve(read, report)
    assert not report.failed
    assert {tensor.contiguous for tensor in resolved.tensors if "N" in tensor.modes} == {"N"}


def test_a_sum_along_a_row_keeps_its_factors_outside() -> None:
    """There they cost an operation for each row, not for each element."""
    spec = spec_of("elementwise", X | {"g": "M f32"} | Y, ["Y = -0.3 * X * g"])
    assert "dg = -0.3 * sum(dY * X, N)" in lines(check(spec).spec)
