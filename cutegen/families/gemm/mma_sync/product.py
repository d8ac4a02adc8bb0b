"""The schedule of a multistage gemm on tensor cores, as questions that planning, lint and analysis ask of it."""

from __future__ import annotations

from math import prod

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import WARP
from cutegen.families.common.dealing import copy_layouts
from cutegen.families.gemm.mma_sync.schedule import MmaSyncSchedule, Spec
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.language.model import Tensor
from cutegen.planning.promises import aligned_elements, whole_accesses
from cutegen.planning.sound import MAX_THREADS

ROWS, COLUMNS = 16, 8  # of one mma.sync
DEPTH_BYTES = 32  # of one mma.sync along k, for all types
PAIR = 2 * COLUMNS  # that a warp has next to each other: ldmatrix reads four matrices of B at once
LEAST_STEPS = 2  # of a tile along k: the fragments of the next one are read while one is multiplied
ACCUMULATOR = 4  # bytes
BANK_SPREAD = {True: 8, False: 4}  # words modulo 32 from a row of the staged tile to the next: along n, along m


def warps_of(schedule: MmaSyncSchedule) -> tuple[int, int]:
    """Warps of a block along m and n."""
    assert schedule.mma.atom_layout is not None
    m, n, _ = layouts.mode_sizes(schedule.mma.atom_layout)
    return m, n


def threads_of(schedule: MmaSyncSchedule) -> int:
    """Threads of a block."""
    assert schedule.mma.atom_layout is not None
    return WARP * int(size(schedule.mma.atom_layout))


def depth_of(tensor: Tensor) -> int:
    """Elements of one mma.sync along k."""
    return DEPTH_BYTES // tensor.dtype.bytes


def contiguous(spec: Spec, tensor: Tensor, mode: str) -> tuple[int, int]:
    """Elements of an operand's tile along the mode in which it is contiguous, and along the other.

    `mode` is that which it shares with the output.
    """
    k = product_of(spec).k
    block, depth = tile_of(spec.schedule, mode), tile_of(spec.schedule, k)
    return (depth, block) if tensor.major == k else (block, depth)


def widest_vector(spec: Spec, tensor: Tensor, tile: tuple[int, int]) -> int:
    """The widest access to a tensor, in elements, that alignment and promises allow and that deals its tile out.

    `tile` has its extents along the tensor's modes. 0 where no access does.
    """
    last = tensor.major == tensor.shape[-1]
    vector = min(aligned_elements(tensor), whole_accesses(spec, tensor.major))
    while vector and copy_layouts(threads_of(spec.schedule), tile, vector, last) is None:
        vector //= 2
    return vector


def swizzle_of(schedule: MmaSyncSchedule, tensor: Tensor) -> int:
    """Bytes of a row of an operand's shared memory."""
    found = schedule.smem[tensor.name].swizzle
    assert found is not None
    return found


def operand_bytes(spec: Spec) -> dict[str, int]:
    """The bytes of all stages of A and of B, by name."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    assert schedule.pipeline.stages is not None
    depth = tile_of(schedule, k) * schedule.pipeline.stages
    return {t.name: tile_of(schedule, mode) * depth * t.dtype.bytes for t, mode in ((a, m), (b, n))}


def sides_of(spec: Spec) -> tuple[int, int]:
    """Rows and columns of a block's tile."""
    m, n = product_of(spec).sides
    return tile_of(spec.schedule, m), tile_of(spec.schedule, n)


def staged_strides(spec: Spec, sides: tuple[int, int]) -> tuple[int, int]:
    """Words from a row of a tile of accumulators to the next in shared memory, and from a column to the next."""
    row_major = spec.lead.major == product_of(spec).n
    extent = sides[int(row_major)]
    step = extent + (BANK_SPREAD[row_major] - extent) % WARP
    return (step, 1) if row_major else (1, step)


def staged_bytes(spec: Spec, sides: tuple[int, int]) -> int:
    """The bytes of a tile of accumulators in shared memory."""
    (rows, columns), (m, n) = staged_strides(spec, sides), sides
    return ((m - 1) * rows + (n - 1) * columns + 1) * ACCUMULATOR


def smem_bytes(spec: Spec) -> int:
    """Bytes of shared memory of a block: the stages, or what the epilogue puts in their place."""
    return max(sum(operand_bytes(spec).values()), staged_bytes(spec, sides_of(spec)))


def accumulators(spec: Spec) -> int:
    """Accumulators of a thread."""
    return prod(sides_of(spec)) // threads_of(spec.schedule)


def is_plain(layout: Layout) -> bool:
    """Whether a layout of warps has three modes, each of one extent, and none along k."""
    return len(layouts.leaves(layout)) == len(layouts.modes_of(layout)) == 3 and layouts.mode_sizes(layout)[2] == 1


def is_sound(spec: Spec) -> bool:
    """Whether the tile is one that warps can make; what is not filled in yet passes."""
    schedule, product = spec.schedule, product_of(spec)
    tiler, atoms = schedule.tiler or {}, schedule.mma.atom_layout
    if max(tiler.values(), default=0) > MAX_EXTENT:
        return False
    unit, depth = depth_of(product.a), tiler.get(product.k)
    if depth is not None and (depth % unit or depth < LEAST_STEPS * unit):
        return False
    if atoms is None:
        return True
    if not is_plain(atoms) or WARP * int(size(atoms)) > MAX_THREADS:
        return False
    units = zip(product.sides, (ROWS, PAIR), warps_of(schedule), strict=True)
    return all(mode not in tiler or tiler[mode] % (unit * warps) == 0 for mode, unit, warps in units)


def is_finished(spec: Spec) -> bool:
    """Whether planning could fill in everything: the tile is sound, and its threads have a way to copy A, B and C."""
    schedule, (a, b, *_) = spec.schedule, product_of(spec)
    copied = all(name in schedule.copies and schedule.copies[name].bits for name in (a.name, b.name, spec.lead.name))
    stored = all(t.name in schedule.smem and schedule.smem[t.name].swizzle for t in (a, b))
    return is_sound(spec) and copied and stored and schedule.pipeline.stages is not None
