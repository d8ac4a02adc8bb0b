"""Tensor maps: what the 128 bytes say that describe a tensor to the units which copy boxes of it.

The layout of these bytes is not documented. It is that of compiled host code, which builds maps bit by bit, and its
fields have the numbers of tensormap.replace (PTX ISA 9.1, section 9.7.9.28). Fields that are not known are refused.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from functools import lru_cache
from math import gcd, prod

import numpy as np

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.memory.runs import PIECE

BYTES, ALIGN = 128, 64
_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 4, 12: 4}
"""The number of a type -> the bytes of an element: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16 tf32 tf32.ftz."""
_KNOWN = 0x7 << 4 | 0xF << 7 | 0x3 << 13 | 0x3 << 17 | 1 << 21
"""Bits of the second word's lower half that may be set besides bit 1: rank, type, swizzle, two that go with these."""


class TensorMapError(ValueError):
    """Says what about a tensor map is wrong, or not known."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor of `sizes` elements of `itemsize` bytes, `strides` bytes apart, innermost mode first, from `address` on.

    A copy moves a `box` of it. In shared memory its elements lie packed, the innermost first, in runs of 16 bytes whose
    places are exchanged by a swizzle over 16 << `swizzle` bytes.
    """

    address: int
    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """The bytes of a box, including those beyond the tensor's ends."""
        return prod(self.box) * self.itemsize

    def size_at(self, coordinates: tuple[int, ...]) -> int:
        """Into parts of how many bytes a box at some coordinates may be cut, 16 at most, so that the tensor has each of
        them whole or not at all, and each begins at a multiple of its size.
        """
        ends = [self.address, coordinates[0] * self.itemsize, *self.strides[1:]]
        if not 0 <= coordinates[0] <= self.sizes[0] - self.box[0]:
            ends.append(self.sizes[0] * self.itemsize)
        return max(self.itemsize, gcd(PIECE, *ends))

    def places(self, coordinates: tuple[int, ...], size: int = 0) -> tuple[Array, Array]:
        """The addresses of the elements of the box at some coordinates, in the order in which they lie packed, and
        which of them the tensor has; or of parts of so many bytes, into which it may be cut.
        """
        each = (size or self.itemsize) // self.itemsize
        offsets = _offsets(self.box, self.strides, each)
        at = offsets + (self.address + sum(c * stride for c, stride in zip(coordinates, self.strides, strict=True)))
        # Of each mode where the box begins that the tensor has, and where it ends
        ends = zip(coordinates, self.box, self.sizes, strict=True)
        had = tuple((min(max(0, -c), extent), max(0, min(extent, size - c))) for c, extent, size in ends)
        return at, _inside(self.box, had, each)

    def addresses(self, coordinates: tuple[int, ...]) -> Array:
        """The addresses of what the tensor has of the box at some coordinates, in parts that are as large as can be."""
        at, inside = self.places(coordinates, self.size_at(coordinates))
        return at[inside]


@lru_cache(maxsize=64)
def _offsets(box: tuple[int, ...], strides: tuple[int, ...], each: int) -> Array:
    """Where parts of a box lie, counted in bytes from its first element: `each` elements of the innermost mode."""
    at = np.asarray(0, np.int64)
    for i in reversed(range(len(box))):
        at = at[..., None] + np.arange(0, box[i], 1 if i else each, dtype=np.int64) * strides[i]
    return np.asarray(at.reshape(-1))


@lru_cache(maxsize=256)
def _inside(box: tuple[int, ...], had: tuple[tuple[int, int], ...], each: int) -> Array:
    """Which parts of a box there are, each of `each` elements of the innermost mode, if there are those from the first
    to before the second of the numbers in `had` along each mode.
    """
    inside = np.asarray(True)
    for i in reversed(range(len(box))):
        along = np.arange(0, box[i], 1 if i else each, dtype=np.int64)
        inside = inside[..., None] & (along >= had[i][0]) & (along < had[i][1])
    found = np.ascontiguousarray(inside.reshape(-1))
    found.flags.writeable = False
    return found


@lru_cache(maxsize=64)
def read_tensor_map(raw: bytes) -> TensorMap:
    """Decodes a tensor map. Raises TensorMapError for what is not known, or that no unit takes."""
    if len(raw) < ALIGN:
        raise TensorMapError(f"{len(raw)} bytes are too few for a tensor map")
    words = struct.unpack("<8Q", raw[:ALIGN])
    halves = [half for word in words for half in (word & 0xFFFFFFFF, word >> 32)]
    fields = halves[2]
    if fields & ~_KNOWN != 2 or halves[13] & 0xFFFFFF or (fields >> 7 & 15) not in _SIZES:
        raise TensorMapError(f"its fields {fields:#x} and {halves[13]:#x} are not those of a tensor map that is known")
    rank, swizzle = (fields >> 4 & 7) + 1, fields >> 13 & 3
    itemsize = _SIZES[fields >> 7 & 15]
    high = [halves[7] >> 4 * i & 15 for i in range(4)]
    strides = [(low | more << 32) * 16 for low, more in zip([halves[3], *halves[4:7]], high, strict=True)]
    box = [(halves[13] >> 24) + 1, *((words[7] >> 8 * i & 255) + 1 for i in range(4))]
    if rank > 5:
        raise TensorMapError(f"a tensor of rank {rank}")
    if swizzle and box[0] * itemsize > 16 << swizzle:
        text = f"a box of {box[0] * itemsize} bytes along its innermost mode, and a swizzle over {16 << swizzle}"
        raise TensorMapError(text)
    if swizzle and int(np.prod(box[:rank])) * itemsize % (PIECE << swizzle):
        text = f"a box of {int(np.prod(box[:rank])) * itemsize} bytes, and a swizzle over {PIECE << swizzle}"
        raise TensorMapError(text)
    return TensorMap(
        words[0],
        itemsize,
        tuple(half + 1 for half in halves[8 : 8 + rank]),
        (itemsize, *strides)[:rank],
        tuple(box[:rank]),
        swizzle,
    )


@lru_cache(maxsize=256)
def swizzled_pieces(start: int, count: int, swizzle: int) -> Array:
    """Which of the runs of 16 bytes from a shared address on each of the `count` runs of a packed box lies in."""
    places = start + PIECE * np.arange(count, dtype=np.int64)
    return np.asarray((swizzled(places, swizzle) - start) // PIECE)


def swizzled(address: Array, swizzle: int) -> Array:
    """Shared addresses with their bits from 4 on exchanged by those from 7 on, as a swizzle over 16 << `swizzle` bytes
    does (PTX ISA 9.1, section 5.5.7).
    """
    return np.asarray(address ^ (address >> 7 & (1 << swizzle) - 1) << 4)
