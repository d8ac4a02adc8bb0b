"""Units of shared memory, the smallest accesses of a kernel, and the values that several of them make."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array

UNITS = {1: np.uint8, 2: np.uint16, 4: np.uint32, 8: np.uint64}
"""The bytes of a unit -> the numpy type that holds it."""


def join_units(parts: Sequence[Array]) -> Array:
    """Units, the lowest first, as one value as wide as all of them."""
    stacked = np.stack(np.broadcast_arrays(*parts), axis=-1)
    return stacked.view(UNITS[stacked.shape[-1] * stacked.dtype.itemsize])[..., 0]


def split_units(value: Array, each: int, unit: Any) -> list[Array]:
    """A value as `each` units of the type `unit`, the lowest first; high bits beyond those are dropped."""
    if each == 1:
        return [np.asarray(value).astype(unit, copy=False)]
    size = each * np.dtype(unit).itemsize
    value = np.ascontiguousarray(np.asarray(value).astype(UNITS[size]))
    parts = value[..., None].view(unit)
    return [parts[..., j] for j in range(each)]
