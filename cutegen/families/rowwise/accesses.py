"""Where a warp of a row kernel accesses memory together."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer, Scratch
from cutegen.atoms.copies import MBARRIER
from cutegen.families.common.pointwise import Operand
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import THREADS, has_two_results, thread_values


def accesses_of(plan: RowwisePlan) -> tuple[Access, ...]:
    """The accesses to the tensors along the rows: loads, of each walk over a row, then stores of all that are written.

    What has one element a row, and what goes through memory between blocks, is little beside that, and left out; so
    are bulk copies to shared memory, which one thread asks for.
    """
    read = [o for o in plan.operands if o.read]
    if plan.walked:
        read = [o for walk in plan.program.walks for o in plan.operands if o.tensor.name in walk.reads]
    loads = [_kept(plan, o) if o.tensor.name in plan.kept else _operand(plan, o, "read") for o in read]
    return (*loads, *(_operand(plan, o, "write") for o in plan.operands if o.write))


def _operand(plan: RowwisePlan, operand: Operand, kind: Literal["read", "write"]) -> Access:
    tensor = operand.tensor
    strides = strides_of(tensor, plan.flat.lead.shape, fixed_sizes(plan.flat, plan.tile))
    name = f"{tensor.name} {'from' if kind == 'read' else 'to'} global memory"
    path = ("schedule", "threads_per_row")
    layout = thread_values(plan.flat, strides)
    return Access(name, tensor.name, tensor.dtype, "global", kind, operand.vector, layout, path, plan.threads)


def _kept(plan: RowwisePlan, operand: Operand) -> Access:
    """The read of a piece of a row where it waits in shared memory."""
    tensor, path = operand.tensor, ("schedule", "threads_per_row")
    layout = thread_values(plan.flat, tuple(int(mode == plan.row) for mode in plan.flat.lead.shape))
    name = f"{tensor.name} from shared memory"
    return Access(name, tensor.name, tensor.dtype, "shared", "read", operand.vector, layout, path, plan.threads)


def buffers(plan: RowwisePlan) -> Iterator[Buffer]:
    """Yields the buffers in shared memory: the kept parts of rows, a block's sums over its rows, barriers, and for each
    reduction the partial results of all warps that share a row, in all blocks of a cluster.
    """
    extent = plan.slots * plan.tile[plan.row]
    for name in (operand.tensor.name for operand in plan.operands if operand.tensor.name in plan.kept):
        stages = 1 if name in plan.kept_once else plan.row_stages
        bytes_, what = extent * stages * plan.flat.tensor(name).dtype.bytes, "of the block's row"
        yield Buffer(name, extent, extent, 1, stages, bytes_, "of all rows" if name in plan.kept_once else what)
    if plan.kept:
        count = plan.row_stages + bool(plan.kept_once)
        yield Buffer("barrier" if count == 1 else "barriers", count, count, 1, 1, count * MBARRIER, "of the block")
    if plan.fewer_threads and not plan.walked:
        for column in plan.program.columns:
            held = THREADS * plan.values
            yield Buffer(column.tensor, held, held, 1, 1, held * column.dtype.bytes, "of a block with several rows")
    warps = plan.warps_per_row * plan.cluster
    turns = 2 if has_two_results(plan.flat) else 1
    for reduction in plan.program.reductions if warps > 1 else ():
        bytes_ = warps * plan.rows * turns * reduction.dtype.bytes
        yield Buffer(reduction.name, warps, warps, plan.rows, turns, bytes_, "of the block's rows")
    each, kinds = plan.barriers
    if each:
        yield Buffer("barriers", each, each, 1, kinds, each * kinds * MBARRIER, "of the cluster")


def scratch(plan: RowwisePlan) -> Iterator[Scratch]:
    """Yields the workspaces of outputs reduced over rows: one copy for each row that a block or cluster sums apart."""
    for column in plan.program.columns:
        rounded = ((plan.row, plan.column_unit),)
        yield Scratch(column.tensor, rounded, column.dtype.bytes, plan.column_rows)
