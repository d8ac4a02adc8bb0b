"""The semantics of shfl.sync, vote.sync, match.sync and redux.sync, on arrays of shape (warps, 32).

`members` are the lanes that take part; the results of all other lanes mean nothing. These functions do not check
which lanes have to take part: `by_warp.check_converged` does.
"""

from __future__ import annotations

from functools import reduce

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array, Function

LANES = np.arange(32, dtype=np.int64)
"""The number of each lane in its warp."""


def shuffle(mode: str, value: Array, operand: Array, clamp: Array) -> tuple[Array, Array, Array]:
    """shfl.sync with the mode up, down, bfly or idx. Raises ValueError for another mode.

    `value` holds the raw bits of each lane, shape (warps, 32); `operand` (b in PTX) and `clamp` (c in PTX) are
    uint32 and broadcast to that shape. Returns three arrays of that shape: the result; the predicate, which says
    whether the source lane is in range; and the number of the source lane, which is the lane itself where the
    predicate is false.
    """
    b = np.broadcast_to(np.asarray(operand), value.shape).astype(np.int64) & 31
    c = np.broadcast_to(np.asarray(clamp), value.shape).astype(np.int64)
    last, segment = c & 31, (c >> 8) & 31
    limit = (LANES & segment) | (last & ~segment)
    if mode == "up":
        source = LANES - b
        inside = source >= limit
    else:
        if mode == "down":
            source = LANES + b
        elif mode == "bfly":
            source = LANES ^ b
        elif mode == "idx":
            source = (LANES & segment) | (b & ~segment)
        else:
            raise ValueError(f"shfl mode {mode!r}: up, down, bfly or idx")
        inside = source <= limit
    source = np.where(inside, source, LANES)
    return np.take_along_axis(value, source, axis=-1), inside, source


def ballot(predicate: Array, members: Array) -> Array:
    """vote.sync.ballot: uint32 of shape (warps, 1), whose bit i is the predicate of lane i."""
    bits = np.where(predicate & members, np.uint32(1) << LANES.astype(np.uint32), np.uint32(0))
    result: Array = np.bitwise_or.reduce(bits, axis=-1, keepdims=True).astype(np.uint32)
    return result


def vote(mode: str, predicate: Array, members: Array) -> Array:
    """vote.sync.pred with the mode all, any or uni (all members agree): bool of shape (warps, 1).

    Raises ValueError for another mode.
    """
    every: Array = np.all(predicate | ~members, axis=-1, keepdims=True)
    some: Array = np.any(predicate & members, axis=-1, keepdims=True)
    if mode == "all":
        return every
    if mode == "any":
        return some
    if mode == "uni":
        return every | ~some
    raise ValueError(f"vote mode {mode!r}: all, any or uni")


def match(value: Array) -> Array:
    """match.any.sync: uint32 of shape (warps, 32), whose bit i says that lane i has the same value as the lane."""
    alike = value[..., :, None] == value[..., None, :]
    bits = np.where(alike, np.uint32(1) << LANES.astype(np.uint32), np.uint32(0))
    result: Array = np.bitwise_or.reduce(bits, axis=-1).astype(np.uint32)
    return result


_REDUCTIONS: dict[str, tuple[Function, int]] = {
    # The operation of redux -> numpy's function, and what leaves its result as it is (set below for min and max).
    "add": (np.add, 0),
    "and": (np.bitwise_and, -1),
    "or": (np.bitwise_or, 0),
    "xor": (np.bitwise_xor, 0),
    "min": (np.minimum, 0),
    "max": (np.maximum, 0),
}


def reduce_members(operation: str, kind: str, value: Array, members: Array) -> Array:
    """redux.sync with add, min or max of u32 or s32, or with and, or or xor of b32: uint32 of shape (warps, 1).

    Raises ValueError for another operation or type.
    """
    if operation not in _REDUCTIONS or kind not in ("u32", "s32", "b32"):
        raise ValueError(f"redux .{operation}.{kind}")
    function, neutral = _REDUCTIONS[operation]
    typed = value.view(np.int32) if kind == "s32" else value
    if operation in ("min", "max"):
        limits = np.iinfo(typed.dtype)
        neutral = int(limits.max if operation == "min" else limits.min)
    filler = np.asarray(neutral & 0xFFFFFFFF, dtype=np.uint32).view(typed.dtype)
    columns = np.where(members, typed, filler)
    result = reduce(function, [columns[..., i : i + 1] for i in range(32)])
    return np.asarray(result).view(np.uint32)
