"""Powers and remainders of which an operand is rounded: what may come of all that it may be."""

from __future__ import annotations

import math

import pytest
import torch

from cutegen.dtypes import Dtype
from cutegen.reference.powers_and_remainders import general_power, remainder_of_division
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


@pytest.mark.parametrize(("error", "known"), [(0.0, True), (1e-3, True), (40.0, True), (math.inf, False)])
def test_nothing_is_known_of_the_remainder_of_what_may_be_infinite(error: float, known: bool) -> None:
    """It is NaN then; of any finite number it is less than the divisor."""
    x = Bounded(torch.tensor([7.25]).double(), torch.tensor([error]).double(), Dtype.f32)
    y = Bounded(torch.tensor([2.0]).double(), torch.zeros(1).double(), Dtype.f32)
    found = remainder_of_division(x, y, Dtype.f32)
    assert math.isfinite(found.error.item()) is known
