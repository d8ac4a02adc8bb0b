"""Powers of which an exponent is rounded: a negative number has one where that is whole, and none beside it."""

from __future__ import annotations

import math

import pytest
import torch

from cutegen.dtypes import Dtype
from cutegen.reference.powers_and_remainders import general_power
from cutegen.reference.rounding import Bounded


@pytest.mark.parametrize(
    ("x", "y", "error", "known"),
    [
        (-1.0, 36053533.52, 2.0, False),  # in f32 it is whole
        (-1.0, 2.5, 1e-7, True),  # no number near it is
        (-1.0, 3.5, 0.0, True),
        (-2.0, 3.0, 0.0, True),
    ],
)
def test_a_negative_number_may_have_a_power(x: float, y: float, error: float, known: bool) -> None:
    base = Bounded(torch.tensor([x]).double(), torch.zeros(1).double(), Dtype.f32)
    exponent = Bounded(torch.tensor([y]).double(), torch.tensor([error]).double(), Dtype.f32)
    found = general_power(base, exponent, Dtype.f32)
    assert math.isfinite(found.error.item()) is known
