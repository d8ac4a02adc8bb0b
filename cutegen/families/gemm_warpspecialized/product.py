"""The schedule of a gemm whose warps have roles, as questions that planning, lint and analysis ask of it."""

from __future__ import annotations

from typing import NamedTuple

from tensor_layouts import Layout

from cutegen.atoms.copies import MBARRIER
from cutegen.families.gemm_warpspecialized.schedule import Spec, WarpspecializedSchedule
from cutegen.language.model import Tensor
from cutegen.planning.promises import fitting_elements, known_divisor

ROWS = 64  # of one wgmma
WARPGROUP = 128  # threads
COLUMNS, MOST_COLUMNS = 8, 256  # of one wgmma: a multiple of, and at most
DEPTH_BYTES = 32  # of one wgmma along k
ALIGN = 16  # bytes: of the address of what a tensor map describes, and of its rows
MAX_EXTENT = 65536  # of a tile along one mode: more never fits shared memory
ROLES = ("producer", "consumer")


class Product(NamedTuple):
    """The matrix product A [m, k] times B [n, k] transposed: its operands, and its modes."""

    a: Tensor
    b: Tensor
    m: str
    n: str
    k: str

    @property
    def sides(self) -> tuple[tuple[Tensor, str], tuple[Tensor, str]]:
        """The operands, each with its mode of the output."""
        return (self.a, self.m), (self.b, self.n)


def product_of(spec: Spec) -> Product:
    """The matrix product of a spec."""
    product = spec.compute.matmul
    assert product is not None
    a, b = spec.tensor(product.a), spec.tensor(product.b)
    return Product(a, b, a.shape[0], b.shape[0], a.shape[1])


def tile_of(schedule: WarpspecializedSchedule, mode: str) -> int:
    assert schedule.tiler is not None
    return schedule.tiler[mode]


def threads_of(schedule: WarpspecializedSchedule) -> int:
    """Threads of a block: a warpgroup that loads, and those that multiply."""
    return WARPGROUP * (1 + (schedule.warps.consumers or 0))


def swizzle_of(schedule: WarpspecializedSchedule, tensor: Tensor) -> int:
    found = schedule.smem[tensor.name].swizzle
    assert found is not None
    return found


def contiguous_bytes(spec: Spec, tensor: Tensor, mode: str) -> int:
    """Bytes of an operand's tile along the mode in which it is contiguous; `mode` is that which it shares with the
    output.
    """
    along = product_of(spec).k if tensor.major == product_of(spec).k else mode
    return tile_of(spec.schedule, along) * tensor.dtype.bytes


def stage_bytes(spec: Spec) -> int:
    """Bytes of one stage of A and B: what a barrier expects of the loads of one tile."""
    product = product_of(spec)
    depth = tile_of(spec.schedule, product.k)
    return sum(tile_of(spec.schedule, mode) * depth * tensor.dtype.bytes for tensor, mode in product.sides)


def smem_bytes(spec: Spec) -> int:
    """Bytes of shared memory of a block: the stages, and two barriers for each."""
    stages = spec.schedule.pipeline.stages
    assert stages is not None
    return stages * (stage_bytes(spec) + 2 * MBARRIER)


def accumulators(spec: Spec) -> int:
    """Accumulators of a thread: its part of 64 rows."""
    return ROWS * tile_of(spec.schedule, product_of(spec).n) // WARPGROUP


def most_vector(spec: Spec) -> int:
    """Elements of the output that a thread may store at once: it has pairs of neighbours along n."""
    output, n = spec.output, product_of(spec).n
    paired = output.major == n and known_divisor(spec, n) % 2 == 0
    return min(2, fitting_elements(spec, output)) if paired else 1


def vector_of(spec: Spec) -> int:
    """Elements of one access to the output."""
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    return max(1, bits // spec.output.dtype.bits)


def accumulator_layout(consumers: int, columns: int, strides: tuple[int, int]) -> Layout:
    """(thread, value) of the warpgroups that multiply to a place of the tile (64 consumers, columns), of those strides.

    A thread has rows lane / 4 and 8 below of its warp's 16, and pairs of columns (PTX ISA 9.1, section 9.7.15.5.1.1).
    """
    m, n = strides
    warps = (4 * consumers, 16 * m)
    return Layout(((4, 8, warps[0]), (2, 2, columns // 8)), ((2 * n, m, warps[1]), (n, 8 * m, 8 * n)))


def is_sound(spec: Spec) -> bool:
    """Whether the tile is one that warpgroups can make; what is not filled in yet passes."""
    schedule, product = spec.schedule, product_of(spec)
    tiler = schedule.tiler or {}
    if max(tiler.values(), default=0) > MAX_EXTENT:
        return False
    m, n, k = (tiler.get(mode) for mode in (product.m, product.n, product.k))
    unit = DEPTH_BYTES // product.a.dtype.bytes
    fits_m = m is None or (m % ROWS == 0 and m // ROWS <= 3 and schedule.warps.consumers in (None, m // ROWS))
    fits_n = n is None or (n % COLUMNS == 0 and n <= MOST_COLUMNS)
    return fits_m and fits_n and (k is None or k % unit == 0)


def is_finished(spec: Spec) -> bool:
    """Whether planning could fill in everything."""
    schedule, product = spec.schedule, product_of(spec)
    known = all(t.name in schedule.smem and schedule.smem[t.name].swizzle for t in (product.a, product.b))
    return is_sound(spec) and known and schedule.pipeline.stages is not None
