"""The schedule of a gemm on Blackwell's tensor cores, as questions that planning, lint and analysis ask of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from tensor_layouts import Layout

from cutegen.dtypes import Dtype
from cutegen.families.gemm.tcgen05.schedule import Spec
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.language.model import Tensor
from cutegen.planning.promises import fitting_elements, known_divisor

TARGET = "sm_100a"
TYPES = (Dtype.bf16, Dtype.f16, Dtype.f8e4m3, Dtype.f8e5m2)
ROWS = 128  # of a product, and lanes of tensor memory
UNIT, MOST_COLUMNS = 16, 256  # columns of a product: a multiple of, and at most (PTX ISA 9.1, section 9.7.16.2.1)
DEPTH_BYTES = 32  # of one product along k
ALLOCATED, ALL_COLUMNS = 32, 512  # columns of tensor memory: a power of two, at least, and at most
SLICES = (32, 16)  # columns that a warp loads at a time
ALIGN = 16  # bytes: of the address of what a tensor map describes, and of its rows
SWIZZLED = 1024  # bytes, at multiples of which swizzled tiles stand
STORING, MULTIPLIER, LOADER = 4, 4, 5  # warps that store are those before the one that multiplies; that which loads
THREADS = 192


class Product(NamedTuple):
    """The matrix products a [m, k] times each b [n, k] transposed: their operands, and their modes."""

    a: Tensor
    b: tuple[Tensor, ...]
    m: str
    n: str
    k: str

    @property
    def modes(self) -> tuple[str, str, str]:
        return self.m, self.n, self.k

    @property
    def is_f8(self) -> bool:
        """Whether its operands are floats of 8 bits, which may be of two kinds."""
        return self.a.dtype.is_f8

    @property
    def depth(self) -> int:
        """Elements of one product along k."""
        return DEPTH_BYTES // self.a.dtype.bytes

    @property
    def sides(self) -> tuple[tuple[Tensor, str], ...]:
        """Each operand with its mode of the output."""
        return (self.a, self.m), *((b, self.n) for b in self.b)


def product_of(spec: Spec) -> Product:
    """The matrix products of a spec, which have one A."""
    products = spec.compute.products
    a, b = spec.tensor(products[0].a), tuple(spec.tensor(product.b) for product in products)
    return Product(a, b, a.shape[-2], b[0].shape[-2], a.shape[-1])


def stands_anywhere(spec: Spec, tensor: Tensor) -> bool:
    """Whether a call brings a tensor to a workspace where it does not stand as tensor maps take it."""
    copy = spec.schedule.copies.get(tensor.name)
    return copy is not None and copy.misaligned == "workspace"


def contiguous_bytes(spec: Spec, tensor: Tensor, mode: str) -> int:
    """Bytes of an operand's tile along the mode in which it is contiguous; `mode` is that which it shares with the
    output.
    """
    along = product_of(spec).k if tensor.major == product_of(spec).k else mode
    return tile_of(spec.schedule, along) * tensor.dtype.bytes


def swizzle_of(spec: Spec, tensor: Tensor) -> int:
    found = spec.schedule.smem[tensor.name].swizzle
    assert found is not None
    return found


def columns_of(spec: Spec) -> int:
    """Columns of tensor memory that a block allocates: a power of two, which the sums of all products fit."""
    columns = len(product_of(spec).b) * tile_of(spec.schedule, product_of(spec).n)
    return max(ALLOCATED, 1 << (columns - 1).bit_length())


def most_columns(spec: Spec) -> int:
    """Columns of a tile at most: those of one product, or of several as tensor memory has."""
    return min(MOST_COLUMNS, ALL_COLUMNS // len(product_of(spec).b) // UNIT * UNIT)


def slice_of(spec: Spec) -> int:
    """Columns that a warp loads from tensor memory at a time."""
    columns = tile_of(spec.schedule, product_of(spec).n)
    return next(width for width in SLICES if columns % width == 0)


def most_vector(spec: Spec, columns: int) -> int:
    """Elements of the output that a thread may store at once, of as many neighbours along n as it has at a time."""
    output, n = spec.output, product_of(spec).n
    if output.major not in (None, n):
        return 1
    most, known = min(columns, fitting_elements(spec, output)), known_divisor(spec, n)
    return max(1, min(most & -most, known & -known))


def vector_of(spec: Spec) -> int:
    """Elements of one access to the output."""
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    return max(1, bits // spec.output.dtype.bits)


def accumulator_layout(columns: int, strides: Sequence[int]) -> Layout:
    """(thread, value) of the warps that store to the places of a tile of (128, columns), of those strides.

    A product of 128 rows has row r in lane r (PTX ISA 9.1, section 9.7.16.10.5), and each warp loads its 32 lanes.
    """
    m, n = strides
    return Layout((ROWS, columns), (m, n))


def is_sound(spec: Spec) -> bool:
    """Whether the tile is one that a product can make; what is not filled in yet passes."""
    product, tiler = product_of(spec), spec.schedule.tiler or {}
    m, n, k = (tiler.get(mode) for mode in product.modes)
    fits_n = n is None or (0 < n <= most_columns(spec) and n % UNIT == 0)
    fits_k = k is None or (0 < k <= MAX_EXTENT and k % product.depth == 0)
    return m in (None, ROWS) and fits_n and fits_k


def is_finished(spec: Spec) -> bool:
    """Whether planning could fill in everything."""
    known = all(
        (one := spec.schedule.smem.get(tensor.name)) is not None and one.swizzle for tensor, _ in product_of(spec).sides
    )
    return is_sound(spec) and known and spec.schedule.pipeline.stages is not None
