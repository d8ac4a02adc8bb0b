"""The pictures of a gemm on Blackwell's tensor cores: its tiles, and the rows of its threads."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from cutegen.families.common.walks import Walk, draw_walk
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import ROWS, accumulator_layout


def figures(plan: Tcgen05Plan) -> tuple[Figure, ...]:
    """How blocks walk the tiles, and what a thread stores of one."""
    tile, name = (plan.tile[plan.m], plan.tile[plan.n]), plan.spec.lead.name
    rows = draw_threads(
        "accumulators",
        f"Which thread stores which elements of {name}",
        partition(ROWS, images(accumulator_layout(tile[1], compact(tile))), tile),
        (plan.m, plan.n),
        list(accesses(plan)),
        (Subject(("schedule", "mma")), Subject(name="epilogue"), Subject(name=f"copy of {name}")),
    )
    return draw_walk(plan, walk_of(plan)), rows


def walk_of(plan: Tcgen05Plan) -> Walk:
    """How blocks walk the output's tiles: by a pair of numbers, and of a batch by a third."""
    tile, shape = tuple(plan.tile.get(mode, 1) for mode in plan.spec.lead.shape), plan.spec.lead.shape
    order = plan.tile_order if plan.batch is None else (*plan.tile_order, shape.index(plan.batch))
    return Walk(tile, order, paired=plan.batch is None)
