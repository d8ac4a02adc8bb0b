"""The plan of a row kernel: what inference resolved, as the numbers that templates print."""

from __future__ import annotations

from collections.abc import Container
from dataclasses import replace
from math import prod

from cutegen.analysis.claims import compact
from cutegen.atoms.copies import MBARRIER
from cutegen.atoms.targets import WARP
from cutegen.families.common.planning import names_read, operand
from cutegen.families.common.pointwise import Operand
from cutegen.families.rowwise.flat import along_row, as_written, flat, partial_tensors
from cutegen.families.rowwise.plan import RowwisePlan, barriers_of
from cutegen.families.rowwise.rows import (
    THREADS,
    along,
    beside,
    cluster_of,
    fixed_for_all_rows,
    has_two_results,
    kept_bytes_of,
    kept_in_smem,
    program,
    row_of,
    rows_of,
    rows_with,
    slots_of,
    stages_of,
    statements_of,
    thread_values,
    threads_of,
    values_of,
    vector_of,
)
from cutegen.families.rowwise.schedule import Spec
from cutegen.language.model import Tensor
from cutegen.language.taken import indices

MOST_TILES = 2**31 - 1  # thread blocks that 32 bits can number


def plan(spec: Spec) -> RowwisePlan:
    """The plan of a resolved spec that passed its checks."""
    spec = flat(spec)
    schedule, modes, row = spec.schedule, spec.lead.shape, row_of(spec)
    assert schedule.tiler is not None and schedule.threads_per_row is not None and schedule.keep is not None
    statements = statements_of(spec)
    tiler = tuple(schedule.tiler[mode] for mode in modes)
    read = names_read(statements)
    planned = program(spec)
    columns = {column.tensor for column in planned.columns}
    counted = {mode: schedule.tiler[mode] for mode in modes if mode != row}
    fixed = all(mode in spec.static for mode in counted)
    most = MOST_TILES // cluster_of(spec)
    kept = tuple(tensor.name for tensor in kept_in_smem(spec))
    few = fixed and prod(-(-spec.static[mode] // extent) for mode, extent in counted.items()) <= most
    return RowwisePlan(
        spec=as_written(spec),
        threads=threads_of(spec),
        tile={mode: schedule.tiler[mode] for mode in modes},
        statements=statements,
        smem_bytes=smem_bytes(spec),
        row=row,
        beside=beside(spec),
        cluster=cluster_of(spec),
        keep=schedule.keep,
        kept=kept,
        slots=slots_of(spec) if kept else 0,
        row_stages=stages_of(spec),
        fewer_threads=schedule.fewer_threads,
        longer=plan(walking(spec)) if schedule.longer == "reload" else None,
        ahead=schedule.pipeline.stages == 2 and schedule.keep == "registers",
        tiler=tiler,
        rows=rows_of(spec),
        threads_per_row=schedule.threads_per_row,
        values=values_of(spec),
        vector=vector_of(spec),
        tv_layout=thread_values(spec, compact(tiler)),
        operands=tuple(_operand(spec, t.name, t.name in read) for t in along(spec) if t.name not in columns),
        row_tensors=_row_tensors(spec, read),
        partial=tuple(t.name for t in partial_tensors(spec) if t.name in read),
        masked=tuple(mode for mode in modes if schedule.predication[mode] == "mask"),
        tile_order=tuple(modes.index(mode) for mode in walk_order(spec)),
        program=planned,
        blocks=schedule.scheduler.blocks,
        most_tiles=None if few else most,
    )


def _row_tensors(spec: Spec, read: Container[str]) -> tuple[str, ...]:
    """The tensors that are read and do not lie along the rows: those of places first, which others are found by."""
    places = indices(spec.tensors)
    return (*places, *(t.name for t in spec.tensors if _is_of_row(spec, t) and t.name in read and t.name not in places))


def _is_of_row(spec: Spec, tensor: Tensor) -> bool:
    return row_of(spec) not in along_row(spec, tensor.shape)


def walking(spec: Spec) -> Spec:
    """The spec of the kernel for rows that no block holds: with all threads, in pieces of the tiler."""
    return replace(spec, schedule=replace(spec.schedule, keep="reload", longer=None))


def with_threads(spec: Spec, threads: int, values: int = 0) -> Spec:
    """The spec of a launch whose rows have so many threads each, and these so many values, by default as many as in
    `spec`; longer rows have other launches.
    """
    schedule, row = spec.schedule, row_of(spec)
    tiler = {mode: rows_with(spec, threads) if mode == beside(spec) else 1 for mode in spec.lead.shape}
    tiler[row] = threads * (values or values_of(spec))
    own = replace(schedule, threads_per_row=threads, tiler=tiler, longer="reload")
    return replace(spec, schedule=own)


def with_values(spec: Spec, values: int) -> Spec:
    """The spec of a launch whose threads have so many values of a row at a time each."""
    schedule, row = spec.schedule, row_of(spec)
    return replace(
        spec,
        schedule=replace(schedule, tiler={**(schedule.tiler or {}), row: values * (schedule.threads_per_row or 1)}),
    )


def walk_order(spec: Spec) -> tuple[str, ...]:
    """The modes of rows in the order in which consecutive blocks walk them, fastest first."""
    others = [mode for mode in reversed(spec.lead.shape) if mode != row_of(spec)]
    raster = spec.schedule.scheduler.raster
    return tuple(dict.fromkeys([*([raster] if raster in others else []), *others]))


def smem_bytes(spec: Spec) -> int:
    """Shared memory of what a block keeps of its row, with a barrier, and of the partial results of the warps that
    share a row, each reduction's and scan's from a multiple of 16 on.

    Every block of a cluster has those of all its blocks.
    """
    kept = {tensor.name for tensor in kept_in_smem(spec)}
    once = kept & {tensor.name for tensor in fixed_for_all_rows(spec)}
    share = kept_bytes(spec) + (stages_of(spec) + bool(once)) * MBARRIER if kept else 0
    if spec.schedule.fewer_threads and spec.schedule.keep == "registers":
        share += sum(THREADS * values_of(spec) * column.dtype.bytes for column in program(spec).columns)
    if (spec.schedule.threads_per_row or 1) <= WARP and cluster_of(spec) == 1:
        return share
    planned, blocks = program(spec), cluster_of(spec)
    warps = threads_of(spec) // WARP * blocks * (2 if has_two_results(spec) else 1)
    each, kinds = barriers_of(planned, blocks, spec.schedule.scheduler.blocks is not None)
    shared = [*(one.dtype for one in planned.reductions), *(one.dtype for one in planned.scans if one.dtype)]
    results = sum(-(-warps * dtype.bytes // 16) * 16 for dtype in shared)
    return -(-share // 16) * 16 + results + each * kinds * MBARRIER


def kept_bytes(spec: Spec) -> int:
    """Shared memory of the part of a row, or of two, that a block keeps there, of all tensors."""
    return slots_of(spec) * (spec.schedule.tiler or {})[row_of(spec)] * sum(kept_bytes_of(spec).values())


def _operand(spec: Spec, name: str, read: bool) -> Operand:
    """How a thread accesses a tensor along the rows. One that broadcasts is touched again, and stays in the cache."""
    tensor = spec.tensor(name)
    found = replace(operand(spec, tensor, vector_of(spec), read), converted=read and tensor.dtype.is_f8)
    priority = spec.schedule.copy.evict_priority
    assert priority is not None
    return found if found.broadcast else replace(found, evict_priority=priority)
