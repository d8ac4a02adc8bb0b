"""Elements that kernels of contractions compute in fewer instructions, and the bounds that count it."""

from __future__ import annotations

import numpy as np
import pytest

from cutegen.codegen import generate

torch = pytest.importorskip("torch")

from cutegen.reference.bounds import evaluate  # noqa: E402

SPEC = """\
cutegen: 1
kernel: small
op: contract
tensors:
  Q: {shape: [M, D], dtype: bf16}
  K: {shape: [N, D], dtype: bf16}
  V: {shape: [N, D], dtype: bf16}
  O: {shape: [M, D], dtype: f32, role: out}
scalars: {cap: f32}
compute:
  - s = cap * tanh(sum(Q * K, D) / cap)
  - O = sum(cast(s, bf16) * V, N)
static: {D: 32}
schedule: {math: MATH}
targets: [sm_80]
"""
U = 2.0**-24
POWER, ROOT = (
    2.0**-22,
    2.0**-22.4,
)  # relative errors of ex2.approx and rsqrt.approx (PTX ISA 9.1, 9.7.3.21 and 9.7.3.18)


def by_exponential(x: np.ndarray, power: float, root: float) -> np.ndarray:
    """The kernel's formula in f32, with these relative errors of its approximate instructions."""
    scaled = x * np.float32(2.8853900817779268)
    total = (np.exp2(scaled.astype(np.float64)) * (1 + power)).astype(np.float32) + np.float32(1)
    inverse = ((1 / np.sqrt(total.astype(np.float64))) * (1 + root)).astype(np.float32)
    doubled = np.float32(2) * inverse
    return np.float32(1) - doubled * inverse


@pytest.mark.parametrize("power", [-POWER, 0.0, POWER])
@pytest.mark.parametrize("root", [-ROOT, 0.0, ROOT])
def test_a_tanh_by_an_exponential_is_within_its_bound(power: float, root: float) -> None:
    x = np.concatenate([np.linspace(-12, 12, 200_001), np.geomspace(1e-30, 90, 5_001), [0.0, np.inf, -np.inf]])
    x = x.astype(np.float32)
    with np.errstate(over="ignore"):
        error = np.abs(by_exponential(x, power, root).astype(np.float64) - np.tanh(x.astype(np.float64)))
    assert error.max() <= 24 * U
    assert not root or error.max() > 8 * U  # the bound is not far above what can be


def bound(math: str) -> float:
    """The bounds of sums of 32 values of random scores, together."""
    spec = generate(SPEC.replace("MATH", math), "specs/small.yaml").modules[0].plan.spec
    generator = torch.Generator().manual_seed(1)
    given = {name: torch.randn(32, 32, generator=generator).bfloat16() for name in "QKV"}
    return float(evaluate(spec, given, {"cap": 2.0})["O"].bound.sum())


def test_bounds_count_it_where_the_schedule_says_so() -> None:
    """More of the scores may be rounded either way."""
    assert bound("precise") < bound("fast") < 4 * bound("precise")


def test_kernels_use_it_where_the_schedule_says_so() -> None:
    fast, precise = (
        generate(SPEC.replace("MATH", one), "specs/small.yaml").modules[0].text for one in ("fast", "precise")
    )
    kernels = [text[: text.index("def reference")] for text in (fast, precise)]
    assert ["math.tanh" in text for text in kernels] == [False, True]
    assert ["* (1.0 / cap)" in text for text in kernels] == [True, False]
