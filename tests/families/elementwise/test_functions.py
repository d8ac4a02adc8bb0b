"""Functions as the compiler makes them of a kernel, run by the emulator against torch's own."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("cutlass")
torch = pytest.importorskip("torch")

from calls_kit import arguments_of, call  # noqa: E402

from cutegen.codegen import generate  # noqa: E402
from cutegen.emulator import install, on_device  # noqa: E402
from cutegen.reference.bounds import evaluate  # noqa: E402
from cutegen.verification.compare import compare  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402

SPEC = """
cutegen: 1
kernel: functions
op: elementwise
targets: [sm_80]
tensors:
  X: {shape: [N], dtype: f32}
  W: {shape: [N], dtype: f64}
  I: {shape: [N], dtype: i8}
  R: {shape: [N], dtype: f32, role: out}
  F: {shape: [N], dtype: f32, role: out}
  C: {shape: [N], dtype: f32, role: out}
  G: {shape: [N], dtype: f32, role: out}
  RW: {shape: [N], dtype: f64, role: out}
  GW: {shape: [N], dtype: f64, role: out}
  RI: {shape: [N], dtype: i8, role: out}
compute:
  - R = round(X)
  - F = floor(X)
  - C = ceil(X)
  - G = gelu_tanh(X)
  - RW = round(W)
  - GW = gelu_tanh(W)
  - RI = round(I) + cast(round(2.5), i8)
"""
ODD = [0.5, 1.5, 2.5, -0.5, -1.5, -2.5, -0.0, 8388607.5, 1e30, -1e30, -30.0, float("inf"), float("-inf"), float("nan")]


def test_functions(tmp_path: Path) -> None:
    module = generate(SPEC, "specs/functions.yaml").modules[0]
    path = tmp_path / module.name
    path.write_text(module.text, encoding="utf-8")
    python = load_module(path)
    install(python, "functions", lines=False)
    arguments = arguments_of(python, N=200)
    x, w, whole, *outputs = arguments
    x *= 4
    x[: len(ODD)] = torch.tensor(ODD)
    w.copy_(x.double() * 1.1)
    w[: len(ODD)] = torch.tensor(ODD)
    call(python, "functions", list(map(on_device, arguments)))
    right = (x.round(), x.floor(), x.ceil(), None, w.round(), None, whole + 2)
    derived = evaluate(module.spec, {"X": x, "W": w, "I": whole}, {}).values()
    for found, exactly, (value, bound, *_), reference in zip(
        outputs, right, derived, call(python, "reference", arguments), strict=True
    ):
        assert bound.isfinite().all() and compare(found, value, bound).ok and compare(reference, value, bound).ok
        if exactly is None:
            own = torch.nn.functional.gelu(x if found.dtype is x.dtype else w, approximate="tanh")
            assert compare(own, value, bound).ok
        else:
            torch.testing.assert_close(found, exactly, rtol=0, atol=0, equal_nan=True)
            assert torch.equal(found.double().signbit(), exactly.double().signbit())


def test_what_came_later_may_still_be_a_name() -> None:
    text = "cutegen: 1\nkernel: named\nop: elementwise\ntensors:\n  Floor: {shape: [ceil], dtype: f32}\n"
    text += "  Y: {shape: [ceil], dtype: f32, role: out}\nscalars: {gelu_tanh: f32}\n"
    text += "compute: Y = floor(Floor) * gelu_tanh + gelu_tanh(Floor) + ceil(coord(ceil))"
    assert "floor" in generate(text, "specs/named.yaml").modules[0].text
