"""Which tensors are converted from floats of 8 bits."""

from __future__ import annotations

import pytest

from cutegen.codegen import generate
from cutegen.expressions.annotating import annotate
from cutegen.planning.conversions import converted_names

TENSORS = {
    **{"X": "dtype: f8e4m3", "W": "dtype: f8e5m2", "F": "dtype: f32"},
    **{"Y": "dtype: f8e4m3, role: out", "Z": "dtype: f32, role: out"},
}


@pytest.mark.parametrize(
    ("statements", "converted"),
    [
        (["Y = X", "Z = F"], set()),
        (["Y = X", "Z = X + 1"], {"X"}),
        (["Y = X", "Z = Y + F"], {"X"}),
        (["v = X", "Y = v", "Z = v * W"], {"X", "W"}),
        (["Y = where(F > 0, X, 0)", "Z = F"], {"X"}),
        (["Y = cast(W, f8e4m3)", "Z = cast(cast(F, f8e5m2), f32)"], {"W"}),
    ],
)
def test_what_is_computed_with_is_converted(statements: list[str], converted: set[str]) -> None:
    read = [name for name in TENSORS if name in "YZ" or any(name in text for text in statements)]
    lines = ["cutegen: 1", "kernel: trial", "op: elementwise", "tensors:"]
    lines += [f"  {name}: {{shape: [N], {TENSORS[name]}}}" for name in read]
    lines += ["compute:", *(f'  - "{text}"' for text in statements)]
    spec = generate("\n".join(lines) + "\n", "x.yaml").modules[0].spec
    types = {tensor.name: tensor.dtype for tensor in spec.tensors}
    assert converted_names(annotate(spec.compute, types)) == converted


def test_numbers_are_those_of_the_accumulator() -> None:
    text = """
cutegen: 1
kernel: large
op: gemm
tensors:
  A: {shape: [M, K], dtype: f16}
  B: {shape: [N, K], dtype: f16}
  C: {shape: [M, N], dtype: f32, role: out}
compute: C = A @ B.T + 1e308
schedule: {mma: {accumulator: f64}}
"""
    assert "1e308" in generate(text, "x.yaml").modules[0].text
