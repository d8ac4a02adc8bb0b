"""Bounds within which a schedule can be counted through.

Inference enumerates layouts, which a hostile or mistyped size would make endless. Whatever is unsound here is left as
it was written, and lint's first rules say why: they report every spec that is not sound.
"""

from __future__ import annotations

from math import prod

from tensor_layouts import Layout, size

from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec, ProbeSchedule
from cutegen.planning import layouts

MAX_THREADS = 1024  # of a block, on every GPU so far
MAX_VALUES = 1024  # of a thread: they live in registers and every access is unrolled
MAX_EXTENT = 65536  # of a gemm's tile along one mode: more never fits shared memory

LEAST_DEPTH = 2  # of a gemm's tile along k: the next step is read while one is multiplied


def is_sound(spec: KernelSpec) -> bool:
    """Whether ranks agree and nothing is too large to enumerate; what is not filled in yet passes."""
    match spec.schedule:
        case ElementwiseSchedule():
            return _elementwise(spec.schedule, spec.output.shape)
        case GemmSchedule():
            return _gemm(spec, spec.schedule)
    return _probe(spec.schedule)


def is_finished(spec: KernelSpec) -> bool:
    """Whether planning could fill in everything: the spec is sound, and a gemm's threads have a way to copy A and B."""
    if isinstance(spec.schedule, GemmSchedule):
        product, copies = spec.compute.matmul, spec.schedule.copies
        assert product is not None
        for name in (product.a, product.b):
            if name not in copies or copies[name].thread_layout is None or copies[name].value_layout is None:
                return False
    return is_sound(spec)


def deals_out(layout: Layout, limit: int) -> bool:
    """Whether a layout numbers at most `limit` coordinates 0, 1, ... without gaps or repetitions."""
    return int(size(layout)) <= limit and layouts.is_permutation(layout)


def values_of(schedule: ElementwiseSchedule) -> int:
    """Elements of the output that a thread has; rounded up where the tiler does not divide. 0 if not known yet."""
    match schedule.partition:
        case "thread_value":
            return int(size(schedule.value_layout)) if schedule.value_layout is not None else 0
        case "inner_outer":
            if schedule.tiler is None or schedule.thread_layout is None:
                return 0
            return -(-prod(schedule.tiler.values()) // int(size(schedule.thread_layout)))
    return prod(schedule.tiler.values()) if schedule.tiler is not None else 0


def threads_of(schedule: ElementwiseSchedule) -> int:
    """Threads of a block; 0 if not known yet."""
    if schedule.partition == "inner":
        return schedule.threads or 0
    return int(size(schedule.thread_layout)) if schedule.thread_layout is not None else 0


def _elementwise(schedule: ElementwiseSchedule, modes: tuple[str, ...]) -> bool:
    for layout, limit in ((schedule.thread_layout, MAX_THREADS), (schedule.value_layout, MAX_VALUES)):
        if layout is not None and not (len(layouts.modes_of(layout)) == len(modes) and deals_out(layout, limit)):
            return False
    return threads_of(schedule) <= MAX_THREADS and values_of(schedule) <= MAX_VALUES


def _gemm(spec: KernelSpec, schedule: GemmSchedule) -> bool:
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
    depth = tiler.get(spec.tensor(product.a).shape[1], LEAST_DEPTH)
    return max(tiler.values(), default=0) <= MAX_EXTENT and depth >= LEAST_DEPTH


def _probe(schedule: ProbeSchedule) -> bool:
    if schedule.tv_layout is None or len(layouts.modes_of(schedule.tv_layout)) != 2:
        return False
    threads, values = layouts.mode_sizes(schedule.tv_layout)
    return threads <= MAX_THREADS and values <= MAX_VALUES
