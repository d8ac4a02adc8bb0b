"""Infers how many blocks share a row in kernels with outputs reduced over the rows, if launches choose its threads.

Measured on an H100 and an H200, over rows of 64 to 262144 elements of 16 bits.
"""

from __future__ import annotations

from dataclasses import replace

from cutegen.atoms.targets import WARP
from cutegen.families.rowwise.holding import MOST, good_share, held_values
from cutegen.families.rowwise.rows import THREADS, most_blocks, program, row_of, widest_tensor, widest_vector
from cutegen.families.rowwise.schedule import RowCopy, RowwiseSchedule, Spec
from cutegen.planning.report import Report

CLUSTERS = (1, 2, 16)  # thread blocks that share a row, with a bound on its length for each


def summed_lengths(spec: Spec, most: int, alone: bool = False) -> dict[int, int]:
    """The longest rows that each number of blocks shares, `most` at most; `alone` if some rows have no cluster at all.

    One block has what a warp holds, where clusters may follow: the warps of two blocks, which meet at barriers of their
    own, wait less for each other than those of one.
    """
    copy = RowCopy(bits=widest_vector(spec) * widest_tensor(spec).dtype.bits)
    bare = replace(spec, schedule=RowwiseSchedule(copy=copy, shorter="fewer_threads", keep="registers"))
    found, values = {}, held_values(bare)
    for blocks in (count for count in CLUSTERS if count <= most):
        few = blocks == 1 and most > 1 and not alone
        found[blocks] = blocks * (WARP if few else MOST) * values
    return found


def infer_summed(spec: Spec, report: Report) -> Spec:
    """A row of fixed size has the threads that hold it, as in a kernel of any length, where no power of two does.

    Not where a schedule says what else depends on that number.
    """
    schedule, row = spec.schedule, row_of(spec)
    size, bare = spec.static.get(row), replace(schedule, copy=RowCopy())
    if size is None or bare != RowwiseSchedule() or not program(spec).columns or schedule.copy.bits is None:
        return spec
    most = most_blocks(spec)
    blocks = next((count for count, bound in summed_lengths(spec, most).items() if size <= bound), None)
    if blocks is None or blocks == _filled(spec, size, most):
        return spec
    report.infer(f"a row of {size} has the threads that hold it", "schedule", "shorter")
    schedule = replace(schedule, shorter="fewer_threads")
    if blocks > 1:
        report.infer(f"{blocks} blocks hold a row of {size} best", "schedule", "cluster")
        schedule = replace(schedule, cluster={row: blocks})
    return replace(spec, schedule=schedule)


def _filled(spec: Spec, size: int, most: int) -> int:
    """The blocks of a cluster that a row fills with a power of two of threads, which then need no masks; 0 if it fills
    none.
    """
    share, blocks, values = good_share(spec, size, most), 1, held_values(spec)
    while blocks < most and -(-size // blocks) > share:
        blocks *= 2
    threads, rest = divmod(size, blocks * values)
    return blocks if blocks > 1 and rest == 0 and threads >= THREADS and threads & (threads - 1) == 0 else 0
