"""Tensor maps: what the 128 bytes say that describe a tensor to the units which copy boxes of it.

The layout of these bytes is not documented. It is that of compiled host code, which builds maps bit by bit, and most of
its fields have the numbers of tensormap.replace (PTX ISA 9.1, section 9.7.9.28). Fields that are not known are refused.

Elements of 4 and 6 bits are moved in items of several: 2 of 4 bits in a byte, or 16 of 4 or 6 bits, of 8 or 12 bytes,
which have 16 bytes of shared memory each.
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
_SIZES = {0: 1, 1: 2, 2: 4, 3: 4, 4: 8, 5: 8, 6: 2, 7: 4, 8: 4, 9: 8, 10: 2, 11: 1, 12: 8, 13: 12}
"""The number of a type -> the bytes of an item: u8 u16 u32 s32 u64 s64 f16 f32 f32.ftz f64 bf16, 4 bits packed, 4 bits
padded, 6 bits padded."""
_ELEMENTS, _PADDING = {11: 2, 12: 16, 13: 16}, {12: 8, 13: 4}
"""The elements of an item, if it has several, and the bytes behind each item in shared memory, if there are such."""
_F32, _TF32, _PAIRS = 7, 1 << 16, 1 << 19
"""The type of 32-bit floats, the bit beside it of those that are tf32, and that of a swizzle by runs of 32 bytes."""
_KNOWN = 0x7 << 4 | 0xF << 7 | 0x3 << 13 | _TF32 | 0x3 << 17 | _PAIRS | 1 << 21
"""Bits of the second word's lower half that may be set besides bit 1: rank, type, swizzle, two that go with these."""
_LARGEST_SWIZZLE = 3


class TensorMapError(ValueError):
    """Says what about a tensor map is wrong, or not known."""


@dataclass(frozen=True)
class TensorMap:
    """A tensor of `sizes` items of `itemsize` bytes, `strides` bytes apart, innermost mode first, from `address` on.

    An item is an element, or has `elements` neighbours of the innermost mode. A copy moves a `box` of items. In shared
    memory these lie packed, the innermost first, each with `padding` bytes behind it, in runs of 16 bytes whose places
    are exchanged by a swizzle over 16 << `swizzle` bytes; in `pairs`, in runs of 32 bytes.
    """

    address: int
    itemsize: int
    sizes: tuple[int, ...]
    strides: tuple[int, ...]
    box: tuple[int, ...]
    swizzle: int
    elements: int = 1
    padding: int = 0
    pairs: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether items are elements without padding, and swizzles exchange runs of 16 bytes."""
        return self.elements == 1 and not self.padding and not self.pairs

    @property
    def row_bytes(self) -> int:
        """The bytes of a box along its innermost mode in shared memory."""
        return self.box[0] * (self.itemsize + self.padding)

    @property
    def counted(self) -> int:
        """The bytes of a box that an mbarrier counts: those of its items, without padding."""
        return prod(self.box) * self.itemsize

    @property
    def rank(self) -> int:
        return len(self.sizes)

    @property
    def bytes(self) -> int:
        """The bytes of a box in shared memory, including those beyond the tensor's ends."""
        return prod(self.box) * (self.itemsize + self.padding)

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
    kind, swizzle = fields >> 7 & 15, fields >> 13 & 3
    odd = fields & _TF32 and kind != _F32 or fields & _PAIRS and swizzle != _LARGEST_SWIZZLE
    if fields & ~_KNOWN != 2 or halves[13] & 0xFFFFFF or kind not in _SIZES or odd:
        raise TensorMapError(f"its fields {fields:#x} and {halves[13]:#x} are not those of a tensor map that is known")
    rank, itemsize, elements = (fields >> 4 & 7) + 1, _SIZES[kind], _ELEMENTS.get(kind, 1)
    high = [halves[7] >> 4 * i & 15 for i in range(4)]
    strides = [(low | more << 32) * 16 for low, more in zip([halves[3], *halves[4:7]], high, strict=True)]
    box = [(halves[13] >> 24) + 1, *((words[7] >> 8 * i & 255) + 1 for i in range(4))]
    if rank > 5:
        raise TensorMapError(f"a tensor of rank {rank}")
    sizes = [half + 1 for half in halves[8 : 8 + rank]]
    if sizes[0] % elements or box[0] % elements:
        text = f"{sizes[0]} elements, and a box of {box[0]}, along the innermost mode, which has {elements} in an item"
        raise TensorMapError(text)
    found = TensorMap(
        words[0],
        itemsize,
        (sizes[0] // elements, *sizes[1:]),
        (itemsize, *strides)[:rank],
        (box[0] // elements, *box[1:rank]),
        swizzle,
        elements,
        _PADDING.get(kind, 0),
        bool(fields & _PAIRS),
    )
    if swizzle and found.row_bytes > 16 << swizzle:
        text = f"a box of {found.row_bytes} bytes along its innermost mode, and a swizzle over {16 << swizzle}"
        raise TensorMapError(text)
    if swizzle and found.bytes % (PIECE << swizzle):
        raise TensorMapError(f"a box of {found.bytes} bytes, and a swizzle over {PIECE << swizzle}")
    return found


@lru_cache(maxsize=256)
def swizzled_pieces(start: int, count: int, swizzle: int, pairs: bool = False) -> Array:
    """Which of the runs of 16 bytes from a shared address on each of the `count` runs of a packed box lies in.

    The swizzle exchanges them one by one, or in `pairs`.
    """
    places = start + PIECE * np.arange(count, dtype=np.int64)
    lie = swizzled_by_pairs(places) if pairs else swizzled(places, swizzle)
    return np.asarray((lie - start) // PIECE)


def swizzled(address: Array, swizzle: int) -> Array:
    """Shared addresses with their bits from 4 on exchanged by those from 7 on, as a swizzle over 16 << `swizzle` bytes
    does (PTX ISA 9.1, section 5.5.7).
    """
    return np.asarray(address ^ (address >> 7 & (1 << swizzle) - 1) << 4)


def swizzled_by_pairs(address: Array) -> Array:
    """Shared addresses as a swizzle over 128 bytes that exchanges runs of 32 bytes leaves them."""
    return np.asarray(address ^ (address >> 7 & 3) << 5)
