"""Elementwise kernels: the plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod

from tensor_layouts import size

from cutegen.language.expressions import Literal_, annotate, walk
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import ElementwiseSchedule, KernelSpec
from cutegen.planning import layouts
from cutegen.planning.common import may_branch, operand
from cutegen.planning.elementwise import (
    along_major,
    block_tile,
    major_index,
    shares,
    tile_order,
    value_order,
    vector_of,
)
from cutegen.planning.plan import ElementwisePlan, Operand, Pointwise


def plan(spec: KernelSpec) -> ElementwisePlan:
    """The plan of a resolved spec that passed its checks."""
    assert isinstance(spec.schedule, ElementwiseSchedule)
    schedule, output, vector = spec.schedule, spec.output, vector_of(spec)
    assert schedule.partition is not None
    masked = tuple(m for m in output.shape if schedule.predication[m] == "mask")
    tile = block_tile(spec)
    tiler = tuple(tile.values())
    tv_layout = None
    thread_layout, value_layout = layouts.alike(schedule.thread_layout, schedule.value_layout)
    order = tile_order(spec)
    check_threads = guard_tiles = False
    run = None
    match schedule.partition:
        case "inner":
            assert schedule.threads is not None
            threads, values = schedule.threads, prod(tiler)
            value_layout = layouts.walk(tiler, value_order(spec))
            first = next((i for i, extent in enumerate(tiler) if extent > 1), 0)
            if first == major_index(spec) or values == 1:
                value_layout = None
            check_threads = output.shape[order[-1]] not in masked
            # A mode with one tile by its fixed size has stride 0 there: its coordinate never leaves the bounds.
            slowest = output.shape[order[-1]]
            guard_tiles = not check_threads and spec.static.get(slowest, tile[slowest] + 1) <= tile[slowest]
        case "inner_outer":
            assert schedule.thread_layout is not None
            threads = int(size(schedule.thread_layout))
            values = prod(shares(spec, schedule))
            run = along_major(spec, vector, 1) if vector > 1 else None
        case _:
            assert schedule.thread_layout is not None and schedule.value_layout is not None
            threads, values = int(size(schedule.thread_layout)), int(size(schedule.value_layout))
            tv_layout = make_layout_tv(schedule.thread_layout, schedule.value_layout)[1]
    pointwise = make_pointwise(spec, values, vector, masked)
    return ElementwisePlan(
        spec=spec,
        threads=threads,
        tile=tile,
        pointwise=pointwise,
        partition=schedule.partition,
        tiler=tiler,
        thread_layout=thread_layout,
        value_layout=value_layout,
        tv_layout=tv_layout,
        run=run,
        tile_order=order,
        check_threads=check_threads,
        guard_tiles=guard_tiles,
        most_tiles=_most_tiles(spec, tile, threads if schedule.partition == "inner" else 0),
    )


def _most_tiles(spec: KernelSpec, tile: Mapping[str, int], beyond: int) -> int | None:
    """Tiles that 32 bits can number, with as many threads `beyond` the last one."""
    most = 2**31 - 1 - beyond
    if all(mode in spec.static for mode in tile):
        return None if prod(-(-spec.static[mode] // extent) for mode, extent in tile.items()) <= most else most
    return most


def _cached(spec: KernelSpec, o: Operand) -> Operand:
    """With the priority of the L1 cache, where nothing is touched twice: not for what broadcasts."""
    assert isinstance(spec.schedule, ElementwiseSchedule) and spec.schedule.copy.evict_priority is not None
    return o if o.broadcast else replace(o, evict_priority=spec.schedule.copy.evict_priority)


def make_pointwise(spec: KernelSpec, values: int, vector: int, masked: tuple[str, ...]) -> Pointwise:
    """The operands of an elementwise kernel, in the spec's order."""
    types = {t.name: t.dtype for t in spec.tensors} | {s.name: s.dtype for s in spec.scalars}
    value = annotate(spec.compute, types)
    read = spec.compute.names()
    operands = tuple(_cached(spec, operand(spec, t, vector, t.name in read)) for t in spec.tensors)
    reshape = len({(o.tensor.major, o.broadcast, o.vector) for o in operands}) > 1
    reshape = reshape or not any(getattr(n, "id", None) in types for n in walk(value)) or isinstance(value, Literal_)
    clear = bool(masked) and may_branch(value)
    return Pointwise(operands, values, vector, value, masked, clear, reshape)
