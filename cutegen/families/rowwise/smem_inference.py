"""Inference for rows that wait in shared memory: which do, and how many blocks and threads share one.

The constants were measured on an H200, over rows of 4096 to 262144 elements of 16 bits.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import KIB, WARP
from cutegen.families.rowwise.rows import (
    cluster_of,
    has_bulk_copies,
    has_exponentials,
    has_exponentials_above,
    is_fixed_for_all_rows,
    kept_bytes_of,
    longest,
    most_blocks,
    program,
    row_of,
    vector_of,
    whole_tensors,
)
from cutegen.families.rowwise.schedule import Spec
from cutegen.planning.report import Report

HELD = 32 * KIB  # bytes of all tensors' rows up to which registers hold them as well
LONG_SOFTMAX = 131072  # elements from which on it does where threads exchange once, and little but exponentials
PLAIN = 1024  # of which rows are a multiple that registers hold well
IN_SMEM = 32 * KIB  # of a tensor's row, that a block keeps: several blocks fit on a multiprocessor
MOST_IN_SMEM = 3 * IN_SMEM  # of the rows of all tensors


def infer_smem(spec: Spec, report: Report) -> Spec:
    """Long rows of fixed size wait in shared memory, where all targets have bulk copies and these bring all of it.

    Not where a schedule says how many share a row, or that blocks walk many rows.
    """
    schedule, row, walk = spec.schedule, row_of(spec), spec.schedule.scheduler
    written = (schedule.keep, schedule.cluster, schedule.threads_per_row, (schedule.tiler or {}).get(row))
    walks = walk.kind == "persistent" or walk.blocks is not None or schedule.pipeline.stages is not None
    size, smem = spec.static.get(row, 0), replace(spec, schedule=replace(schedule, keep="smem"))
    if any(one is not None for one in written) or walks or program(spec).columns or size < _long(spec):
        return spec
    if not all(has_bulk_copies(target) for target in spec.targets):
        return spec
    kept, blocks = kept_bytes_of(smem).values(), most_blocks(spec)
    if size * sum(kept) <= HELD:
        return spec
    if len(kept) < sum(t.reads for t in whole_tensors(spec)) or not kept:
        return spec
    if size * max(kept) > blocks * 2 * IN_SMEM or size * sum(kept) > blocks * 2 * MOST_IN_SMEM:
        return spec
    report.infer(f"a row of {size} is read once, by bulk copies", "schedule", "keep")
    return smem


def _long(spec: Spec) -> int:
    """Elements from which on a row waits in shared memory."""
    planned = program(replace(spec, schedule=replace(spec.schedule, keep="registers")))
    few = len(planned.reductions) <= 2 and len(planned.walks) <= 3
    softmax = has_exponentials_above(spec) and few and sum(t.reads for t in whole_tensors(spec)) == 1
    return LONG_SOFTMAX if softmax and spec.static.get(row_of(spec), 0) % PLAIN == 0 else 0


def cluster_in_smem(spec: Spec, report: Report) -> Spec:
    """A row that waits in shared memory has as many blocks as keep a good share of it each."""
    schedule, row, kept = spec.schedule, row_of(spec), kept_bytes_of(spec).values()
    size, most = longest(spec), most_blocks(spec)
    if schedule.cluster is not None or size is None or not kept or row in (schedule.tiler or {}):
        return spec
    blocks, alone = 1, 2 * size * max(kept) <= 3 * IN_SMEM  # one has half as much again, and spares an exchange
    while blocks < most and (size * max(kept) > blocks * IN_SMEM or size * sum(kept) > blocks * MOST_IN_SMEM):
        blocks *= 2
    if blocks == 1 or (alone and size * sum(kept) <= MOST_IN_SMEM):
        return spec
    why = f"a block keeps {IN_SMEM // KIB} KiB at most of a tensor's row"
    report.infer(why, "schedule", "cluster")
    return replace(spec, schedule=replace(schedule, cluster={row: blocks}))


def walking_smem(spec: Spec, share: int) -> tuple[int, int]:
    """Threads and their values for one piece of a block's share of a row in shared memory."""
    planned = program(spec)
    alone, once = cluster_of(spec) == 1, planned.meetings <= 1 and not any(r.around for r in planned.reductions)
    if has_exponentials(spec):
        threads, values, waste = 128, 32, 1.1
    elif alone:
        threads, values, waste = (512 if once and is_fixed_for_all_rows(spec) else 256), 16, 1.5
    else:
        threads, values, waste = 256 if once else 128, 32, 1.25
    written, vector = spec.schedule.threads_per_row, vector_of(spec)
    threads = written or threads

    def covered() -> int:
        """Elements that all pieces of one block cover, in the block that has the most pieces."""
        pieces = -(-share * cluster_of(spec) // (threads * values))
        return -(-pieces // cluster_of(spec)) * threads * values

    while values > vector and (3 * threads * values > 2 * share or covered() > waste * share):
        values //= 2
    values = max(values, vector)
    while written is None and threads > WARP and threads * values > share:
        threads //= 2
    return threads, values
