"""Where a warp of a gemm on tensor cores accesses global memory together, and what a block has of shared memory.

Shared memory is not among the accesses: runs of 16 bytes exchange their places there, which no layout says.
"""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.access import Access
from cutegen.analysis.buffers import Buffer
from cutegen.families.gemm.mma_sync.partitions import store_layout
from cutegen.families.gemm.mma_sync.plan import MmaSyncPlan
from cutegen.families.gemm.staged.accesses import epilogue, from_global
from cutegen.language.kinds import Path


def accesses_of(plan: MmaSyncPlan) -> tuple[Access, ...]:
    """The accesses of the mainloop's copies, then those of the epilogue."""
    path: Path = ("schedule", "copies", plan.spec.lead.name, "bits")
    stored = epilogue(plan, lambda strides: store_layout(plan, strides), path)
    return (*(from_global(plan, x, "bits") for x in (plan.a, plan.b)), *stored)


def buffers(plan: MmaSyncPlan) -> Iterator[Buffer]:
    """The stages of A and B in shared memory: rows along the mode in which each is contiguous."""
    depth = plan.tile[plan.k]
    for x in (plan.a, plan.b):
        along, across = (depth, x.block) if x.k_major else (x.block, depth)
        size = along * across * plan.stages * x.tensor.dtype.bytes
        yield Buffer(x.tensor.name, along, along, across, plan.stages, size, f"of {x.mode}" if x.k_major else "of k")
