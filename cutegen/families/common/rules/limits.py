"""Limits of a thread, of a block and of 32-bit numbers, and functions that reduce sizes to fit them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.language.model import Tensor
from cutegen.layouts import compact_like

MAX_COUNT = 2**31 - 1  # of what is numbered with 32 bits
# Of every target: CUDA C++ Programming Guide, compute capabilities
WARP = 32  # threads
REGISTERS = 65536  # of a multiprocessor, with 32 bits each
REGISTER_UNIT = 8  # a thread's registers are handed out by so many
MAX_REGISTERS = 255  # of a thread
MAX_COMPUTED = 256  # values of 4 bytes in a thread whose expressions are unrolled: with more, compiling takes minutes


def register_limit(threads: int) -> int:
    """Registers of a thread, where a multiprocessor's are for the threads of one block, in whole warps."""
    in_warps = max(WARP, -(-threads // WARP) * WARP)
    return min(MAX_REGISTERS, REGISTERS // in_warps // REGISTER_UNIT * REGISTER_UNIT)


def most_computed(tensors: Iterable[Tensor]) -> int:
    """Values of each of these tensors that one thread computes with at most: as many as it has registers, for 8-byte
    types half of them.
    """
    return MAX_COMPUTED // max((-(-tensor.dtype.bytes // 4) for tensor in tensors), default=1)


def shrunk(extents: Sequence[int], limit: int) -> tuple[int, ...]:
    """Divisors of the extents with a product of at most `limit`: the largest extent gives way first."""
    result = list(extents)
    total = prod(result)
    while total > limit:
        i = max(range(len(result)), key=lambda j: result[j])
        # A prime beyond any trial division gives way at once.
        factor = next((d for d in range(2, 1000) if result[i] % d == 0), result[i])
        result[i] //= factor
        total = prod(result)
    return tuple(result)


def fewer(layout: Layout, most: int) -> Layout:
    """A compact layout of at most `most` places, its modes in the order of the strides that were written."""
    modes = layouts.modes_of(layout)
    steps = [min((step for extent, step in layouts.leaves(mode) if extent > 1 and step), default=0) for mode in modes]
    sizes = layouts.mode_sizes(layout)
    if len(sizes) == 1:
        return Layout(shrunk(sizes, most)[0], 1)
    return compact_like(shrunk(sizes, most), tuple(steps))
