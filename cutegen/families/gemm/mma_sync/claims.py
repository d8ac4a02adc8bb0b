"""Claims about the plan of a multistage gemm on tensor cores: elements are covered exactly once, all within bounds."""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from tensor_layouts import size

from cutegen import layouts
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import compact, covered_once, sides_text
from cutegen.analysis.words import count
from cutegen.families.common.claims import miscounted, not_stored
from cutegen.families.gemm.mma_sync.mainloop import MmaSyncMainloop
from cutegen.families.gemm.mma_sync.partitions import accumulator_layout, store_layout
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.staged.claims import bounds, copied, order, walked


def claims(plan: MmaSyncPlan) -> Iterator[Claim]:
    """The claims on a gemm's plan: coverage first, then the bounds of every mode, then the order of warps."""
    for x in (plan.a, plan.b):
        yield copied(plan, x)
        yield _own_places(plan, x)
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    modes = f"({plan.m}, {plan.n})"
    what = f"the accumulators of the warps are each element of a block's tile {modes} exactly once"
    yield covered_once(what, accumulator_layout(plan, compact(shape)), shape, ("schedule", "mma"), plan.threads)
    yield _summed_whole(plan)
    stored = store_layout(plan, compact(shape))
    wrong = (*miscounted(plan, stored), *not_stored(plan, *plan.spec.outputs), *_overlapping(plan))
    what = f"the threads of the epilogue take each element of the tile {modes} out of shared memory exactly once"
    path = ("schedule", "copies", plan.spec.lead.name)
    yield covered_once(what, stored, shape, path, plan.threads, wrong)
    yield from walked(plan)
    yield from bounds(plan, stored)
    yield order(MmaSyncMainloop(plan))


def _own_places(plan: MmaSyncPlan, x: MmaOperand) -> Claim:
    """That no two elements of an operand's stages share a place, and that another operand's start behind the last."""
    name, places = x.tensor.name, layouts.offsets(x.smem_layout)
    wanted = x.block * plan.tile[plan.k] * plan.stages
    end = x.offset + (max(places) + 1) * x.tensor.dtype.bytes
    most = plan.b.offset if x is plan.a else plan.smem_bytes
    holds = len(places) == len(set(places)) == wanted and end <= most and x.offset % (8 * x.swizzle) == 0
    because = (
        f"{count(int(size(x.smem_layout)), 'element')} of {plan.stages} stages have {len(set(places))} places",
        f"bytes {x.offset} to {end - 1} of {plan.smem_bytes}; rows of {x.swizzle} exchange theirs in groups of eight",
    )
    text = f"each element of {name}'s stages has a place of its own"
    return Claim("coverage", text, because, holds, ("schedule", "smem", name))


def _summed_whole(plan: MmaSyncPlan) -> Claim:
    depth, of_one = plan.tile[plan.k], plan.instruction[2]
    because = (f"{plan.steps} products of {of_one} = {plan.steps * of_one}, and the tile is {depth} deep",)
    text = f"the products of a tile have all of its {plan.k}"
    return Claim("coverage", text, because, plan.steps * of_one == depth, ("schedule", "tiler", plan.k))


def _overlapping(plan: MmaSyncPlan) -> Iterator[str]:
    """Says that the tile of sums does not fit shared memory, or that its rows overlap; nothing if all is well."""
    shape, (rows, columns) = (plan.tile[plan.m], plan.tile[plan.n]), plan.staged
    last = (shape[0] - 1) * rows + (shape[1] - 1) * columns
    if min(rows, columns) != 1 or max(rows, columns) < shape[int(columns == 1)]:
        yield f"{sides_text(shape)} sums overlap in shared memory, in steps of {rows} and {columns}"
    if 4 * (last + 1) > plan.smem_bytes or prod(shape) > last + 1:
        yield f"{4 * (last + 1)} bytes are needed for it, and a block has {plan.smem_bytes}"
