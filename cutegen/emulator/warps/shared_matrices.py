"""Matrices in shared memory that a descriptor tells wgmma or tcgen05 of: where their elements lie.

The descriptors of the two have other bits (PTX ISA 9.1, sections 9.7.15.5.1 and 9.7.16.4.1); the layouts are the same,
but for one that only tcgen05 has.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import lru_cache

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.formats import widen_bf16
from cutegen.emulator.memory.placement import BASE
from cutegen.emulator.memory.runs import PIECE
from cutegen.emulator.memory.tensor_maps import swizzled, swizzled_by_pairs

_SWIZZLES = (0, 3, 2, 1)
"""The number of a descriptor's swizzle, of wgmma -> that of 16 << s bytes: none, 128, 64, 32."""

_TENSOR_SWIZZLES = {0: 0, 1: 3, 2: 3, 4: 2, 6: 1}
"""The same of tcgen05; 1 is a swizzle over 128 bytes that exchanges runs of 32 bytes."""
_OF_PAIRS = 1

VERSION = 1
"""Of the descriptors of tcgen05, in their bits 46 to 48; wgmma has 0 there."""


class DescriptorError(ValueError):
    """Says what about a descriptor is wrong, or not emulated."""


@dataclass(frozen=True)
class Descriptor:
    """A matrix from the shared address `start` on.

    `leading` and `stride` are offsets in bytes, whose meaning depends on the layout; the swizzle is over
    16 << `swizzle` bytes. `base` is the offset of its first pattern, in patterns. With `pairs` the swizzle exchanges
    runs of 32 bytes.
    """

    start: int
    leading: int
    stride: int
    base: int
    swizzle: int
    pairs: bool = False

    @classmethod
    def of(cls, bits: int) -> Descriptor:
        """The descriptor that a register of 64 bits holds."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        return cls(start, leading, stride, bits >> 49 & 7, _SWIZZLES[bits >> 62 & 3])

    @classmethod
    def of_tensor_core(cls, bits: int) -> Descriptor:
        """The descriptor of tcgen05 in a register of 64 bits. Raises DescriptorError for what it must not have."""
        start, leading, stride = ((bits >> at & 0x3FFF) << 4 for at in (0, 16, 32))
        version, base, absolute, mode = bits >> 46 & 7, bits >> 49 & 7, bits >> 52 & 1, bits >> 61 & 7
        if version != VERSION:
            text = f"its version, bits 46 to 48, is {version}, and tcgen05 has {VERSION}"
            raise DescriptorError(text + ": descriptors of wgmma have 0, and mean other layouts" * (not version))
        if mode not in _TENSOR_SWIZZLES:
            raise DescriptorError(f"its swizzle, bits 61 to 63, is {mode}, where {sorted(_TENSOR_SWIZZLES)} are known")
        if base or absolute:
            raise DescriptorError(f"a base offset of {base} patterns and a leading mode of {absolute}: not emulated")
        return cls(start, leading, stride, base, _TENSOR_SWIZZLES[mode], mode == _OF_PAIRS)

    def addresses(self, size: int, depth: int, itemsize: int, transposed: bool) -> Array:
        """The shared addresses of the elements of a matrix of `size` by `depth` elements, shape (size, depth).

        Elements along the depth are neighbours in memory, or, where it is `transposed`, those along the other mode. In
        the words of CuTe's canonical layouts, with T elements in 16 bytes and s = `swizzle`:
        ((8,m),(T,2k)):((2^s T,SBO),(1,T)), or ((T,2^s,m),(8,k)):((1,T,LBO),(2^s T,SBO)). With `pairs`, which is for
        `transposed` matrices of 4 bytes an element, it is ((32,m),(4,k)):((1,LBO),(32,SBO)).
        """
        per, pattern, swizzle = PIECE // itemsize, PIECE << self.swizzle, self.swizzle
        along, deep = np.arange(size, dtype=np.int64)[:, None], np.arange(depth, dtype=np.int64)[None, :]
        if self.pairs:
            offset = along % 32 * itemsize + along // 32 * self.leading
            offset = offset + deep % 4 * pattern + deep // 4 * self.stride
            return swizzled_by_pairs(self.start + offset)
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


@lru_cache(maxsize=4096)
def tensor_core_places(bits: int, size: int, depth: int, itemsize: int, transposed: bool) -> Places:
    """The places of the matrix that a descriptor of tcgen05 tells of. Raises DescriptorError."""
    descriptor = Descriptor.of_tensor_core(bits)
    if descriptor.pairs and not (transposed and itemsize == 4):
        raise DescriptorError("a swizzle of 128 bytes by runs of 32, which only MN-major matrices of tf32 have")
    if not descriptor.pairs and transposed and itemsize == 4:
        raise DescriptorError(
            "an MN-major matrix of tf32 without the swizzle of 128 bytes by runs of 32 that it must have"
        )
    return places_of(descriptor, size, depth, itemsize, transposed, None, None)


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
