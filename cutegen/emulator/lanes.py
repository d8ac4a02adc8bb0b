"""Lanes: the threads of all blocks that run at once, as arrays of shape (threads of a block, blocks).

The value of a register is an array that broadcasts to that shape: what is the same for every thread, or for every
block, is computed once. A mask is such an array of bool.
"""

from __future__ import annotations

from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.arithmetic.arrays import Array

WARP = 32
"""Threads of a warp."""

Mask: TypeAlias = "NDArray[np.bool_] | None"
"""Some of the lanes; None stands for all of them."""


def both(a: Mask, b: Mask) -> Mask:
    """The lanes that are in both masks."""
    if a is None:
        return b
    return a if b is None else a & b


def first_lane(bad: Array, shape: tuple[int, int]) -> tuple[int, int]:
    """The first lane (thread, block) of a mask, in the order of the blocks and then of the threads.

    `bad` is the mask, which must have a lane, and `shape` is that of all lanes.
    """
    order = np.broadcast_to(bad, shape).T.reshape(-1)
    index = int(order.argmax())
    return index % shape[0], index // shape[0]


def value_at(value: Array, lane: tuple[int, int], shape: tuple[int, int]) -> int:
    """The value that a lane (thread, block) has, as a whole number. `shape` is that of all lanes."""
    value = np.asarray(value)
    if not value.ndim:
        return int(value)
    if value.ndim == 1:
        return int(np.broadcast_to(value, shape)[lane])
    threads, blocks = value.shape
    return int(value[lane[0] if threads > 1 else 0, lane[1] if blocks > 1 else 0])


def spread(value: Array, shape: tuple[int, ...]) -> Array:
    """A value for each place of a shape that it broadcasts to, not to be written to.

    Most values have one already, and numpy takes microseconds to find that, as it does for `broadcast_to`: for an array
    of two axes that is one piece of memory, the steps between elements are computed here instead.
    """
    if value.shape == shape:
        return value
    if value.ndim == 2 == len(shape) and value.size and value.flags.c_contiguous:
        (rows, columns), each = value.shape, value.itemsize
        if rows in (1, shape[0]) and columns in (1, shape[1]):
            steps = (columns * each if rows > 1 else 0, each if columns > 1 else 0)
            wide: Array = np.ndarray(shape, value.dtype, value, 0, steps)
            wide.flags.writeable = False
            return wide
    return np.broadcast_to(value, shape)


def in_warps(value: Array) -> Array:
    """An array with an entry for each lane, as shape (warps of a block, 32, blocks).

    Threads that the last warp lacks hold zeros.
    """
    threads, blocks = value.shape
    if threads % WARP:
        value = np.concatenate([value, np.zeros((-threads % WARP, blocks), value.dtype)])
    return value.reshape(-1, WARP, blocks)


def groups_of(numbers: Array) -> tuple[Array, Array]:
    """The different ones of some whole numbers, in rising order, and the place of each of the numbers among these."""
    if not len(numbers):
        return numbers, np.zeros(0, np.int64)
    low, high = int(numbers.min()), int(numbers.max())
    if low == high:
        return numbers[:1], np.zeros(len(numbers), np.int64)
    if high - low > 4 * len(numbers):
        different, places = np.unique(numbers, return_inverse=True)
        return different, places.reshape(-1)
    used = np.zeros(high - low + 1, np.bool_)
    used[numbers - low] = True
    return np.flatnonzero(used) + low, (np.cumsum(used) - 1)[numbers - low]
