"""The pictures of an elementwise kernel: which block has which tile, and which thread which values."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from cutegen.families.common.walks import Walk, draw_walk
from cutegen.families.elementwise.partitions import thread_values
from cutegen.families.elementwise.plan import ElementwisePlan


def figures(plan: ElementwisePlan) -> tuple[Figure, ...]:
    """The pictures of an elementwise kernel: the walk of tiles, then threads and values."""
    return draw_walk(plan, walk_of(plan)), _threads(plan)


def walk_of(plan: ElementwisePlan) -> Walk:
    """How blocks walk the output's tiles; where each thread has a tile, a block has as many as threads."""
    tile = tuple(plan.tile[mode] for mode in plan.spec.lead.shape)
    return Walk(tile, plan.tile_order, share=plan.threads if plan.partition == "inner" else 1)


def _threads(plan: ElementwisePlan) -> Figure:
    modes = plan.spec.lead.shape
    sides = [[int(i == j) for j in range(len(modes))] for i in range(len(modes))]
    # The strides 1 along one mode and 0 along the others give the coordinate along that one.
    shape = tuple(1 + max(images(thread_values(plan, side))) for side in sides)
    places = images(thread_values(plan, compact(shape)))
    found = partition(plan.threads, places, shape)
    whose = "the first block's tiles" if plan.partition == "inner" else "a block's tile"
    keys = ("thread_layout", "value_layout", "threads", "copy")
    names = ("values of a thread", "thread-value layout", "walk")
    return draw_threads(
        "threads",
        f"Threads and values of {whose}",
        found,
        modes,
        accesses(plan),
        (*(Subject(("schedule", key)) for key in keys), *(Subject(name=name) for name in names)),
    )
