"""The error bound of a product whose factors are truncated to fewer bits."""

from __future__ import annotations

import pytest

torch = pytest.importorskip("torch")

from cutegen.reference.factors import cut  # noqa: E402

BITS = 11  # of tf32


def product(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
    return x @ y.T


def as_tf32(x: torch.Tensor) -> torch.Tensor:
    return (x.view(torch.int32) & ~0x1FFF).view(torch.float32)


@pytest.mark.parametrize("scale", [1.0, 2.0**-140, 2.0**100])
def test_factors_that_are_cut_stay_within(scale: float) -> None:
    generator = torch.Generator().manual_seed(1)
    a, b = (torch.randn(n, 7, generator=generator) * s for n, s in ((5, scale), (6, 1.0)))
    off = (product(a.double(), b.double()) - product(as_tf32(a).double(), as_tf32(b).double())).abs()
    bound = cut(a.double(), b.double(), BITS, product)
    assert (off <= bound).all() and (off > bound / 100).any(), "and the bound is no wider than it must be"


def test_nothing_is_lost_of_what_fits() -> None:
    a = torch.arange(-2048.0, 2049.0)[:, None].double()
    assert not cut(a, a[:3], BITS, product).any()
    assert cut(a + 2049, torch.ones(1, 1).double(), BITS, product).any(), "2049 has 12 bits"
    assert not cut(a / 3, a / 3, None, product).any()
