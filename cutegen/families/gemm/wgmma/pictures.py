"""The pictures of a gemm on Hopper's tensor cores, from the grid down to shared memory and the accumulators."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.accesses import accesses
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.shared import draw_bank_use
from cutegen.families.common.walks import Walk, draw_walk
from cutegen.families.gemm.wgmma.blocks import most_blocks
from cutegen.families.gemm.wgmma.cluster_pictures import draw_cluster
from cutegen.families.gemm.wgmma.memory_pictures import draw_shared_memory, draw_stage
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product_pictures import draw_accumulators, draw_products
from cutegen.families.gemm.wgmma.role_pictures import draw_pieces, draw_roles


def figures(plan: WarpspecializedPlan) -> tuple[Figure, ...]:
    """Tiles and clusters, roles over time, shared memory, and what a thread accumulates and stores."""
    return tuple(_figures(plan))


def _figures(plan: WarpspecializedPlan) -> Iterator[Figure]:
    yield draw_walk(plan, walk_of(plan))
    if plan.cluster_size > 1:
        yield draw_cluster(plan)
    yield draw_roles(plan)
    if plan.passing:
        yield draw_pieces(plan)
    yield draw_shared_memory(plan)
    for side in plan.sides:
        yield draw_stage(plan, side)
    for name in dict.fromkeys(x.tensor.name for x in (*plan.passing, *plan.sources)):
        shared = [access for access in accesses(plan) if access.space == "shared" and access.tensor == name]
        yield draw_bank_use(shared, name, (Subject(("schedule", "copies", name)),))
    if plan.products > 1:
        yield draw_products(plan)
    yield draw_accumulators(plan)


def walk_of(plan: WarpspecializedPlan) -> Walk:
    """How clusters walk the output's tiles, in bands; a cluster of one block is that block."""
    shape = " x ".join(map(str, (*plan.cluster, *[plan.split] * (plan.split > 1))))
    takers = f"cluster of {shape} blocks" if plan.cluster_size > 1 else "block"
    blocks = most_blocks(plan)
    most = None if blocks is None else blocks // plan.cluster_size
    extents = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    tile = tuple(extents.get(mode, 1) for mode in plan.spec.output.shape)
    order = plan.tile_order if plan.batch is None else (*plan.tile_order, plan.spec.output.shape.index(plan.batch))
    note = None
    if plan.segments is not None:
        note = f"These are the tiles of one segment; those of the next element of {plan.segments.of} follow."
    return Walk(tile, order, swizzle=plan.band, serpentine=True, taker=takers, most=most, note=note)
