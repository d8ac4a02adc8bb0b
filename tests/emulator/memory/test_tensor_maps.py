"""Boxes of tensors cut into runs of up to 16 bytes: the same bytes as of one element after the other."""

from __future__ import annotations

import numpy as np
from hypothesis import example, given
from hypothesis import strategies as st

from cutegen.emulator.memory.bound_tensors import NEAR, PLACES, place
from cutegen.emulator.memory.tensor_maps import TensorMap


def test_addresses_of_all_places_fit_a_tensor_map() -> None:
    assert NEAR + place(0, 0) > 0 and place((1 << 20) - 1, PLACES - 1) + (1 << 46) < 1 << 57


@given(st.sampled_from([1, 2, 4]), st.integers(1, 40), st.integers(1, 4), st.integers(-40, 40), st.integers(-3, 3))
@example(2, 24, 3, -8, 1)
@example(2, 23, 3, 0, 0)
@example(2, 24, 3, 4, 0)
@example(2, 23, 3, 4, 0)
@example(2, 36, 3, 16, 0)
def test_parts_of_a_box_are_its_elements(itemsize: int, size: int, rows: int, first: int, row: int) -> None:
    tensor = TensorMap(1 << 20, itemsize, (size, rows), (itemsize, 16 * 12), (32 // itemsize, 3), 0)
    at = (first, row)
    part = tensor.size_at(at)
    cut = not 0 <= first <= size - 32 // itemsize  # by an end of the rows, which may lie amid 16 bytes
    assert part == next(p for p in (16, 8, 4, 2, 1) if first * itemsize % p == 0 == cut * size * itemsize % p)
    addresses, inside = tensor.places(at)
    starts, there = tensor.places(at, part)
    each = np.arange(0, part, itemsize)
    assert ((starts[:, None] + each).reshape(-1) == addresses).all()
    assert (np.repeat(there, len(each)) == inside).all()
