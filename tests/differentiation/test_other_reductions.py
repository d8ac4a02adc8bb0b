"""Gradients through reductions that are neither sums nor extremes, held to autograd through torch's own."""

from __future__ import annotations

import pytest
from differentiation_kit import check, spec_of

torch = pytest.importorskip("torch")

TENSORS = {"X": "M,N f32", "W": "N f32", "Y": "M,N f32 out"}


@pytest.mark.parametrize(
    "value",
    [
        "X * logsumexp(X * W, N)",
        "X * var(X * W, N)",
        "X + std(X + W, N)",
        "W * prod(X, N)",
        "X * prod(X * W, N)",
        "where(coord(N) == argmax(X, N), X * W, W)",
        "where(any(X > 0, N) and not all(X, N), X * W, W)",
    ],
)
def test_they_are_torchs(value: str) -> None:
    check(spec_of("rowwise", TENSORS, [f"Y = {value}"]))


@pytest.mark.parametrize("seed", range(4))
def test_they_are_where_values_are_equal_or_zero(seed: int) -> None:
    """A product with one zero has a derivative by that alone, and a standard deviation of 0 has none."""
    check(spec_of("rowwise", TENSORS, ["Y = X * W * prod(X, N)"]), whole=True, seed=seed)
    check(spec_of("rowwise", TENSORS, ["Y = X * W + std(X, N)"]), whole=True, seed=seed, sizes={"N": 2})
