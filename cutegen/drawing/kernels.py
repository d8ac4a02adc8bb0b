"""Drawing of a kernel: its family makes the pictures, from parts that all families share."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.analysis.access import Access
from cutegen.analysis.memory import sectors
from cutegen.drawing.asked import family_of
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import Partition, sharing_notes, thread_legend, tile_grid
from cutegen.drawing.tiles import slice_note
from cutegen.planning.plan import Plan


def draw_kernel(plan: Plan) -> tuple[Figure, ...]:
    """All pictures of a kernel, from the grid down to shared memory; none where its family has none.

    Their names are unique.
    """
    return family_of(plan.spec).figures(plan)


def plan_facts(plan: Plan, whose: str = "block") -> list[tuple[str, str]]:
    """Facts about any plan, as labels and texts; `whose` says whether the tile is that of a thread or of a block."""
    facts = [
        (f"tile of a {whose}", " x ".join(f"{extent} {mode}" for mode, extent in plan.tile.items())),
        ("threads", str(plan.threads)),
    ]
    facts += [("stages", str(plan.stages))] if plan.stages is not None else []
    return facts + ([("shared memory", f"{plan.smem_bytes} bytes")] if plan.smem_bytes else [])


def draw_threads(
    name: str,
    title: str,
    found: Partition,
    modes: Sequence[str],
    moves: Sequence[Access],
    subjects: tuple[Subject, ...],
    run: int = 1,
) -> Figure:
    """The figure of the threads that own the values of a tile.

    A cell is one of the accesses `moves`, or a part of one; without any it is `run` neighbours.
    """
    colours = thread_colours(found.threads)
    grid = tile_grid(title, found, colours, modes, min((access.vector for access in moves), default=run))
    values = sum(map(len, found.owners.values())) // found.threads
    sides = " x ".join(f"{extent} of {mode}" for mode, extent in zip(modes, found.shape, strict=True))
    return Figure(
        name,
        title,
        (grid,),
        colours.palette,
        thread_legend(found.threads, colours),
        caption=f"{found.threads} threads with {values} values each on {sides}.",
        notes=(*access_texts(moves), *slice_note(found.shape, modes), *sharing_notes([grid])),
        subjects=subjects,
    )


def access_texts(found: Sequence[Access]) -> list[str]:
    """A text for each access to global memory: its width, and what a warp's first one costs."""
    texts = []
    for access in found:
        if access.space != "global":
            continue
        verb, cost = "read" if access.kind == "read" else "written", sectors(access)
        worth = "the fewest that hold them" if cost.sectors == cost.least else f"where {cost.least} would hold them"
        what = access.tensor if access.workspace is None else f"{access.tensor}'s workspace"
        texts.append(
            f"{what} is {verb} {access.vector} at a time ({8 * access.bytes} bits): a warp's {cost.bytes} "
            f"bytes are in {cost.sectors} sectors of 32 bytes, {worth}."
        )
    return texts
