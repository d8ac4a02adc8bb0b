"""Infers what an elementwise kernel's schedule leaves out."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.atoms.targets import CACHE_LINE, SECTOR, WARP
from cutegen.families.common.narrowing import infer_fallback
from cutegen.families.common.planning import default_predication, require_divisible, resolve_tensors, turning_threads
from cutegen.families.elementwise.schedule import ElementwiseSchedule, Partition, Spec, Walk
from cutegen.families.elementwise.tiles import (
    along_major,
    beside_major,
    block_tile,
    contiguous_run,
    dealt_run,
    is_sound,
    major_index,
    tile_order,
    vector_of,
    whole_tensors,
    widest_bits,
    widest_vector,
)
from cutegen.families.elementwise.whole_blocks import refused
from cutegen.language.model import Tensor
from cutegen.planning.report import Report

THREADS = 256
_WARPS = "a warp along the contiguous mode, 8 warps"
INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("tiler", "threads", "thread_layout", "value_layout"), ("partition",)),
    "copy.bits": ("partition", "tiler", "thread_layout", "value_layout"),
}
ROWS = 4  # accesses of a thread in the default value layout: enough in flight to hide memory latency


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    spec = resolve_tensors(spec, report, {})
    schedule = spec.schedule
    if schedule.partition is None:
        schedule = replace(schedule, partition=_partition(schedule))
        why = "the general form" if schedule.partition == "thread_value" else "the one that takes the keys given"
        report.infer(why, "schedule", "partition")
    if schedule.scheduler.raster is None:
        schedule = replace(schedule, scheduler=Walk(raster=spec.lead.major))
        why = f"{spec.output.name} is contiguous along it: concurrent blocks access the same memory pages"
        report.infer(why, "schedule", "scheduler", "raster")
    if not is_sound(replace(spec, schedule=schedule)):
        return replace(spec, schedule=schedule)  # lint says why
    widest = widest_vector(spec)
    if schedule.copy.bits is not None:
        written = max(1, schedule.copy.bits // widest_bits(spec))
        widest = min(widest, written) if schedule.copy.fallback == "refuse" else written
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
    major = str(spec.lead.major)
    spec = infer_fallback(spec, report, major, vector_of(spec), block_tile(spec)[major])
    return _infer_predication(spec, report)


def _partition(schedule: ElementwiseSchedule) -> Partition:
    """The partition that reads every key that was written."""
    if schedule.threads is not None or (schedule.tiler is not None and schedule.thread_layout is None):
        return "inner"
    return "thread_value" if schedule.tiler is None else "inner_outer"


def _infer_inner(spec: Spec, schedule: ElementwiseSchedule, report: Report, widest: int) -> ElementwiseSchedule:
    if schedule.tiler is None:
        tile = along_major(spec, widest, 1)
        schedule = replace(schedule, tiler=dict(zip(spec.lead.shape, tile, strict=True)))
        report.infer(f"one access of {widest} elements", "schedule", "tiler")
    schedule = _complete_tiler(spec, schedule, report, (1,) * len(spec.lead.shape))
    if schedule.threads is None:
        schedule = replace(schedule, threads=THREADS)
        report.infer("8 warps", "schedule", "threads")
    return schedule


def _infer_inner_outer(spec: Spec, schedule: ElementwiseSchedule, report: Report, widest: int) -> ElementwiseSchedule:
    run = dealt_run(spec, schedule)
    if schedule.thread_layout is None:
        shape = along_major(spec, *_dealt_to(spec, schedule.tiler or {}, run))
        schedule = replace(schedule, thread_layout=layouts.row_major(shape, major_index(spec)))
        why = f"the largest divisor of the tiler, up to {THREADS}" if schedule.tiler else _WARPS
        report.infer(why, "schedule", "thread_layout")
    if schedule.tiler is None:
        assert schedule.thread_layout is not None
        share = along_major(spec, max(8, widest) if run > 1 else 8, ROWS)
        extents = [t * s for t, s in zip(layouts.mode_sizes(schedule.thread_layout), share, strict=True)]
        schedule = replace(schedule, tiler=dict(zip(spec.lead.shape, extents, strict=True)))
        report.infer(f"{prod(share)} elements a thread", "schedule", "tiler")
    assert schedule.thread_layout is not None
    least = list(layouts.mode_sizes(schedule.thread_layout))
    least[major_index(spec)] *= run
    return _complete_tiler(spec, schedule, report, least, run)


def _dealt_to(spec: Spec, tiler: Mapping[str, int], run: int) -> tuple[int, int]:
    """The threads along the contiguous mode, and along the one beside it, that deal out a tile in runs of `run`.

    They are a warp and 8 of them, as far as what the tiler says is a multiple of them.
    """
    if len(spec.lead.shape) == 1:
        return _share(tiler.get(spec.lead.shape[0], THREADS * run) // run, THREADS), 1
    major, beside = str(spec.lead.major), spec.lead.shape[beside_major(spec)]
    runs, rows = tiler.get(major, WARP * run) // run, tiler.get(beside, THREADS // WARP)
    across = _share(rows, THREADS // _share(runs, WARP))
    return _share(runs, THREADS // across), across


def _share(extent: int, most: int) -> int:
    """The largest divisor of `extent` up to `most`; 1 if there is nothing to divide."""
    return next((n for n in range(min(extent, most), 0, -1) if extent % n == 0), 1)


def _complete_tiler(
    spec: Spec, schedule: ElementwiseSchedule, report: Report, least: Sequence[int], run: int = 1
) -> ElementwiseSchedule:
    """The schedule with a tiler of all modes: those that it leaves out get the extents `least`.

    That is one element a thread, or `run` elements along the contiguous mode.
    """
    assert schedule.tiler is not None
    tiler = {}
    for mode, extent in zip(spec.lead.shape, least, strict=True):
        if mode not in schedule.tiler:
            own = f"one access of {run} elements" if run > 1 and mode == spec.lead.major else "one element"
            report.infer(f"{own} a thread", "schedule", "tiler", mode)
        tiler[mode] = schedule.tiler.get(mode, extent)
    return replace(schedule, tiler=tiler)


def _infer_thread_value(spec: Spec, schedule: ElementwiseSchedule, report: Report, widest: int) -> ElementwiseSchedule:
    rank, major = len(spec.lead.shape), major_index(spec)
    if schedule.thread_layout is None:
        turned = _turned(spec)
        if turned is None:
            sides, why = _dealt_threads(spec, widest)
            schedule = replace(schedule, thread_layout=layouts.row_major(sides, major))
            report.infer(why, "schedule", "thread_layout")
        else:
            layout, why = _patches(spec, schedule, turned, widest)
            schedule = replace(schedule, thread_layout=layout)
            report.infer(why, "schedule", "thread_layout")
    if schedule.value_layout is None:
        shape = along_major(spec, widest, ROWS)
        schedule = replace(schedule, value_layout=layouts.row_major(shape, major))
        report.infer(f"{ROWS if rank > 1 else 1} accesses of {widest} elements", "schedule", "value_layout")
    return schedule


def _dealt_threads(spec: Spec, widest: int) -> tuple[tuple[int, ...], str]:
    """How many threads a block has along each mode, and why: a warp along the contiguous one, and 8 warps along the
    slowest other one. Where a fixed size needs fewer of them, the next mode has more.
    """
    modes, major = spec.lead.shape, major_index(spec)
    if len(modes) == 1:
        return (THREADS,), _WARPS
    sides, left = [1] * len(modes), THREADS
    order = [major, *(i for i in reversed(range(len(modes))) if i != major)]
    for number, i in enumerate(order):
        each = widest if i == major else ROWS if number == 1 else 1
        size = spec.static.get(modes[i])
        most = WARP if i == major else left
        sides[i] = most if size is None else min(most, 1 << (max(1, -(-size // each)) - 1).bit_length())
        left //= sides[i]
        if left == 1 or (size is None and i != major):
            break
    sides[major] *= max(1, WARP // prod(sides))  # a whole warp, though some have nothing to do
    usual = along_major(spec, WARP, THREADS // WARP)
    return tuple(sides), _WARPS if tuple(sides) == usual else "as many along each mode as its fixed size needs"


def _turned(spec: Spec) -> Tensor | None:
    """The narrowest input that is contiguous along the mode beside the one along which the output is."""
    if len(spec.lead.shape) == 1:
        return None
    beside = spec.lead.shape[beside_major(spec)]
    turned = [t for t in whole_tensors(spec) if t.reads and t.runs_along(beside)]
    return min(turned, key=lambda t: t.dtype.bytes, default=None)


def _patches(spec: Spec, schedule: ElementwiseSchedule, turned: Tensor, widest: int) -> tuple[Layout, str]:
    """The threads of warps that are as long as a cache line of that input, 4 x 2 of them, and why.

    They are shorter where whole sectors of the output allow no more. On an H200 transposing 8192 x 8192 takes 11 % less
    so in f32 and in bf16 than with threads in rows, and 12 % less in f64. What broadcasts is left as it was: its
    sectors would be read by more warps.
    """
    major, beside, rank = major_index(spec), beside_major(spec), len(spec.lead.shape)
    along, values = widest, ROWS
    if schedule.value_layout is not None:
        sides = layouts.mode_sizes(schedule.value_layout)
        along, values = min(widest, sides[major]), sides[beside]
    row = values * turned.dtype.bytes  # bytes that a thread reads in a row
    sector = _power_of_two(min(THREADS // WARP, max(1, SECTOR // row)))
    if any(set(t.shape) != set(spec.lead.shape) for t in spec.tensors if t.reads):
        rows = along_major(spec, WARP // sector, THREADS // WARP * sector)
        return layouts.row_major(rows, major), f"{sector} rows of {WARP // sector} a warp, 8 warps"
    written = along * spec.output.dtype.bytes  # bytes that a thread writes in a row
    deep = _power_of_two(max(sector, min(CACHE_LINE // row, WARP * written // SECTOR, WARP)))
    shape: list[object] = [1] * rank
    stride: list[object] = [0] * rank
    for mode, threads in zip((major, beside), turning_threads(deep), strict=True):
        shape[mode], stride[mode] = threads.shape, threads.stride
    where = f"{WARP // deep} lanes of a warp along {spec.lead.major} and {deep} along {turned.major}"
    if deep * row % SECTOR == 0 and WARP // deep * written % SECTOR == 0:
        where += ", for whole sectors of both tensors"
    return Layout(tuple(shape), tuple(stride)), f"{where}; 8 warps"


def _power_of_two(least: int) -> int:
    """The largest power of two that is not above a number."""
    return 1 << (least.bit_length() - 1)


def _infer_copy(spec: Spec, schedule: ElementwiseSchedule, report: Report) -> ElementwiseSchedule:
    copy = schedule.copy
    if copy.atom is None:
        copy = replace(copy, atom="universal")
        report.infer("registers to and from global memory", "schedule", "copy", "atom")
    if copy.bits is None:
        vector = min(contiguous_run(spec, schedule), widest_vector(spec))
        copy = replace(copy, bits=vector * widest_bits(spec))
        why = "the contiguous run of a thread, and the tensors' alignment"
        if schedule.partition == "inner_outer":
            why = "one element: the threads share single accesses"
        report.infer(why, "schedule", "copy", "bits")
    if copy.evict_priority is None:
        copy = replace(copy, evict_priority="evict_normal")
        report.infer("the hardware's default", "schedule", "copy", "evict_priority")
    return replace(schedule, copy=copy)


def _infer_predication(spec: Spec, report: Report) -> Spec:
    schedule, tile = spec.schedule, block_tile(spec)
    predication = dict(spec.schedule.predication)
    slowest = tile_order(spec)[-1]
    for index, mode in enumerate(spec.lead.shape):
        if mode not in predication and schedule.partition == "inner" and index == slowest:
            predication[mode] = "mask"
            why = "the last block may have more threads than there are tiles left"
            report.infer(why, "schedule", "predication", mode)
        elif mode not in predication:
            whole = default_predication(spec, report, mode, tile[mode])
            predication[mode] = "none" if whole else "mask"
        if predication[mode] == "none":
            why = f"predication of {mode} is none and its tile is {tile[mode]}"
            spec = require_divisible(spec, report, mode, tile[mode], why)
    ordered = {mode: predication[mode] for mode in spec.lead.shape}
    resolved = replace(spec, schedule=replace(schedule, predication=ordered))
    if all(mode in spec.static for mode in spec.lead.shape) and (many := refused(resolved, spec.static)):
        slow = spec.lead.shape[slowest]
        note = f"predication of {slow} is none, so that all threads of a block have a tile"
        help = f"`{slow}: mask` guards the last block"
        report.say("CG220", f"the fixed sizes make {many}", "schedule", "predication", slow, notes=(note,), help=help)
    return resolved
