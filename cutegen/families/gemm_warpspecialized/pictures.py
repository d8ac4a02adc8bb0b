"""The pictures of a gemm on Hopper's tensor cores: its tiles, and the accumulators of its warpgroups."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from cutegen.families.common.walks import Walk, draw_walk
from cutegen.families.gemm_warpspecialized.plan import WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import WARPGROUP, accumulator_layout


def figures(plan: WarpspecializedPlan) -> tuple[Figure, ...]:
    """Which block has which tile, and which thread of the consumers, counted from their first, accumulates what."""
    output, tile = plan.spec.output.name, (plan.tile[plan.m], plan.tile[plan.n])
    layout = accumulator_layout(plan.groups, plan.tile[plan.n], (1, tile[0]), plan.row_blocks)
    accumulators = draw_threads(
        "accumulators",
        f"Which thread that multiplies accumulates which elements of {output}",
        partition(WARPGROUP * plan.groups, images(layout), tile),
        (plan.m, plan.n),
        accesses(plan),
        (Subject(("schedule", "mma")), Subject(name="epilogue"), Subject(name=f"copy of {output}")),
    )
    return draw_walk(plan, walk_of(plan)), accumulators


def walk_of(plan: WarpspecializedPlan) -> Walk:
    """How clusters walk the output's tiles, in bands; a cluster of one block is that block."""
    shape = " x ".join(map(str, (*plan.cluster, *[plan.split] * (plan.split > 1))))
    takers = f"cluster of {shape} blocks" if plan.cluster_size > 1 else "block"
    most = None if plan.blocks is None else plan.blocks // plan.cluster_size
    extents = dict(zip((plan.m, plan.n), plan.cluster_tile, strict=True))
    tile = tuple(extents[mode] for mode in plan.spec.output.shape)
    return Walk(tile, plan.tile_order, swizzle=plan.band, serpentine=True, taker=takers, most=most)
