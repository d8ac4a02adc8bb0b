"""A gemm's schedule, as questions that planning, lint and analysis ask of it.

The shape of the kernel is the multistage SIMT gemm of CUTLASS: both operands travel through shared memory that is
m- resp. n-major, `stages` tiles deep; a thread multiplies outer products of fragments it reads from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tensor_layouts import Layout, size

from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import Copy, GemmSchedule, KernelSpec, Tensor, Workspace
from cutegen.planning import layouts
from cutegen.planning.common import aligned_elements, whole_accesses
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out
from cutegen.planning.targets import MAX_VECTOR_BITS

STAGES, LEAST_STAGES = 3, 2  # of shared memory: what is inferred, and the fewest of a pipeline


def names(spec: KernelSpec) -> tuple[Tensor, Tensor, str, str, str]:
    """The operands A [m, k] and B [n, k] as the mainloop reads them, and the names of m, n and k.

    From a workspace it reads another majorness, and rows that start at multiples of 16 bytes.
    """
    product = spec.compute.matmul
    assert product is not None
    a, b = _as_read(spec, spec.tensor(product.a)), _as_read(spec, spec.tensor(product.b))
    return a, b, a.shape[0], b.shape[0], a.shape[1]


def _as_read(spec: KernelSpec, tensor: Tensor) -> Tensor:
    space = workspaces(spec).get(tensor.name)
    return tensor if space is None else replace(tensor, major=space.major, align=MAX_VECTOR_BITS // 8)


def workspaces(spec: KernelSpec) -> Mapping[str, Workspace]:
    assert isinstance(spec.schedule, GemmSchedule)
    return spec.schedule.workspace


def whole_rows(spec: KernelSpec, tensor: Tensor) -> int:
    """The widest vector, in elements, that ends within the rows of a tensor whose size is fixed or padded."""
    return MAX_VECTOR_BITS if tensor.name in workspaces(spec) else whole_accesses(spec, tensor.major)


def tile_of(schedule: GemmSchedule, mode: str) -> int:
    assert schedule.tiler is not None
    return schedule.tiler[mode]


def threads_of(schedule: GemmSchedule) -> int:
    assert schedule.mma.thread_layout is not None
    return int(size(schedule.mma.thread_layout))


def operand_vector(copy: Copy, tensor: Tensor) -> int:
    assert copy.bits is not None
    return max(1, copy.bits // tensor.dtype.bits)


def copy_run(copy: Copy, along: int) -> int:
    """Elements along m or n (`along` 0) or k (1) that a thread copies in a row, first in its order of values."""
    threads, values = copy.thread_layout, copy.value_layout
    if threads is None or values is None or {len(layouts.modes_of(x)) for x in (threads, values)} != {2}:
        return 1
    if not deals_out(threads, MAX_THREADS) or not deals_out(values, MAX_VALUES):
        return 1
    tiler, tv = make_layout_tv(threads, values)
    return layouts.run_along([layouts.coordinates(v, tiler) for v in layouts.offsets(layouts.modes_of(tv)[1])], along)


def smem_bytes(spec: KernelSpec) -> tuple[dict[str, int], int]:
    """Shared memory of A's and B's buffers, and in all with 16-byte alignment."""
    assert isinstance(spec.schedule, GemmSchedule)
    schedule, (a, b, m, n, k) = spec.schedule, names(spec)
    assert schedule.stages is not None
    buffers = {}
    for tensor, mode in ((a, m), (b, n)):
        stride = tile_of(schedule, mode) + schedule.smem_pad[tensor.name]
        # The last column has no padding behind it, but the allocation is rounded up to it all the same.
        elements = stride * (tile_of(schedule, k) * schedule.stages - 1) + tile_of(schedule, mode)
        buffers[tensor.name] = elements * tensor.dtype.bytes
    return buffers, sum(-(-b // 16) * 16 for b in buffers.values())


# ---------------------------------------------------------------------------------------------- fragments of C


def fragment(schedule: GemmSchedule, mode: str, side: int) -> tuple[tuple[int, ...], list[int]]:
    """A thread's share of the tile along m (`side` 0) or n (1): its profile, and thread 0's coordinates in order.

    The tiled mma walks positions t + threads * v of the permutation, and repeats it over the tile.
    """
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    block = tile_of(schedule, mode)
    permutation = schedule.mma.permutation.get(mode, Layout(threads))
    image = layouts.offsets(permutation)
    own, repeats = len(image) // threads, block // len(image)
    coordinates = [r * len(image) + image[v * threads] for r in range(repeats) for v in range(own)]
    profile = tuple(extent for extent in (own, repeats) if extent > 1) or (1,)
    return profile, coordinates


def thread_values(spec: KernelSpec) -> int:
    """Accumulators of a thread."""
    assert isinstance(spec.schedule, GemmSchedule)
    _, _, m, n, _ = names(spec)
    return prod(len(fragment(spec.schedule, mode, side)[1]) for side, mode in enumerate((m, n)))


def epilogue_run(spec: KernelSpec, schedule: GemmSchedule) -> int:
    """Elements of the output that a thread may store at once: its neighbours along the contiguous mode."""
    _, _, m, n, _ = names(spec)
    output = spec.output
    side = 0 if output.major == m else 1
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side] if schedule.mma.thread_layout else 0
    mode = (m, n)[side]
    permutation = schedule.mma.permutation.get(mode)
    length = int(size(permutation)) if permutation is not None else threads
    if not threads or length % threads or tile_of(schedule, mode) % length:
        return 1
    run = layouts.unit_stride_run(fragment(schedule, mode, side)[1])
    return min(run, aligned_elements(output), whole_accesses(spec, output.major))


def epilogue_vector(spec: KernelSpec) -> int:
    assert isinstance(spec.schedule, GemmSchedule)
    bits = spec.schedule.copies[spec.output.name].bits
    assert bits is not None
    return max(1, bits // spec.output.dtype.bits)
