"""Where a warp of the consumers accesses memory together, and what a block has of shared memory."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer
from cutegen.atoms.copies import MBARRIER
from cutegen.families.common.pointwise import Operand
from cutegen.families.gemm_warpspecialized.plan import Passing, WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import ROWS, WARPGROUP, accumulator_layout, row_layout
from cutegen.families.gemm_warpspecialized.shared_memory import moves_of, piece_of


def accesses_of(plan: WarpspecializedPlan) -> tuple[Access, ...]:
    """The accesses of the epilogue, in the order of the kernel: A and B are moved by the units of tensor maps, and read
    by the tensor cores.
    """
    found = []
    for o in plan.pointwise.operands:
        for kind in ("read", "write"):
            passed = plan.comes(o.tensor) if kind == "read" else plan.passes(o.tensor)
            if (o.read if kind == "read" else o.write) and not passed:
                found.append(_epilogue(plan, o, kind))
        found += [_shared(plan, x, "read") for x in plan.sources if x.tensor.name == o.tensor.name]
        found += [_shared(plan, x, "write") for x in plan.passing if x.tensor.name == o.tensor.name]
    return tuple(found)


def _epilogue(plan: WarpspecializedPlan, o: Operand, kind: Literal["read", "write"]) -> Access:
    strides = strides_of(o.tensor, (plan.m, plan.n), fixed_sizes(plan.spec, plan.tile))
    layout = accumulator_layout(plan.groups, plan.own_columns, (strides[0], strides[1]), plan.row_blocks)
    if plan.held(o):
        layout = row_layout(plan.groups, strides[0], plan.row_blocks)
    return Access(
        f"{o.tensor.name} {'from' if kind == 'read' else 'to'} global memory",
        o.tensor.name,
        o.tensor.dtype,
        "global",
        kind,
        o.vector,
        layout,
        ("schedule", "copies", plan.spec.output.name, "bits"),
    )


def _shared(plan: WarpspecializedPlan, x: Passing, kind: Literal["read", "write"]) -> Access:
    layout, vector = moves_of(plan, x)
    return Access(
        f"{x.tensor.name} {'from' if kind == 'read' else 'to'} shared memory",
        x.tensor.name,
        x.tensor.dtype,
        "shared",
        kind,
        vector,
        layout,
        ("schedule", "copies", x.tensor.name, "columns" if x.tensor.writes else "through"),
        swizzle=piece_of(plan, x).pattern,
    )


def buffers(plan: WarpspecializedPlan) -> Iterator[Buffer]:
    """The stages of A and B in shared memory, and the barriers that say which are full and which are empty."""
    assert plan.stages is not None
    depth = plan.tile[plan.k]
    for x in plan.sides:
        size = x.extent * depth * x.tensor.dtype.bytes * plan.stages
        along, other = (depth, x.extent) if x.k_major else (x.extent, depth)
        name = " and ".join(t.name for t in x.tensors)
        what = "of k" if not x.k_major else f"of {x.mode}"
        yield Buffer(name, along, along, other, plan.stages, size, what, swizzle=x.swizzle)
    for passing in plan.passing if not plan.shares_buffers else ():
        size = passing.tensor.dtype.bytes * ROWS * plan.columns * plan.storing * plan.buffers
        rows, depth = (plan.columns, ROWS) if passing.n_major else (ROWS, plan.columns)
        yield Buffer(
            passing.tensor.name, rows, rows, depth, plan.storing * plan.buffers, size, "of a piece", passing.swizzle
        )
    for read in plan.sources:
        number = plan.consumers * plan.source_buffers
        rows, depth = (plan.columns, ROWS) if read.n_major else (ROWS, plan.columns)
        size = read.tensor.dtype.bytes * ROWS * plan.columns * number
        name = f"{read.tensor.name} that is read" if read.tensor.writes else read.tensor.name
        yield Buffer(name, rows, rows, depth, number, size, "of a piece", read.swizzle)
    if plan.sources:
        number = plan.consumers * plan.source_buffers
        yield Buffer("barriers of what is read", number, number, 1, 2, 2 * number * MBARRIER, "of a kind")
    if plan.split > 1:
        threads = plan.consumers * WARPGROUP
        sums = plan.pointwise.values * plan.products
        senders = plan.split - 1
        yield Buffer("sums that others send", threads, threads, sums, senders, plan.sent_bytes, "of a thread")
        more = 2 if plan.blocks is not None else 1
        yield Buffer("barriers of these", more, more, 1, 1, more * MBARRIER, "of a kind")
    yield Buffer("barriers", plan.stages, plan.stages, 1, 2, 2 * plan.stages * MBARRIER, "of a kind")
