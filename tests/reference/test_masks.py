from __future__ import annotations

import pytest
import torch

from cutegen.reference.masks import every, some


@pytest.mark.parametrize("shape", [(), (0,), (1,), (130,), (3, 0), (4, 5, 6)])
def test_masks_say_what_torch_says(shape: tuple[int, ...]) -> None:
    for chance in (0.0, 0.01, 0.5, 0.99, 1.0):
        for seed in range(4):
            mask = torch.rand(shape, generator=torch.Generator().manual_seed(seed)) < chance
            for view in (mask, mask.t() if len(shape) == 2 else mask, mask[..., ::2] if shape else mask):
                assert (some(view), every(view)) == (bool(view.any()), bool(view.all()))
