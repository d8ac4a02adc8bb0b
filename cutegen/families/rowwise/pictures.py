"""The pictures of a row kernel: which thread holds what of a row, how the threads' results become one, and when."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition
from cutegen.families.rowwise.piece_pictures import draw_pieces
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.rows import thread_values
from cutegen.families.rowwise.tree_pictures import draw_trees
from cutegen.families.rowwise.walk_pictures import draw_walks


def figures(plan: RowwisePlan) -> tuple[Figure, ...]:
    """The pictures of a row kernel, in the order of its page."""
    return (_threads(plan), *draw_pieces(plan), *draw_walks(plan), *draw_trees(plan))


def _threads(plan: RowwisePlan) -> Figure:
    modes = plan.flat.lead.shape
    found = partition(plan.threads, images(thread_values(plan.flat, compact(plan.tiler))), plan.tiler)
    keys, names = ("threads_per_row", "tiler", "copy"), ("values of a thread", "thread-value layout", "tile")
    share = "share of its " if plan.cluster > 1 else ""
    whose = "a block's piece of its rows" if plan.walked else f"a block's {share}rows"
    return draw_threads(
        "threads",
        f"Threads and values of {whose}",
        found,
        modes,
        accesses(plan),
        (*(Subject(("schedule", key)) for key in keys), *(Subject(name=name) for name in names)),
    )
