"""Candidates that tuning tries for a gemm on the CUDA cores without `tune:`. The fields that decide most are tried in
all combinations: how large tiles are and who has which part of them. The rest is tried one field at a time around the
best of those (`refinements`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import product
from typing import TYPE_CHECKING

from cutegen import layouts
from cutegen.families.gemm.staged.product import product_of
from cutegen.families.gemm.staged.schedule import Spec
from cutegen.families.gemm.words import tile_of
from cutegen.planning.batches import batch_of

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice

TILES = (64, 128, 256)  # along m and n
DEPTHS = (8, 16, 32)  # along k
SIDES = ((16, 16), (16, 8), (8, 16), (32, 8), (8, 32), (8, 8))  # threads along m and n
RUNS = (1, 2, 4, 8)  # neighbours of a thread
STAGES = (2, 3, 4, 5)
SWIZZLES = (1, 2, 4, 8)  # tiles


def axes(specs: Sequence[Spec]) -> Iterator[tuple[str, list[Choice]]]:
    """The names and choices of what is combined, for resolved kernels that share their schedule."""
    majors = list(dict.fromkeys(spec.output.major for spec in specs))
    yield "tiler", [{("tiler",): tiler} for tiler in _tilers(specs[0])]
    yield "mma.thread_layout", [{}, *_threads(specs[0], majors)]


def refinements(spec: Spec) -> Iterator[Choice]:
    """Changes of one field each, to a resolved kernel."""
    schedule, (a, b, m, n, k) = spec.schedule, product_of(spec)
    assert schedule.mma.thread_layout is not None
    sides = layouts.mode_sizes(schedule.mma.thread_layout)[:2]
    for run in RUNS:
        permutation = {mode: f"({side},{run}):({run},1)" for mode, side in zip((m, n), sides, strict=True)}
        yield {("mma", "permutation"): permutation}
    for stages in STAGES:
        yield {("pipeline", "stages"): stages}
    for operand, mode in ((a, m), (b, n)):
        if operand.major == k and batch_of(spec.output) is None:
            yield {("workspace", operand.name): {"major": mode}}
    for name in schedule.workspace:
        yield {("workspace", name): {}}
    if schedule.pipeline.store is not None:
        depth = tile_of(schedule, k)
        for store in dict.fromkeys((depth - 1, depth - 2, depth - 3, depth // 2)):
            yield {("pipeline", "store"): max(0, store)}
    for raster, swizzle in product(spec.output.shape[-2:], SWIZZLES):
        yield {("scheduler",): {"raster": raster, "swizzle": swizzle}}


def _tilers(spec: Spec) -> Iterator[dict[str, int]]:
    _, _, m, n, k = product_of(spec)
    for sizes in product(TILES, TILES, DEPTHS):
        tiler = dict(zip((m, n, k), sizes, strict=True))
        if all(extent < 2 * max(spec.static.get(mode, extent), 8) for mode, extent in tiler.items()):
            yield tiler


def _threads(spec: Spec, majors: Sequence[str | None]) -> Iterator[Choice]:
    """The choices of threads: neighbours along the mode in which the output is contiguous, and the other way round."""
    m = product_of(spec).m
    columns = [True, False] if m in majors else [False, True]
    for (along_m, along_n), column in product(SIDES, columns):
        strides = f"(1,{along_m},0)" if column else f"({along_n},1,0)"
        yield {("mma", "thread_layout"): f"({along_m},{along_n},1):{strides}"}
