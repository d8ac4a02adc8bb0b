"""Where elements lie in a block's shared memory: stages of operands, pieces of outputs, barriers.

Tiles lie in rows of as many bytes as their swizzle, the contiguous mode along them; a tile that is wider has one such
part behind the other. Within eight lines of 128 bytes runs of 16 bytes exchange their places: bits 7 and up of the
address are added without carry to those from bit 4 on, as many as a row's runs need (PTX ISA 9.1, section 5.5.7).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tensor_layouts import Layout, Swizzle

from cutegen.families.gemm.wgmma.allocation import counts_of, declared
from cutegen.families.gemm.wgmma.plan import Passing, Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import GRANULE, ROWS
from cutegen.layouts import pair
from cutegen.parts.acting import value_of
from cutegen.parts.declared import laid_out

RUN = 16  # bytes that stay together
LINE = 128  # bytes of all banks
Mode = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides


@dataclass(frozen=True)
class Swizzled:
    """A tile of `along` elements along its contiguous mode by `across` elements of `size` bytes; `row` elements are as
    long as the swizzle.
    """

    along: int
    across: int
    size: int
    swizzle: int  # bytes

    @property
    def row(self) -> int:
        """Elements of a row in shared memory."""
        return self.swizzle // self.size

    @property
    def pattern(self) -> Swizzle:
        """The swizzle as CuTe writes it, for elements."""
        runs, per_run = self.swizzle // RUN, RUN // self.size
        return Swizzle(runs.bit_length() - 1, per_run.bit_length() - 1, 3)

    def steps(self, extent: int, unit: int) -> Mode:
        """Shape and strides of so many steps of `unit` elements each along the contiguous mode, before the swizzle."""
        inside = min(extent, self.row // unit)
        return (inside, extent // inside), (unit, self.across * self.row)

    def lines(self, extent: int, unit: int) -> Mode:
        """The same across that mode."""
        return (extent,), (unit * self.row,)

    def place(self, along: int, across: int) -> int:
        """The byte of a tile at which an element lies."""
        offset = (along // self.row * self.across + across) * self.row + along % self.row
        return int(self.pattern(offset)) * self.size


def stage_of(plan: WarpspecializedPlan, side: Side) -> Swizzled:
    """A stage of A or B; of several products all that are side by side."""
    along, across = plan.tile[plan.k], side.extent
    if not side.k_major:
        along, across = across, along
    return Swizzled(along, across, side.tensor.dtype.bytes, side.swizzle)


def piece_of(plan: WarpspecializedPlan, x: Passing) -> Swizzled:
    """The piece of an output that a warpgroup stores at a time, or of a tensor that its epilogue reads at a time."""
    along, across = (plan.columns, ROWS) if x.n_major else (ROWS, plan.columns)
    return Swizzled(along, across, x.tensor.dtype.bytes, x.swizzle)


def moves_of(plan: WarpspecializedPlan, x: Passing) -> tuple[Layout, int]:
    """(thread, value) of a warpgroup to the elements of a piece that its threads write, or read, before the swizzle,
    and how many one instruction does.

    stmatrix writes four matrices of 8 x 8, and ldmatrix reads them: each lane says where a row of one stands, which is
    contiguous. Others move accumulators as threads have them, those of neighbouring columns at once where these are
    contiguous.
    """
    tile = piece_of(plan, x)
    pieces: Mode = (plan.pieces,), (0,)  # one after the other, to buffers whose banks are alike
    rows, columns = (tile.lines, tile.steps) if x.n_major else (tile.steps, tile.lines)
    if x.matrices:
        eight, second = ((8,), (tile.row,)), ((2,), (8 * tile.row,))  # rows of a matrix, and of the next one
        inner = ((2,), (8,))
        matrices = (eight, second, inner) if x.n_major else (eight, inner, second)
        threads = _joined(*matrices, rows(4, 16))
        values = _joined(((8,), (1,)), columns(plan.columns // GRANULE, GRANULE), pieces)
        return pair(threads, values), 8
    threads = _joined(columns(4, 2), rows(8, 1), rows(4, 16))
    values = _joined(columns(2, 1), ((2,), (8 * tile.row if x.n_major else 8,)), columns(plan.columns // 8, 8), pieces)
    return pair(threads, values), 2 if x.n_major else 1


def _joined(*modes: Mode) -> Layout:
    """One mode of several, the first fastest."""
    shape = tuple(size for sizes, _ in modes for size in sizes)
    return Layout(shape, tuple(step for _, steps in modes for step in steps))


@dataclass(frozen=True)
class Part:
    """Bytes of shared memory that hold one thing: the stage or the buffer `number` of a tensor, or a barrier."""

    name: str  # none of a tensor for what is no tensor's
    number: int
    start: int
    size: int
    what: str  # a sentence's beginning


def parts_of(plan: WarpspecializedPlan) -> Iterator[Part]:
    """The parts of a block's shared memory, in the order in which the kernel allocates them. Buffers of the output may
    reuse the memory of sums that other blocks sent.
    """
    counts = counts_of(plan.spec)
    for one, start, length in laid_out(declared(plan.spec), counts):
        each = int(value_of(one.each, counts)) if one.each else length
        for number in range(length):
            group, place = divmod(number, each)
            what = one.what.format(number=number, group=group, place=place)
            yield Part(one.title, number, start + number * one.bytes, one.bytes, what)
