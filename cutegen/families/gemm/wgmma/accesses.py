"""Where a warp of the consumers accesses memory together, and what a block has of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer
from cutegen.families.common.pointwise import Operand
from cutegen.families.gemm.wgmma import allocation
from cutegen.families.gemm.wgmma.plan import Passing, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import WARPGROUP, accumulator_layout, column_layout, row_layout
from cutegen.families.gemm.wgmma.scales_claims import scales_accessed
from cutegen.families.gemm.wgmma.shared_memory import moves_of, piece_of, stage_of
from cutegen.parts.acting import value_of
from cutegen.parts.declared import Barriers


def accesses_of(plan: WarpspecializedPlan) -> tuple[Access, ...]:
    """The accesses of scales and of the epilogue, in the order of the kernel: A and B are moved by the units of tensor
    maps, and read by the tensor cores.
    """
    found = [*scales_accessed(plan)]
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
    by_columns = kind == "read" and plan.by_columns(o)  # element by element
    if plan.held(o):
        layout = row_layout(plan.groups, strides[0], plan.row_blocks)
    elif by_columns:
        layout = column_layout(plan.groups, plan.own_columns, strides[1], plan.row_blocks)
    return Access(
        f"{o.tensor.name} {'from' if kind == 'read' else 'to'} global memory",
        o.tensor.name,
        o.tensor.dtype,
        "global",
        kind,
        1 if by_columns else o.vector,
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
    """The buffers of a block's shared memory: swizzled tiles, sums that other blocks send, and barriers by kind."""
    spec, counts = plan.spec, allocation.counts_of(plan.spec)
    passing = () if plan.shares_buffers else zip(allocation.outputs(spec), plan.passing, strict=True)
    sources = tuple(zip(allocation.brought(spec), plan.sources, strict=True))
    tiles = [(one, stage_of(plan, x), f"of {x.mode}" if x.k_major else "of k")
             for one, x in zip(allocation.operands(spec), plan.sides, strict=True)]  # fmt: skip
    tiles += [(one, piece_of(plan, x), "of a piece") for one, x in (*passing, *sources)]
    for one, tile, what in tiles:
        number, name = int(value_of(one.length, counts)), one.title.replace(", read", " that is read")
        size = allocation.size_of(spec, one)
        yield Buffer(name, tile.along, tile.along, tile.across, number, size, what, tile.swizzle)
    yield from _barriers(plan, "barriers of what is read", allocation.source_barriers(spec))
    for one in allocation.sums(spec):
        threads, values = plan.consumers * WARPGROUP, plan.pointwise.values * plan.products
        size = allocation.size_of(spec, one)
        yield Buffer("sums that others send", threads, threads, values, plan.split - 1, size, "of a thread")
    yield from _barriers(plan, "barriers of these", allocation.sum_barriers(spec))
    yield from _barriers(plan, "barriers", allocation.stage_barriers(spec))


def _barriers(plan: WarpspecializedPlan, name: str, kinds: Sequence[Barriers]) -> Iterator[Buffer]:
    if kinds:
        number = int(value_of(kinds[0].length, allocation.counts_of(plan.spec)))
        size = allocation.size_of(plan.spec, *kinds)
        yield Buffer(name, number, number, 1, len(kinds), size, "of a kind")
