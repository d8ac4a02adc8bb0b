"""The instruction descriptor of tcgen05.mma: the shape and the types of a product (PTX ISA 9.1, section 9.7.16.4.2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from types import MappingProxyType

from cutegen.emulator.arithmetic.arrays import Array
from cutegen.emulator.arithmetic.small_formats import SMALL_FORMATS, packed, padded
from cutegen.emulator.warps.product_types import KINDS, widened
from cutegen.emulator.warps.shared_matrices import DescriptorError

DEPTH_BYTES = 32
"""That each row of A and of B has in one product."""

_SMALL = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
_PACKED = "packed e2m1"
TYPES_OF: Mapping[str, Mapping[int, str]] = MappingProxyType(
    {
        "f16": MappingProxyType({0: "f16", 1: "bf16"}),
        "tf32": MappingProxyType({2: "tf32"}),
        "f8f6f4": MappingProxyType(_SMALL),
        "mxf8f6f4": MappingProxyType(_SMALL),
        "mxf4": MappingProxyType({1: _PACKED}),
        "mxf4nvf4": MappingProxyType({1: _PACKED}),
    }
)
"""The kind of a product -> the types of A and B by their numbers."""

SCALED = ("mxf8f6f4", "mxf4", "mxf4nvf4")
"""The kinds whose elements have scale factors, one for each so many of a row."""

_SUMS = MappingProxyType({0: "f16", 1: "f32"})
"""The types of D by their numbers."""

_RESERVED = 0b1111 | 1 << 6 | 1 << 23 | 0b111 << 29
_RESERVED_SCALED = 0b1111 | 1 << 6 | 1 << 31
"""Bits of sparsity, saturation, tensor core warps, a depth of 96 and none, which are 0 in what is emulated."""


@dataclass(frozen=True)
class ProductShape:
    """A product of A, `rows` by the depth, and B, `columns` by the depth, of those types, with D of the type `sums`.

    It is one of `group` blocks, each of which has its share of the rows of A and of B. `sign` is that of all products
    of elements. `transposed` says which of A and B are MN-major.
    """

    rows: int
    columns: int
    types: tuple[str, str]
    sums: str
    sign: int
    transposed: tuple[bool, bool]
    group: int

    @property
    def halved(self) -> bool:
        """Whether each block has two halves of the columns of D in two halves of its lanes."""
        return self.group == 2 and self.rows == 128

    def rows_of_block(self, side: int) -> int:
        """How many rows of A (side 0) or of B (side 1) a block has."""
        return (self.rows, self.columns)[side] // self.group

    @property
    def itemsizes(self) -> tuple[int, int]:
        """The bytes of the parts that A and B are made of in shared memory: elements, or bytes of smaller ones."""
        sizes = [KINDS[kind][0] if kind in KINDS else 1 for kind in self.types]
        return sizes[0], sizes[1]

    @property
    def depth(self) -> int:
        """How many products are added to an element of D."""
        return 2 * DEPTH_BYTES if self.types[0] == _PACKED else DEPTH_BYTES // self.itemsizes[0]


def elements(raw: Array, kind: str) -> Array:
    """The values of rows of elements of a type, from their parts in shared memory, as float64."""
    if kind == _PACKED:
        return SMALL_FORMATS["e2m1"][packed(raw)]
    if kind in SMALL_FORMATS:
        return SMALL_FORMATS[kind][padded(raw, 4 if kind == "e2m1" else 6)]
    return widened(raw, kind)


@lru_cache(maxsize=256)
def read_shape(bits: int, kind: str, group: int) -> ProductShape:
    """The product of so many blocks as `group` says that an instruction descriptor tells of.

    Raises DescriptorError for one that no instruction of the kind takes, or that is not emulated.
    """
    rows, columns = (bits >> 24 & 31) << 4, (bits >> 17 & 63) << 3
    step, fewest = 8 * group, 128 if kind in SCALED else 64 * group
    if rows not in (fewest, 128 * group) or columns % step or not step <= columns <= 256:
        text = f"M is {rows} and N is {columns}: with cta_group::{group} M is {fewest} or {128 * group}, and N is "
        raise DescriptorError(f"{text}{step} to 256 by {step}")
    reserved = bits & (_RESERVED_SCALED if kind in SCALED else _RESERVED)
    if reserved:
        raise DescriptorError(f"bits {reserved:#x} are set: sparse, saturating or reserved")
    numbers, known = (bits >> 7 & 7, bits >> 10 & 7), TYPES_OF[kind]
    if any(number not in known for number in numbers):
        names = ", ".join(f"{number} {name}" for number, name in known.items())
        raise DescriptorError(f"the types of A and B are {numbers[0]} and {numbers[1]}: of kind::{kind} are {names}")
    types = known[numbers[0]], known[numbers[1]]
    if kind == "f16" and types[0] != types[1]:
        raise DescriptorError(f"A is {types[0]} and B is {types[1]}, which must be the same")
    sums = "f32" if kind in SCALED else _SUMS.get(bits >> 4 & 3, "")
    if not sums or (sums == "f16" and types[0] in ("bf16", "tf32")):
        raise DescriptorError(f"D is {sums or 'of no type'}, which A of {types[0]} cannot have")
    transposed = bool(bits >> 15 & 1), bool(bits >> 16 & 1)
    if transposed[1] and kind.endswith("f8f6f4") and columns % (2 * step):
        raise DescriptorError(f"N is {columns} with B MN-major, of 8 bits: a multiple of {2 * step} is needed")
    for one, is_mn in zip(types, transposed, strict=True):
        if is_mn and one not in KINDS:
            raise DescriptorError(f"an MN-major matrix of {one}, which is not emulated")
    negative = (bits >> 13 & 1) != (bits >> 14 & 1)
    return ProductShape(rows, columns, types, sums, -1 if negative else 1, transposed, group)
