"""Infers the fields that were left out of a row kernel's schedule."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from cutegen.analysis.words import count
from cutegen.atoms.targets import CLUSTER_TARGETS, WARP
from cutegen.families.common.narrowing import infer_fallback
from cutegen.families.common.planning import default_predication, require_divisible, resolve_tensors
from cutegen.families.rowwise.computing_inference import infer_math, infer_online
from cutegen.families.rowwise.flat import as_written, flat
from cutegen.families.rowwise.flat_inference import element_by_element, tell_promises
from cutegen.families.rowwise.holding import MOST, VALUES, good_share, held_values, loads_ahead, most_values
from cutegen.families.rowwise.rows import (
    MAX_CLUSTER,
    RESIDENT,
    SMS,
    THREADS,
    beside,
    cluster_of,
    fixed_for_all_rows,
    is_sound,
    longest,
    most_blocks,
    program,
    row_of,
    rows_with,
    sms_for,
    threads_of,
    vector_of,
    widest_tensor,
    widest_vector,
)
from cutegen.families.rowwise.schedule import Kind, Spec
from cutegen.families.rowwise.smem_inference import cluster_in_smem, infer_smem, walking_smem
from cutegen.families.rowwise.summed_inference import infer_summed
from cutegen.planning.report import Report
from cutegen.planning.sound import MAX_THREADS

INFERRED_FROM: Mapping[str, tuple[str, ...]] = {
    "keep": ("cluster", "threads_per_row", "tiler", "scheduler.kind", "scheduler.blocks", "copy.bits"),
    "cluster": ("keep", "threads_per_row", "tiler", "scheduler.kind", "scheduler.blocks", "pipeline.stages"),
    "online": ("keep", "longer"),
    "tiler": ("threads_per_row", "keep", "copy.bits", "cluster", "shorter"),
    "threads_per_row": ("keep", "tiler", "copy.bits", "cluster", "shorter"),
    "shorter": ("keep", "tiler", "threads_per_row", "cluster", "scheduler.kind", "scheduler.blocks"),
    "longer": ("keep", "tiler", "threads_per_row", "cluster", "scheduler.kind", "scheduler.blocks", "shorter"),
}
EXACT, FEW, LEAST = 32, 24, 16  # of whole warps at most, with several tensors that are the same for all rows, at least
PIECE = 4  # accesses of a thread to a tensor for one piece of a row: enough in flight to hide memory latency
WAVES = 4  # blocks of any size on each, of other persistent kernels
FEWEST = 3 * WARP  # of a block whose launch chooses how many it has, of rows that are not short
LONG = 128  # threads of a row whose length is not known
LONG_STATIC = 512  # of one whose length is known, and too long to be held
MOST_REDUCTIONS = 2  # of a kernel with clusters: a cross entropy, which has four, was faster walked


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of the schedule filled in."""
    found = as_written(_resolve(flat(spec), report))
    tell_promises(spec, found, report)
    return found


def _resolve(spec: Spec, report: Report) -> Spec:
    row = row_of(spec)
    if (cluster_of(spec) > 1 or spec.schedule.keep == "smem") and not spec.targets:
        spec = replace(spec, targets=CLUSTER_TARGETS)
        what = "clusters of thread blocks" if cluster_of(spec) > 1 else "bulk copies"
        report.infer(f"{what} came with Hopper", "targets")
    spec = resolve_tensors(spec, report, {t.name: row for t in spec.tensors if row in t.shape})
    spec = element_by_element(spec, report)
    if not is_sound(spec):
        return spec  # lint says why
    spec = _infer_copy(spec, report)
    spec = infer_summed(spec, report)
    spec = infer_smem(spec, report)
    spec = cluster_in_smem(spec, report) if spec.schedule.keep == "smem" else _infer_cluster(spec, report)
    spec = _infer_keep(spec, report)
    spec = infer_online(spec, report)
    spec = infer_math(spec, report)
    spec = _infer_threads(spec, report)
    spec = _infer_tiler(spec, report)
    if not is_sound(spec):
        return spec
    spec = _infer_scheduler(spec, report)
    spec = infer_fallback(spec, report, row, vector_of(spec), _guarded(spec, row))
    return _infer_predication(spec, report)


def _infer_scheduler(spec: Spec, report: Report) -> Spec:
    walk = spec.schedule.scheduler
    if walk.kind is None:
        columns, meetings = program(spec).columns, program(spec).meetings
        kind: Kind = "persistent"
        if columns:
            why = f"{columns[0].tensor} is reduced over the rows"
        elif walk.blocks is not None:
            why = "`blocks` sets their number"
        elif spec.taken:
            kind, why = "grid", "each block looks up the places of its rows"
        elif cluster_of(spec) > 1 and _is_whole(spec) and (meetings == 1 or loads_ahead(spec)):
            why = "a cluster loads its next rows while its blocks wait for each other"
        else:
            kind, why = "grid", "blocks are independent of other rows"
        walk = replace(walk, kind=kind)
        report.infer(why, "schedule", "scheduler", "kind")
    if walk.kind == "persistent" and walk.blocks is None:
        columns, blocks = program(spec).columns, cluster_of(spec)
        fewer, sms = spec.schedule.fewer_threads, sms_for(blocks) if columns else SMS
        unit, sms = (MAX_CLUSTER, SMS) if fewer and blocks > 1 else (blocks, sms)  # a launch has as many as run at once
        each = max(1, RESIDENT // (FEWEST if fewer else max(WARP, threads_of(spec)))) if columns else WAVES
        walk = replace(walk, blocks=sms * each // unit * unit)
        why = f"{each} for each of the {SMS} multiprocessors of an H200"
        if columns:
            why += "; the same on every GPU, so that sums are"
        report.infer(why, "schedule", "scheduler", "blocks")
    pipeline = spec.schedule.pipeline
    if pipeline.stages is None and walk.kind == "persistent" and spec.schedule.keep == "registers":
        pipeline = replace(pipeline, stages=2)
        report.infer("the next rows are loaded while a block computes", "schedule", "pipeline", "stages")
    if walk.raster is None and (mode := beside(spec)) is not None:
        walk = replace(walk, raster=mode)
        report.infer("concurrent rows are neighbours in memory", "schedule", "scheduler", "raster")
    return replace(spec, schedule=replace(spec.schedule, scheduler=walk, pipeline=pipeline))


def _infer_copy(spec: Spec, report: Report) -> Spec:
    copy = spec.schedule.copy
    if copy.atom is None:
        copy = replace(copy, atom="universal")
        report.infer("registers to and from global memory", "schedule", "copy", "atom")
    if copy.bits is None:
        vector = widest_vector(spec)
        if (tiler := spec.schedule.tiler) and row_of(spec) in tiler:
            share = tiler[row_of(spec)] // (spec.schedule.threads_per_row or 1)
            vector = min(vector, max(1, share & -share))
        copy = replace(copy, bits=vector * widest_tensor(spec).dtype.bits)
        report.infer("the tensors' alignment, and the row's length", "schedule", "copy", "bits")
    if copy.evict_priority is None:
        copy = replace(copy, evict_priority="evict_normal")
        report.infer("the hardware's default", "schedule", "copy", "evict_priority")
    return replace(spec, schedule=replace(spec.schedule, copy=copy))


def _infer_cluster(spec: Spec, report: Report) -> Spec:
    """A row of fixed size has as many blocks as hold a good share of it each, where all targets have clusters."""
    schedule, row = spec.schedule, row_of(spec)
    size, most = spec.static.get(row), most_blocks(spec)
    if schedule.cluster is not None or size is None or schedule.keep == "reload" or row in (schedule.tiler or {}):
        return spec
    share, blocks = good_share(spec, size, most), 1
    while blocks < most and -(-size // blocks) > share:
        blocks *= 2
    if blocks == 1 or (schedule.threads_per_row or WARP) < WARP or len(program(spec).reductions) > MOST_REDUCTIONS:
        return spec
    report.infer(f"a block has {share} of {size} at most", "schedule", "cluster")
    return replace(spec, schedule=replace(schedule, cluster={row: blocks}))


def _is_whole(spec: Spec) -> bool:
    """Whether a row of fixed size, which is held, needs no masks."""
    row = row_of(spec)
    return spec.schedule.keep == "registers" and spec.static.get(row, 1) % _guarded(spec, row) == 0


def _infer_keep(spec: Spec, report: Report) -> Spec:
    schedule = spec.schedule
    row = row_of(spec)
    if schedule.keep is not None or _adapts(spec):
        return _infer_lengths(spec, report)
    size, blocks = spec.static.get(row), cluster_of(spec)
    most = f"{MAX_THREADS} threads" if blocks == 1 else f"{blocks} blocks of {MAX_THREADS} threads"
    if size is None:
        keep, why = "reload", f"{row} may have any length"
    elif -(-size // (MAX_THREADS * blocks)) > most_values(spec, MAX_THREADS):
        keep, why = "reload", f"a row of {size} is too long for {most}"
    else:
        keep, why = "registers", f"{most} hold a row of {size} at most"
    if (tiler := schedule.tiler or {}).get(row) is not None and size is not None and keep == "registers":
        whole = tiler[row] * blocks
        keep, why = ("registers", why) if whole >= size else ("reload", f"the tiler has {whole} of {size}")
    report.infer(why, "schedule", "keep")
    return replace(spec, schedule=replace(schedule, keep="registers" if keep == "registers" else "reload"))


def _adapts(spec: Spec) -> bool:
    """Whether every launch gives a row the fewest threads that hold it: if neither their number nor anything that
    depends on it is written.
    """
    schedule, row = spec.schedule, row_of(spec)
    if row in spec.static or schedule.fewer_threads:
        return schedule.fewer_threads
    if schedule.shorter is None and schedule.longer == "reload":
        return True  # which goes with that
    if cluster_of(spec) > 1 or program(spec).columns:
        return False
    if schedule.scheduler.kind == "persistent" or schedule.scheduler.blocks is not None:
        return False
    return schedule.shorter is None and not schedule.threads_per_row and not schedule.tiler


def _infer_lengths(spec: Spec, report: Report) -> Spec:
    """Infers `shorter` and `longer`, the treatment of rows that are shorter or longer than a block holds, where rows of
    several lengths are held. A `keep` that is left out becomes `registers`.
    """
    schedule, row = spec.schedule, row_of(spec)
    if schedule.keep is None:
        schedule = replace(schedule, keep="registers")
        why = "may have any length, and a block holds most rows" if row not in spec.static else "is held whole"
        report.infer(f"{row} {why}", "schedule", "keep")
    if schedule.keep != "registers" or row in spec.static:
        return replace(spec, schedule=schedule)
    if schedule.shorter is None:
        fewer = _adapts(spec)
        schedule = replace(schedule, shorter="fewer_threads" if fewer else "mask")
        why = f"{row} determines the threads per row" if fewer else "the number of threads per row is written"
        report.infer(why, "schedule", "shorter")
    if schedule.longer is None:
        any_length = schedule.fewer_threads and not program(spec).columns
        schedule = replace(schedule, longer="reload" if any_length else "refuse")
        why = "rows of any length are accepted" if any_length else "a row is held whole"
        report.infer(why, "schedule", "longer")
    return replace(spec, schedule=schedule)


def _infer_threads(spec: Spec, report: Report) -> Spec:
    """Of a row of fixed size as few threads as hold it, at least a warp where it has as many accesses."""
    schedule, row = spec.schedule, row_of(spec)
    if schedule.threads_per_row is not None:
        return spec
    length = (schedule.tiler or {}).get(row) or _share(spec)
    if schedule.keep == "smem" and length is not None and row not in (schedule.tiler or {}):
        threads, why = walking_smem(spec, length)[0], "for a piece of the row in shared memory"
    elif schedule.fewer_threads:
        threads, why = MOST, "of the longest rows that a block holds"
        held, most, length = held_values(spec) * cluster_of(spec), longest(spec), (schedule.tiler or {}).get(row)
        least = 1 if cluster_of(spec) == 1 else WARP
        while threads > least and most is not None and threads // 2 * held >= most and not length:
            threads //= 2
        while threads > 1 and length and length % (threads * vector_of(spec)) and 2 * length <= threads * VALUES:
            threads //= 2
    elif length is None or (schedule.keep == "reload" and row not in (schedule.tiler or {})):
        threads, what = (LONG, "rows of any length") if length is None else (LONG_STATIC, "long rows")
        why = f"{threads // WARP} warps for {what}"
    else:
        accesses = -(-length // vector_of(spec))
        threads = min(WARP, 1 << (accesses.bit_length() - 1)) if accesses else 1
        while threads < MAX_THREADS and -(-length // threads) > most_values(spec, threads):
            threads *= 2
        if row in (schedule.tiler or {}):
            while threads > 1 and length % (threads * vector_of(spec)):
                threads //= 2
        elif cluster_of(spec) == 1 and threads >= WARP and not program(spec).columns:
            threads = _whole_warps(spec, length, threads)
        if cluster_of(spec) > 1:
            threads = max(WARP, threads)
        why = f"a thread holds {-(-length // threads)} of {length}"
    report.infer(why, "schedule", "threads_per_row")
    return replace(spec, schedule=replace(schedule, threads_per_row=threads))


def _whole_warps(spec: Spec, length: int, threads: int) -> int:
    """The fewest whole warps that hold a row without masks, and few values each; where none do as many as a launch for
    rows of any size has, with some idle. `threads` are as many as a power of two has that hold it.
    """
    several, vector = len(fixed_for_all_rows(spec)) > 1, vector_of(spec)
    most = FEW if several and length <= MOST * LEAST else EXACT
    if length in (threads * EXACT, *(threads * n for n in range(vector, most + 1, vector))):
        return threads
    fewest = -(-length // (most * WARP)) * WARP
    whole = (n for n in range(fewest, length // LEAST + 1, WARP) if length % (n * vector) == 0)
    found = next(whole, -(-length // (EXACT * WARP)) * WARP)
    return found if found <= MAX_THREADS else threads


def _share(spec: Spec) -> int | None:
    """Elements of a row that each of the blocks sharing it has, rounded up: of a row of fixed size, or of the longest
    row where rows wait in shared memory. None where that size is not known.
    """
    size = longest(spec) if spec.schedule.keep == "smem" else spec.static.get(row_of(spec))
    return None if size is None else -(-size // cluster_of(spec))


def _guarded(spec: Spec, mode: str) -> int:
    """The divisor of a size without a guard on its mode: the extent of a block, or of a cluster along a row."""
    extent = (spec.schedule.tiler or {})[mode]
    return extent * cluster_of(spec) if mode == row_of(spec) and spec.schedule.keep == "registers" else extent


def _infer_tiler(spec: Spec, report: Report) -> Spec:
    schedule, row = spec.schedule, row_of(spec)
    threads = schedule.threads_per_row
    assert threads is not None
    tiler = dict(schedule.tiler or {})
    for mode in spec.lead.shape:
        if mode in tiler:
            continue
        if schedule.fewer_threads:
            held = held_values(spec)
            several = rows_with(spec, threads) if mode == beside(spec) else 1
            tiler[mode] = threads * held if mode == row else several
            why = f"{count(held, 'value')} of each thread" if mode == row else "of the longest rows"
        elif mode == row:
            unit = threads * vector_of(spec)
            if schedule.keep == "smem" and (share := _share(spec)) is not None:
                times = walking_smem(spec, share)[1] // vector_of(spec)
                tiler[row], why = unit * times, f"{count(times, 'access')} of each thread"
            elif schedule.keep == "registers" and row in spec.static:
                tiler[row], why = -(-(_share(spec) or 1) // unit) * unit, "the whole row"
                if (blocks := cluster_of(spec)) > 1:
                    why = f"the row's share of one of {blocks} blocks"
            else:
                many = threads == LONG_STATIC and not program(spec).columns
                times = PIECE if many else max(1, PIECE * LONG // max(LONG, threads))
                tiler[row], why = unit * times, f"{count(times, 'access')} of each thread"
        elif mode == beside(spec):
            tiler[mode] = 1 if schedule.keep == "smem" else max(1, THREADS // threads)
            why = f"{tiler[mode] * threads} threads"
        else:
            tiler[mode], why = 1, "rows lie along the adjacent mode"
        report.infer(why, "schedule", "tiler", mode)
    return replace(spec, schedule=replace(schedule, tiler={mode: tiler[mode] for mode in spec.lead.shape}))


def _infer_predication(spec: Spec, report: Report) -> Spec:
    schedule, row = spec.schedule, row_of(spec)
    assert schedule.tiler is not None
    predication = dict(schedule.predication)
    for mode in spec.lead.shape:
        tile = _guarded(spec, mode)
        if mode not in predication and mode == beside(spec) and schedule.fewer_threads:
            predication[mode] = "mask"
            report.infer("a block has several short rows", "schedule", "predication", mode)
        elif mode not in predication and mode == row and schedule.keep == "registers" and row not in spec.static:
            predication[mode] = "mask"
            report.infer(f"rows may be shorter than the tile's {tile}", "schedule", "predication", mode)
        elif mode not in predication:
            predication[mode] = "none" if default_predication(spec, report, mode, tile) else "mask"
        if predication[mode] == "none":
            spec = require_divisible(spec, report, mode, tile, f"predication of {mode} is none and its tile is {tile}")
    ordered = {mode: predication[mode] for mode in spec.lead.shape}
    return replace(spec, schedule=replace(schedule, predication=ordered))
