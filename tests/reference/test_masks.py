from __future__ import annotations

import operator
from collections.abc import Iterator

import pytest
import torch

from cutegen.reference import masks
from cutegen.reference.masks import every, some

SPECIAL = (0.0, -0.0, 1.0, -1.0, torch.inf, -torch.inf, torch.nan, 5e-324)


@pytest.mark.parametrize("shape", [(), (0,), (1,), (130,), (3, 0), (4, 5, 6)])
def test_masks_say_what_torch_says(shape: tuple[int, ...]) -> None:
    for chance in (0.0, 0.01, 0.5, 0.99, 1.0):
        for seed in range(4):
            mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < chance
            for view in (mask, mask.t() if len(shape) == 2 else mask, mask[..., ::2] if shape else mask):
                assert (some(view), every(view)) == (bool(view.any()), bool(view.all()))


def views(x: torch.Tensor) -> Iterator[torch.Tensor]:
    """A tensor with two modes, and others with the like of its elements: few, transposed, expanded, with a gradient."""
    yield from (x, x[:2], x.t(), x[:1].expand(*x.shape), x[:, ::2])
    if x.is_floating_point():
        yield x.clone().requires_grad_()


@pytest.mark.parametrize("special", [(), SPECIAL[:-2], SPECIAL])
def test_elements_are_those_that_torch_finds(special: tuple[float, ...]) -> None:
    assert masks._FEW < 64 * 128
    doubles = torch.randn(64, 128, dtype=torch.float64, generator=torch.Generator().manual_seed(1))
    others = doubles.flip(0)
    for number, value in enumerate(special):
        doubles[number, number], others[-number, number] = value, value
        others[number, 7 * number] = doubles[number, 7 * number]
    for x, y in zip(
        [*views(doubles), *views(doubles.nan_to_num().long())],
        [*views(others), *views(others.nan_to_num().long())],
        strict=True,
    ):
        for found, wanted in (("equal", operator.eq), ("below", operator.lt), ("at_most", operator.le)):
            for other in (y, y[:1], 0.0, torch.inf):
                assert torch.equal(getattr(masks, found)(x, other), wanted(x, other)), (found, other)
        assert torch.equal(masks.is_nan(x), x.isnan()) and torch.equal(masks.is_finite(x), x.isfinite())
        low, high = map(float, torch.aminmax(x.detach()))
        assert (
            repr((masks.least(x.detach()), masks.largest(x.detach())))
            == repr((low, high))
            == repr(masks.extent(x.detach()))
        )
        assert masks.first_largest(x) == int(x.flatten().argmax())
