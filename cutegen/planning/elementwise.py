"""Elementwise kernels: inference of what was left out, and the plan."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tensor_layouts import size

from cutegen.language.expressions import Literal_, annotate, walk
from cutegen.language.layouts import make_layout_tv
from cutegen.language.model import ElementwiseSchedule, KernelSpec, Partition, Scheduler, Tensor
from cutegen.planning import layouts
from cutegen.planning.common import (
    aligned_elements,
    default_predication,
    may_branch,
    operand,
    require_divisible,
    resolve_tensors,
    whole_accesses,
)
from cutegen.planning.plan import ElementwisePlan, Operand, Pointwise
from cutegen.planning.report import Report
from cutegen.planning.sound import is_sound
from cutegen.planning.targets import SECTOR, WARP

THREADS = 256
_WARPS = "a warp along the contiguous mode, 8 warps"
ROWS = 4  # accesses of a thread in the default value layout: enough in flight to hide memory latency


def resolve(spec: KernelSpec, report: Report) -> KernelSpec:
    """The same kernel with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    assert isinstance(spec.schedule, ElementwiseSchedule)
    schedule = spec.schedule
    if schedule.partition is None:
        schedule = replace(schedule, partition=_partition(schedule))
        why = "the general form" if schedule.partition == "thread_value" else "the one that takes the keys given"
        report.infer(why, "schedule", "partition")
    if schedule.scheduler.raster is None:
        schedule = replace(schedule, scheduler=Scheduler(raster=spec.output.major))
        why = f"{spec.output.name} is contiguous along it: blocks that run together touch the same pages of memory"
        report.infer(why, "schedule", "scheduler", "raster")
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    widest = widest_vector(spec)
    if schedule.copy.bits is not None:
        widest = min(widest, max(1, schedule.copy.bits // _widest_bits(spec)))
    match schedule.partition:
        case "inner":
            schedule = _infer_inner(spec, schedule, report, widest)
        case "inner_outer":
            schedule = _infer_inner_outer(spec, schedule, report, widest)
        case _:
            schedule = _infer_thread_value(spec, schedule, report, widest)
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)
    spec = replace(spec, schedule=_infer_copy(spec, schedule, report))
    return _infer_predication(spec, report)


def _partition(schedule: ElementwiseSchedule) -> Partition:
    """The partition that reads every key that was written."""
    if schedule.threads is not None or (schedule.tiler is not None and schedule.thread_layout is None):
        return "inner"
    return "thread_value" if schedule.tiler is None else "inner_outer"


def whole_tensors(spec: KernelSpec) -> list[Tensor]:
    """Tensors with all modes of the output: they are most of the traffic, and set the width of an access."""
    return [t for t in spec.tensors if len(t.shape) == len(spec.output.shape)]


def widest_tensor(spec: KernelSpec) -> Tensor:
    """Of the widest element type among `whole_tensors`: one access to it is `copy.bits` wide."""
    return max(whole_tensors(spec), key=lambda t: t.dtype.bits)


def _widest_bits(spec: KernelSpec) -> int:
    return widest_tensor(spec).dtype.bits


def widest_vector(spec: KernelSpec) -> int:
    """Elements that one access may move, for the output and all whole tensors that are contiguous where it is."""
    along = [t for t in whole_tensors(spec) if t.major == spec.output.major]
    by_alignment = min(aligned_elements(tensor) for tensor in along)
    return min(by_alignment, max(1, 128 // _widest_bits(spec)), whole_accesses(spec, spec.output.major))


def _major_index(spec: KernelSpec) -> int:
    assert spec.output.major is not None
    return spec.output.shape.index(spec.output.major)


def _along_major(spec: KernelSpec, along: int, next_: int) -> tuple[int, ...]:
    """A shape over the output's modes: `along` the contiguous mode, `next_` along the slowest other one."""
    rank, major = len(spec.output.shape), _major_index(spec)
    shape = [1] * rank
    shape[major] = along
    if rank > 1:
        shape[_beside(spec)] = next_
    return tuple(shape)


def _infer_inner(spec: KernelSpec, schedule: ElementwiseSchedule, report: Report, widest: int) -> ElementwiseSchedule:
    if schedule.tiler is None:
        tile = _along_major(spec, widest, 1)
        schedule = replace(schedule, tiler=dict(zip(spec.output.shape, tile, strict=True)))
        report.infer(f"one access of {widest} elements", "schedule", "tiler")
    schedule = _complete_tiler(spec, schedule, report, (1,) * len(spec.output.shape))
    if schedule.threads is None:
        schedule = replace(schedule, threads=THREADS)
        report.infer("8 warps", "schedule", "threads")
    return schedule


def _infer_inner_outer(
    spec: KernelSpec, schedule: ElementwiseSchedule, report: Report, widest: int
) -> ElementwiseSchedule:
    run = dealt_run(spec, schedule)
    if schedule.thread_layout is None:
        shape = _along_major(spec, *_dealt_to(spec, schedule.tiler or {}, run))
        schedule = replace(schedule, thread_layout=layouts.ordered(shape, _major_index(spec)))
        why = "as many as the tiler has work for, a warp along the contiguous mode" if schedule.tiler else _WARPS
        report.infer(why, "schedule", "thread_layout")
    if schedule.tiler is None:
        assert schedule.thread_layout is not None
        share = _along_major(spec, max(8, widest) if run > 1 else 8, ROWS)
        extents = [t * s for t, s in zip(layouts.mode_sizes(schedule.thread_layout), share, strict=True)]
        schedule = replace(schedule, tiler=dict(zip(spec.output.shape, extents, strict=True)))
        report.infer(f"{prod(share)} elements a thread", "schedule", "tiler")
    assert schedule.thread_layout is not None
    least = list(layouts.mode_sizes(schedule.thread_layout))
    least[_major_index(spec)] *= run
    return _complete_tiler(spec, schedule, report, least, run)


def _dealt_to(spec: KernelSpec, tiler: Mapping[str, int], run: int) -> tuple[int, int]:
    """Threads along the contiguous mode, and along the one beside it, that deal out a tile in runs of `run`.

    A warp and 8 of them, as far as what the tiler says is a multiple of them.
    """
    if len(spec.output.shape) == 1:
        return _share(tiler.get(spec.output.shape[0], THREADS * run) // run, THREADS), 1
    major, beside = str(spec.output.major), spec.output.shape[_beside(spec)]
    runs, rows = tiler.get(major, WARP * run) // run, tiler.get(beside, THREADS // WARP)
    across = _share(rows, THREADS // _share(runs, WARP))
    return _share(runs, THREADS // across), across


def _share(extent: int, most: int) -> int:
    """The largest divisor of `extent` up to `most`; 1 if there is nothing to divide."""
    return next((n for n in range(min(extent, most), 0, -1) if extent % n == 0), 1)


def _rows_of_a_warp(spec: KernelSpec, schedule: ElementwiseSchedule) -> tuple[int, str]:
    """Along the mode beside the contiguous one, and the input for which there are more than one.

    An input that is contiguous there fills a sector only with what several threads read in a column.
    """
    if len(spec.output.shape) == 1:
        return 1, ""
    beside = _beside(spec)
    turned = [t for t in whole_tensors(spec) if t.reads and t.major == spec.output.shape[beside]]
    if not turned:
        return 1, ""
    values = layouts.mode_sizes(schedule.value_layout)[beside] if schedule.value_layout is not None else ROWS
    narrow = min(turned, key=lambda t: t.dtype.bytes)
    return min(THREADS // WARP, max(1, SECTOR // (values * narrow.dtype.bytes))), narrow.name


def _beside(spec: KernelSpec) -> int:
    """Of the modes that the output is not contiguous along, the slowest: where a thread's rows are."""
    return next(i for i in reversed(range(len(spec.output.shape))) if i != _major_index(spec))


def _complete_tiler(
    spec: KernelSpec, schedule: ElementwiseSchedule, report: Report, least: Sequence[int], run: int = 1
) -> ElementwiseSchedule:
    """Modes that the tiler leaves out get the least extent, one element a thread; `run` along the contiguous mode."""
    assert schedule.tiler is not None
    tiler = {}
    for mode, extent in zip(spec.output.shape, least, strict=True):
        if mode not in schedule.tiler:
            own = f"one access of {run} elements" if run > 1 and mode == spec.output.major else "one element"
            report.infer(f"{own} a thread", "schedule", "tiler", mode)
        tiler[mode] = schedule.tiler.get(mode, extent)
    return replace(schedule, tiler=tiler)


def _infer_thread_value(
    spec: KernelSpec, schedule: ElementwiseSchedule, report: Report, widest: int
) -> ElementwiseSchedule:
    rank, major = len(spec.output.shape), _major_index(spec)
    if schedule.thread_layout is None:
        rows, turned = _rows_of_a_warp(spec, schedule)
        shape = _along_major(spec, THREADS if rank == 1 else WARP // rows, THREADS // WARP * rows)
        schedule = replace(schedule, thread_layout=layouts.ordered(shape, major))
        why = f"{rows} rows of {WARP // rows} a warp, so that it fills the sectors of {turned}, 8 warps"
        report.infer(why if rows > 1 else _WARPS, "schedule", "thread_layout")
    if schedule.value_layout is None:
        shape = _along_major(spec, widest, ROWS)
        schedule = replace(schedule, value_layout=layouts.ordered(shape, major))
        report.infer(f"{ROWS if rank > 1 else 1} accesses of {widest} elements", "schedule", "value_layout")
    return schedule


def dealt_run(spec: KernelSpec, schedule: ElementwiseSchedule) -> int:
    """Neighbours along the output's contiguous mode that the threads of inner_outer deal out together.

    One access, if the spec says how wide that is; else single elements.
    """
    if schedule.partition != "inner_outer" or schedule.copy.bits is None:
        return 1
    return max(1, schedule.copy.bits // _widest_bits(spec))


def contiguous_run(spec: KernelSpec, schedule: ElementwiseSchedule) -> int:
    """Elements along the output's contiguous mode that a thread owns in a row, first in its order of values.

    For inner_outer those that it may own: the largest power of two in its share of the tiler.
    """
    major = _major_index(spec)
    match schedule.partition:
        case "inner":
            assert schedule.tiler is not None
            extent = schedule.tiler[spec.output.shape[major]]
            return extent & -extent
        case "inner_outer":
            if schedule.copy.bits is None:
                return 1
            share = shares(spec, schedule)[major]
            return share & -share
    assert schedule.thread_layout is not None and schedule.value_layout is not None
    tiler, tv = make_layout_tv(schedule.thread_layout, schedule.value_layout)
    values = layouts.offsets(layouts.modes_of(tv)[1])
    return layouts.run_along([layouts.coordinates(value, tiler) for value in values], major)


def shares(spec: KernelSpec, schedule: ElementwiseSchedule) -> list[int]:
    """Elements of a thread along each mode of an inner_outer tiler, rounded down where it does not divide."""
    assert schedule.tiler is not None and schedule.thread_layout is not None
    sides = layouts.mode_sizes(schedule.thread_layout)
    return [schedule.tiler[mode] // side for mode, side in zip(spec.output.shape, sides, strict=True)]


def _infer_copy(spec: KernelSpec, schedule: ElementwiseSchedule, report: Report) -> ElementwiseSchedule:
    copy = schedule.copy
    if copy.atom is None:
        copy = replace(copy, atom="universal")
        report.infer("registers to and from global memory", "schedule", "copy", "atom")
    if copy.bits is None:
        vector = min(contiguous_run(spec, schedule), widest_vector(spec))
        copy = replace(copy, bits=vector * _widest_bits(spec))
        why = "the contiguous run of a thread, and the tensors' alignment"
        if schedule.partition == "inner_outer":
            why = "one element: the threads deal out what one access moves"
        report.infer(why, "schedule", "copy", "bits")
    if copy.evict_priority is None:
        copy = replace(copy, evict_priority="evict_normal")
        report.infer("the hardware's own", "schedule", "copy", "evict_priority")
    return replace(schedule, copy=copy)


def vector_of(spec: KernelSpec) -> int:
    """Elements of one access, the same for all whole tensors that are contiguous where the output is."""
    assert isinstance(spec.schedule, ElementwiseSchedule) and spec.schedule.copy.bits is not None
    return max(1, spec.schedule.copy.bits // _widest_bits(spec))


def block_tile(spec: KernelSpec) -> dict[str, int]:
    """The extent of a thread block's tile along each mode; for inner, of one thread's."""
    assert isinstance(spec.schedule, ElementwiseSchedule)
    schedule = spec.schedule
    if schedule.partition == "thread_value":
        assert schedule.thread_layout is not None and schedule.value_layout is not None
        threads = layouts.mode_sizes(schedule.thread_layout)
        values = layouts.mode_sizes(schedule.value_layout)
        return {m: t * v for m, t, v in zip(spec.output.shape, threads, values, strict=True)}
    assert schedule.tiler is not None
    return {m: schedule.tiler[m] for m in spec.output.shape}


def tile_order(spec: KernelSpec) -> tuple[int, ...]:
    """Modes of the output in the order in which consecutive tiles are walked, fastest first.

    The raster's mode, then the contiguous one, then the others from the last to the first. Tiles are a thread's for
    the partition inner, a block's else.
    """
    raster = spec.schedule.scheduler.raster  # type: ignore[union-attr]
    first = [] if raster is None else [spec.output.shape.index(raster)]
    return tuple(dict.fromkeys([*first, *_value_order(spec)]))


def _value_order(spec: KernelSpec) -> tuple[int, ...]:
    """Modes of the output in the order of a thread's own values, the contiguous one first."""
    return tuple(dict.fromkeys([_major_index(spec), *reversed(range(len(spec.output.shape)))]))


def _infer_predication(spec: KernelSpec, report: Report) -> KernelSpec:
    assert isinstance(spec.schedule, ElementwiseSchedule)
    schedule = spec.schedule
    vector, major, tile = vector_of(spec), spec.output.major, block_tile(spec)
    assert major is not None
    predication = dict(spec.schedule.predication)
    spec = require_divisible(spec, report, major, vector, f"accesses of {vector} elements along {major}")
    slowest = tile_order(spec)[-1]
    for index, mode in enumerate(spec.output.shape):
        if mode not in predication and schedule.partition == "inner" and index == slowest:
            predication[mode] = "mask"
            why = "the last block may have more threads than there are tiles left"
            report.infer(why, "schedule", "predication", mode)
        elif mode not in predication:
            predication[mode] = default_predication(spec, report, mode, tile[mode], "mask")
        if predication[mode] == "none":
            why = f"predication of {mode} is none and its tile is {tile[mode]}"
            spec = require_divisible(spec, report, mode, tile[mode], why)
    ordered = {mode: predication[mode] for mode in spec.output.shape}
    return replace(spec, schedule=replace(schedule, predication=ordered))


# ------------------------------------------------------------------------------------------------------- plan


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
            value_layout = layouts.walk(tiler, _value_order(spec))
            first = next((i for i, extent in enumerate(tiler) if extent > 1), 0)
            if first == _major_index(spec) or values == 1:
                value_layout = None
            check_threads = output.shape[order[-1]] not in masked
            # A mode with one tile by its fixed size has stride 0 there: its coordinate never leaves the bounds.
            slowest = output.shape[order[-1]]
            guard_tiles = not check_threads and spec.static.get(slowest, tile[slowest] + 1) <= tile[slowest]
        case "inner_outer":
            assert schedule.thread_layout is not None
            threads = int(size(schedule.thread_layout))
            values = prod(shares(spec, schedule))
            run = _along_major(spec, vector, 1) if vector > 1 else None
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
