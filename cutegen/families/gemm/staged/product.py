"""A gemm's schedule, as questions that planning, lint and analysis ask of it.

The shape of the kernel is the multistage SIMT gemm of CUTLASS: both operands travel through shared memory that is
m- resp. n-major, `stages` tiles deep; a thread multiplies outer products of fragments it reads from there.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any, NamedTuple

from tensor_layouts import Layout, size

from cutegen import layouts
from cutegen.atoms.targets import MAX_VECTOR_BITS
from cutegen.families.gemm.staged.schedule import Copy, GemmSchedule, Spec, Workspace
from cutegen.families.gemm.words import MAX_EXTENT, tile_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.layouts import make_layout_tv
from cutegen.planning.promises import aligned_elements, whole_accesses
from cutegen.planning.sound import MAX_THREADS, MAX_VALUES, deals_out

LEAST_DEPTH = 2  # of a tile along k: the next step is read while one is multiplied
STAGES, LEAST_STAGES = 3, 2  # of shared memory: what is inferred, and the fewest of a pipeline
FRAGMENT_BYTES = 16  # of neighbours that a thread owns along m and n: one access, also of the output


class Product(NamedTuple):
    """The matrix product A [m, k] times B [n, k] transposed: its operands as the mainloop reads them, and its modes."""

    a: Tensor
    b: Tensor
    m: str
    n: str
    k: str

    @property
    def operands(self) -> tuple[Tensor, Tensor]:
        return self.a, self.b

    @property
    def sides(self) -> tuple[str, str]:
        """The modes of the output, m and n."""
        return self.m, self.n


def product_of(spec: KernelSpec[Any]) -> Product:
    """The matrix product of a spec, with its operands as the mainloop reads them.

    From a workspace it reads another majorness, and rows that start at multiples of 16 bytes. Of rows that are taken at
    places it has one for each place.
    """
    product = spec.compute.matmul
    assert product is not None
    of_elements = spec.by_element
    a, b = _as_read(spec, of_elements.tensor(product.a)), _as_read(spec, spec.tensor(product.b))
    return Product(a, b, a.shape[-2], b.shape[-2], a.shape[-1])


def _as_read(spec: KernelSpec[Any], tensor: Tensor) -> Tensor:
    space = workspaces(spec).get(tensor.name)
    return tensor if space is None else replace(tensor, major=space.major, align=MAX_VECTOR_BITS // 8)


def workspaces(spec: KernelSpec[Any]) -> Mapping[str, Workspace]:
    """Those of a spec's operands; on tensor cores they have none."""
    found: Mapping[str, Workspace] = getattr(spec.schedule, "workspace", {})
    return found


def whole_rows(spec: Spec, tensor: Tensor) -> int:
    """The widest vector, in elements, that ends within the rows of a tensor whose size is fixed or padded."""
    return MAX_VECTOR_BITS if tensor.name in workspaces(spec) else whole_accesses(spec, tensor.major)


def column_of(schedule: GemmSchedule, tensor: str) -> Layout | None:
    """The layout from coordinates along m or n to places in a column of shared memory; None where they are the same."""
    smem = schedule.smem.get(tensor)
    return None if smem is None else smem.layout


def threads_of(schedule: GemmSchedule) -> int:
    assert schedule.mma.thread_layout is not None
    return int(size(schedule.mma.thread_layout))


def well_formed(copy: Copy) -> bool:
    """Whether the two layouts can be combined; the rules on ranks and coverage say it where they cannot."""
    threads, values = copy.thread_layout, copy.value_layout
    if threads is None or values is None or {len(layouts.modes_of(x)) for x in (threads, values)} != {2}:
        return False
    return deals_out(threads, MAX_THREADS) and deals_out(values, MAX_VALUES)


def copy_run(copy: Copy, along: int) -> int:
    """Elements along m or n (`along` 0) or k (1) that a thread copies in a row, first in its order of values."""
    if not well_formed(copy):
        return 1
    tiler, tv = make_layout_tv(copy.thread_layout, copy.value_layout)
    return layouts.run_along([layouts.coordinates(v, tiler) for v in layouts.offsets(layouts.modes_of(tv)[1])], along)


# ---------------------------------------------------------------------------------------------- fragments of C


def fragment(schedule: GemmSchedule, mode: str, side: int) -> tuple[tuple[int, ...], list[int]]:
    """A thread's share of the tile along m (`side` 0) or n (1): its profile, and thread 0's coordinates in order.

    The tiled mma walks positions t + threads * v of the permutation, and repeats it over the tile.
    """
    assert schedule.mma.thread_layout is not None
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side]
    block = tile_of(schedule, mode)
    permutation = schedule.mma.permutation.get(mode, Layout(threads))
    length = int(size(permutation))
    own, repeats = length // threads, block // length
    image = layouts.offsets(permutation) if repeats else ()  # one that is longer than the tile may have no end
    coordinates = [r * length + image[v * threads] for r in range(repeats) for v in range(own)]
    profile = tuple(extent for extent in (own, repeats) if extent > 1) or (1,)
    return profile, coordinates


def thread_values(spec: Spec) -> int:
    """The number of accumulators of a thread."""
    _, _, m, n, _ = product_of(spec)
    return prod(len(fragment(spec.schedule, mode, side)[1]) for side, mode in enumerate((m, n)))


def epilogue_run(spec: Spec, schedule: GemmSchedule) -> int:
    """Elements of the output that a thread may store at once: its neighbours along the contiguous mode."""
    _, _, m, n, _ = product_of(spec)
    output = spec.lead
    side = 0 if output.major == m else 1
    threads = layouts.mode_sizes(schedule.mma.thread_layout)[side] if schedule.mma.thread_layout else 0
    mode = (m, n)[side]
    permutation = schedule.mma.permutation.get(mode)
    length = int(size(permutation)) if permutation is not None else threads
    if not threads or length % threads or tile_of(schedule, mode) % length:
        return 1
    run = layouts.unit_stride_run(fragment(schedule, mode, side)[1])
    return min(run, aligned_elements(output), whole_accesses(spec, output.major))


# ------------------------------------------------------------------------------------------------------- soundness


def is_sound(spec: Spec) -> bool:
    """Whether ranks agree and nothing is too large to enumerate; what is not filled in yet passes."""
    schedule = spec.schedule
    threads = schedule.mma.thread_layout
    if threads is not None:
        extents = layouts.mode_sizes(threads)
        if len(extents) != 3 or extents[2] != 1 or not deals_out(threads, MAX_THREADS):
            return False
    for space in schedule.workspace.values():
        dealt = space.thread_layout
        if dealt is not None and not (len(layouts.modes_of(dealt)) == 2 and deals_out(dealt, MAX_THREADS)):
            return False
    tiler, product = schedule.tiler or {}, spec.compute.matmul
    assert product is not None
    depth = tiler.get(spec.tensor(product.a).shape[-1], LEAST_DEPTH)
    return max(tiler.values(), default=0) <= MAX_EXTENT and depth >= LEAST_DEPTH


def is_finished(spec: Spec) -> bool:
    """Whether planning could fill in everything: the spec is sound, and its threads have a way to copy A and B."""
    copies, product = spec.schedule.copies, spec.compute.matmul
    assert product is not None
    for name in (product.a, product.b):
        if name not in copies or copies[name].thread_layout is None or copies[name].value_layout is None:
            return False
    return is_sound(spec)
