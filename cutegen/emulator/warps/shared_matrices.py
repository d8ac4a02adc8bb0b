"""Matrices in shared memory that a descriptor tells wgmma of: where their elements lie (PTX ISA 9.1, 9.7.15.5.1)."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.formats import widen_bf16
from cutegen.emulator.memory.placement import BASE
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_maps import swizzled

_SWIZZLES = (0, 3, 2, 1)
"""The number of a descriptor's swizzle -> that of 16 << s bytes: none, 128, 64, 32."""


@dataclass(frozen=True)
class Descriptor:
    """A matrix from the shared address `start` on.

    `leading` and `stride` are offsets in bytes, whose meaning depends on the layout; the swizzle is over
    16 << `swizzle` bytes. `base` is the offset of its first pattern, in patterns.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        """The descriptor that a register of 64 bits holds."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return cls(start, leading, stride, bits >> 49 & 7, _SWIZZLES[bits >> 62 & 3])

    def addresses(self, size: int, depth: int, itemsize: int, transposed: bool) -> Array:
        """The shared addresses of the elements of a matrix of `size` by `depth` elements, shape (size, depth).

        Elements along the depth are neighbours in memory, or, where it is `transposed`, those along the other mode. In
        the words of CuTe's canonical layouts, with T elements in 16 bytes and s = `swizzle`:
        ((8,m),(T,2k)):((2^s T,SBO),(1,T)), or ((T,2^s,m),(8,k)):((1,T,LBO),(2^s T,SBO)).
        """
        per, pattern, swizzle = PIECE // itemsize, PIECE << self.swizzle, self.swizzle
        along, deep = np.arange(size, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)[None, :]
        if not transposed:
            inner = deep * itemsize if swizzle else deep % per * itemsize + deep // per * self.leading
            offset = along % 8 * pattern + along // 8 * self.stride + inner
        elif swizzle:
            offset = along % per * itemsize + along // per % (1 << swizzle) * PIECE
            offset = offset + along // (per << swizzle) * self.leading + deep % 8 * pattern + deep // 8 * self.stride
        else:
            offset = along % per * itemsize + along // per * self.stride + deep % 8 * PIECE + deep // 8 * self.leading
        return swizzled(self.start + offset, swizzle)


@dataclass(frozen=True, eq=False)
class Places:
    """Where elements lie in shared memory: in bytes from `low` to before `high`, in the `pieces` of 16 bytes with these
    numbers; `where` has, for each element, the byte at which it lies in those, one after the other.
    """

    low: int
    high: int
    pieces: Array
    where: Array
    _rows: dict[int, Array] = field(default_factory=dict)

    def rows(self, unit: int) -> Array:
        """The numbers of the units of so many bytes that the pieces have."""
        if unit not in self._rows:
            each = PIECE // unit
            self._rows[unit] = (self.pieces[:, None] * each + np.arange(each)).reshape(-1)
        return self._rows[unit]


@lru_cache(maxsize=4096)
def places_told(
    bits: int, size: int, depth: int, itemsize: int, transposed: bool, start: int | None, stop: int | None
) -> Places | int:
    """The places of the rows from `start` to before `stop` of the matrix that a descriptor of those `bits` tells of.

    The base offset of a descriptor that has one, instead: such matrices are not known.
    """
    descriptor = Descriptor.of(bits)
    return descriptor.base or places_of(descriptor, size, depth, itemsize, transposed, start, stop)


@lru_cache(maxsize=512)
def places_of(
    descriptor: Descriptor, size: int, depth: int, itemsize: int, transposed: bool, start: int | None, stop: int | None
) -> Places:
    """The places of the rows from `start` to before `stop` of a matrix, as products have again and again."""
    offsets = descriptor.addresses(size, depth, itemsize, transposed)[start:stop] - BASE
    pieces = np.unique(offsets // PIECE)
    where = np.searchsorted(pieces, offsets // PIECE) * PIECE + offsets % PIECE
    return Places(int(offsets.min()), int(offsets.max()) + itemsize, pieces, where)


def widened(raw: Array, kind: str) -> Array:
    """The bits of elements as float64; `kind` is their type, of bf16, f16 and tf32."""
    if kind == "tf32":
        kept: Array = (raw & np.uint32(0xFFFFE000)).view(np.float32).astype(np.float64)
        return kept
    if kind == "bf16":
        return widen_bf16(raw).astype(np.float64)
    return raw.view(np.float16).astype(np.float64)
