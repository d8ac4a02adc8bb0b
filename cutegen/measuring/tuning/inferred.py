"""A space for specs without `tune:`. What decides most is tried in all combinations: how large tiles are and who has
which part of them. The rest is tried one field at a time around the best of those (`refinements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import product
from typing import Any

from cutegen.language.layouts import format_layout
from cutegen.language.model import ElementwiseSchedule, GemmSchedule, KernelSpec
from cutegen.language.schema import schema
from cutegen.measuring.tuning.schedules import Choice
from cutegen.planning import gemm, layouts
from cutegen.planning.elementwise import vector_of, widest_tensor, widest_vector

TILES = (64, 128, 256)  # along m and n
DEPTHS = (8, 16, 32)  # along k
SIDES = ((16, 16), (16, 8), (8, 16), (32, 8), (8, 32), (8, 8))  # threads along m and n
STAGES = (2, 3, 4, 5)
BLOCKS = (1, 2, 3, 4)  # of an SM
SWIZZLES = (1, 2, 4, 8)  # tiles
BLOCK_THREADS = (64, 128, 256, 512)
ALONG = (8, 16, 32, 64, 128, 256)  # threads along the contiguous mode
SHARES = (1, 2, 4, 8)  # accesses of a thread


def axes(specs: Sequence[KernelSpec]) -> Iterator[tuple[str, list[Choice]]]:
    """Names and choices, for resolved kernels that share their schedule."""
    first = specs[0]
    majors = list(dict.fromkeys(spec.output.major for spec in specs))
    if isinstance(first.schedule, GemmSchedule):
        yield "tiler", [{("tiler",): tiler} for tiler in _tilers(first)]
        yield "mma.thread_layout", [{}, *_gemm_threads(first, majors)]
    elif isinstance(first.schedule, ElementwiseSchedule):
        orders = [first.output.shape.index(str(major)) for major in majors]
        yield f"partition {first.schedule.partition}", [{}, *_elementwise(first, first.schedule, orders)]


def refinements(spec: KernelSpec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    if isinstance(spec.schedule, GemmSchedule):
        a, b, m, n, k = gemm.names(spec)
        assert spec.schedule.mma.thread_layout is not None
        sides = layouts.mode_sizes(spec.schedule.mma.thread_layout)[:2]
        for run in (1, 2, 4, 8):
            permutation = {mode: f"({side},{run}):({run},1)" for mode, side in zip((m, n), sides, strict=True)}
            yield {("mma", "permutation"): permutation}
        for stages in STAGES:
            yield {("pipeline", "stages"): stages}
        for operand, mode in ((a, m), (b, n)):
            if operand.major == k:
                yield {("workspace", operand.name): {"major": mode}}
        for name in spec.schedule.workspace:
            yield {("workspace", name): {}}
        if spec.schedule.store is not None:
            depth = gemm.tile_of(spec.schedule, k)
            for store in dict.fromkeys((depth - 1, depth - 2, depth - 3, depth // 2)):
                yield {("pipeline", "store"): max(0, store)}
    elif isinstance(spec.schedule, ElementwiseSchedule):
        for bits in (32, 64, 128):
            yield {("copy", "bits"): bits}
    yield from _optional(spec)


def _optional(spec: KernelSpec) -> Iterator[Choice]:
    """Fields that the language has for some schedules only."""
    fields: Mapping[str, Any] = schema()["definitions"][f"{spec.op}_schedule"]["properties"]
    if "blocks_per_sm" in fields:
        for blocks in BLOCKS:
            yield {("blocks_per_sm",): blocks}
    scheduler: Mapping[str, Any] = fields.get("scheduler", {}).get("properties", {})
    if "raster" in scheduler:
        rasters = list(spec.output.shape)
        for raster, swizzle in product(rasters, SWIZZLES if "swizzle" in scheduler else ("",)):
            inner = {"raster": raster, "swizzle": swizzle} if swizzle else {"raster": raster}
            yield {("scheduler",): inner}


def _tilers(spec: KernelSpec) -> Iterator[dict[str, int]]:
    _, _, m, n, k = gemm.names(spec)
    for sizes in product(TILES, TILES, DEPTHS):
        tiler = dict(zip((m, n, k), sizes, strict=True))
        if all(extent < 2 * max(spec.static.get(mode, extent), 8) for mode, extent in tiler.items()):
            yield tiler


def _gemm_threads(spec: KernelSpec, majors: Sequence[str | None]) -> Iterator[Choice]:
    """Neighbours along the mode in which the output is contiguous, and the other way round."""
    m = gemm.names(spec)[2]
    columns = [True, False] if m in majors else [False, True]
    for (along_m, along_n), column in product(SIDES, columns):
        strides = f"(1,{along_m},0)" if column else f"({along_n},1,0)"
        yield {("mma", "thread_layout"): f"({along_m},{along_n},1):{strides}"}


def _elementwise(spec: KernelSpec, schedule: ElementwiseSchedule, orders: Sequence[int]) -> Iterator[Choice]:
    modes = spec.output.shape
    element = widest_tensor(spec).dtype.bits
    vector = max(1, 128 // element, vector_of(spec))
    for major in dict.fromkeys(orders):
        if schedule.partition == "inner":
            for along, rows, threads in product((vector, 1, 2 * vector, 4 * vector), SHARES, (*BLOCK_THREADS, 1024)):
                tile = _shape(len(modes), major, along, rows)
                if rows == 1 or len(modes) > 1:
                    yield {("tiler",): dict(zip(modes, tile, strict=True)), ("threads",): threads}
            continue
        for shape, share in product(_threads(len(modes), major), _shares(len(modes), major, vector)):
            thread_layout = format_layout(layouts.ordered(shape, major))
            if schedule.partition == "inner_outer":
                extents = [t * s for t, s in zip(shape, share, strict=True)]
                yield {
                    ("thread_layout",): thread_layout,
                    ("tiler",): dict(zip(modes, extents, strict=True)),
                    ("copy", "bits"): widest_vector(spec) * element,
                }
            else:
                value_layout = format_layout(layouts.ordered(share, major))
                yield {("thread_layout",): thread_layout, ("value_layout",): value_layout}


def _threads(rank: int, major: int) -> Iterator[tuple[int, ...]]:
    if rank == 1:
        yield from ((threads,) for threads in BLOCK_THREADS)
        return
    for threads, along in product(BLOCK_THREADS, ALONG):
        if along <= threads <= 32 * along:
            yield _shape(rank, major, along, threads // along)


def _shares(rank: int, major: int, vector: int) -> Iterator[tuple[int, ...]]:
    for along, rows in product((vector, 2 * vector, 4 * vector), SHARES if rank > 1 else (1,)):
        yield _shape(rank, major, along, rows)


def _shape(rank: int, major: int, along: int, rows: int) -> tuple[int, ...]:
    """`along` the contiguous mode, `rows` along the slowest other one."""
    shape = [1] * rank
    shape[major] = along
    others = [i for i in reversed(range(rank)) if i != major]
    if others:
        shape[others[0]] = rows
    return tuple(shape)
