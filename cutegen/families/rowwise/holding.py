"""How much of a row threads hold in registers, and blocks of a cluster a share of."""

from __future__ import annotations

from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.families.common.rules.limits import register_limit
from cutegen.families.rowwise.rows import (
    THREADS,
    along,
    cluster_of,
    is_fixed_for_all_rows,
    program,
    row_of,
    vector_of,
)
from cutegen.families.rowwise.schedule import RowwiseSchedule, Spec
from cutegen.planning.sound import MAX_THREADS

HELD = 128  # registers of a thread that the values of a row may take, of a block with few threads
VALUES = 40  # of each tensor that a thread holds at most: with more, too few threads wait for memory
IN_CLUSTERS, LOADING_AHEAD = 48, 64  # the same in clusters, and where those meet more than once and load ahead
SHARE = 4096  # elements of a row, of which blocks of a cluster have a few times as many: `_good_share`
COLUMNS_SHARE = 4096  # the same of kernels that sum over the rows
SUMMED = 16  # values of a thread that sums over the rows, of which one more is on the way
MOST = 512  # threads of a row that launches give as few as hold it


def good_share(spec: Spec, size: int, most: int) -> int:
    """Elements of a row of `size` that a block should have at most, of a cluster of `most` blocks at most.

    Blocks are small enough for several on a multiprocessor, so that some load while others wait for each other.
    """
    threads, planned = spec.schedule.threads_per_row, program(replace(spec, schedule=once(spec.schedule)))
    if threads is not None:
        return threads * most_values(spec, threads)
    if planned.columns:
        return min(COLUMNS_SHARE, max(COLUMNS_SHARE // 2, size // 2))
    if planned.meetings == 1:
        share = 6 * SHARE if size > 6 * SHARE else 4 * SHARE
    elif is_fixed_for_all_rows(spec):
        share = 4 * SHARE  # each block reads what is the same for all rows: fewer of them do
    elif size <= 3 * SHARE * most:
        share = 3 * SHARE
    else:
        share = 8 * SHARE if _is_power_of_two(size) else 4 * SHARE  # those of 8 are loaded ahead: `loads_ahead`
    return min(share, MAX_THREADS * most_values(spec, MAX_THREADS))


def _is_power_of_two(number: int) -> bool:
    return number & (number - 1) == 0


def loads_ahead(spec: Spec) -> bool:
    """Whether a cluster that meets more than once for a row loads the next one meanwhile.

    Few large shares are best for it where blocks load once what is the same for all rows, or where rows are longer than
    good shares of all blocks; of shares that are no power of two it was slower. Measured on an H200.
    """
    size, blocks = spec.static.get(row_of(spec)), cluster_of(spec)
    if size is None or size % blocks or not _is_power_of_two(size // blocks):
        return False
    planned = program(replace(spec, schedule=once(spec.schedule)))
    return planned.meetings > 1 and not planned.columns and (is_fixed_for_all_rows(spec) or size // blocks > 3 * SHARE)


def most_values(spec: Spec, threads: int) -> int:
    """Values of each element that a thread of so many holds at most: all that is read or computed of a row stays there,
    and what is stored next takes some more.
    """
    planned = program(replace(spec, schedule=once(spec.schedule)))
    named = [(one.value.dtype or Dtype.f32).bytes for walk in planned.walks for one in walk.elements]
    room = min(HELD, register_limit(max(threads, THREADS)) * 3 // 4)
    if planned.columns:
        held = sum(max(1, t.dtype.bytes // 4) for t in along(spec) if t.reads)
        most = 2 * room // (2 * (held + len(named)) + 1)
    else:
        whole = [t.dtype.bytes for t in along(spec) if t.reads and len(t.modes) == len(spec.lead.shape)]
        most = 4 * room // max(1, sum(whole) + sum(named))
    limit = VALUES
    if cluster_of(spec) > 1 and not planned.columns:
        limit = LOADING_AHEAD if loads_ahead(spec) else IN_CLUSTERS
    return max(vector_of(spec), min(limit, most))


def once(schedule: RowwiseSchedule) -> RowwiseSchedule:
    return replace(schedule, keep="registers")


def held_values(spec: Spec) -> int:
    """Values that each thread holds where launches choose how many share a row: whole accesses, twice, four times..."""
    held, most = vector_of(spec), most_values(spec, MOST)
    most = min(most, SUMMED) if program(spec).columns else most
    while 2 * held <= most:
        held *= 2
    return held
