"""Types of arrays and of functions on them; and packed values, two in one word, taken apart and put together."""

from __future__ import annotations

import mmap
import sys
from collections.abc import Callable
from math import prod
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

Array: TypeAlias = NDArray[Any]
"""An array of any type."""

Function: TypeAlias = Callable[..., Any]
"""Computes one typed array, or a tuple of them, from typed arrays. Shapes broadcast against each other."""

_LARGE = 1 << 22  # bytes from which on numpy asks for large pages


def halves(bits: Array, dtype: Any) -> Array:
    """The two values of each word of `bits` (uint32 or uint64) along a new last axis, the low one first."""
    return np.ascontiguousarray(bits)[..., None].view(dtype)


def packed(values: Array) -> Array:
    """The inverse of `halves`: puts the two values along the last axis into words twice as wide."""
    values = np.ascontiguousarray(values)
    return values.view(np.dtype(f"u{values.dtype.itemsize * 2}"))[..., 0]


def elementwise(function: Function, dtype: Any) -> Function:
    """Makes a function of packed values from one of single values, which are seen as `dtype`."""

    def on_halves(*arguments: Array) -> Array:
        return packed(function(*[halves(np.asarray(a), dtype) for a in arguments]))

    return on_halves


def has_any(array: Array | np.bool_) -> bool:
    """Whether any entry is not zero: faster than `array.any()` for arrays as small as a mask of lanes."""
    return np.count_nonzero(array) > 0


def with_rows(array: Array, more: int) -> Array:
    """An array with so many rows of zeros more, which take memory only once they are written to."""
    wider = _sparse((len(array) + more, array.shape[1]), array.dtype)
    wider[: len(array)] = array
    return wider


def _sparse(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Array:
    """An array of zeros for sparse use: it takes memory page by page.

    numpy asks for pages of 2 MiB for large arrays. Each of them is zeroed whole at the first touch, which took longer
    than the accesses that are noted in it.
    """
    size = prod(shape) * dtype.itemsize
    if size < _LARGE or sys.platform == "win32":
        return np.zeros(shape, dtype)
    made: Array = np.ndarray(shape, dtype, mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS))
    return made
