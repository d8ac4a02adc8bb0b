"""The pictures of a multistage gemm on tensor cores: its tiles, its pipeline, its copies, its accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition, tile_grid
from cutegen.families.common.walks import draw_walk
from cutegen.families.gemm.mma_sync.partitions import accumulator_layout, store_layout
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.staged.partitions import tiled_copy
from cutegen.families.gemm.staged.pictures import draw_copy, walk_of
from cutegen.families.gemm.staged.pipelines import draw_pipeline

RUN = 16  # bytes that stay together
PAIR = 2  # columns that a thread has next to each other


def figures(plan: MmaSyncPlan) -> tuple[Figure, ...]:
    """The pictures of a gemm, from the grid down to the accumulators of a thread and who stores them."""
    found = accesses(plan)
    output, tile = plan.spec.lead.name, (plan.tile[plan.m], plan.tile[plan.n])
    operands = (plan.a.tensor.name, plan.b.tensor.name)
    drawn = [draw_walk(plan, walk_of(plan)), draw_pipeline(plan)]
    drawn += [_copy(plan, x, [a for a in found if a.tensor == x.tensor.name]) for x in (plan.a, plan.b)]
    drawn.append(
        draw_threads(
            "accumulators",
            f"Which thread accumulates which elements of {output}",
            partition(plan.threads, images(accumulator_layout(plan, compact(tile))), tile),
            (plan.m, plan.n),
            (),
            (Subject(("schedule", "mma")),),
            PAIR,
        )
    )
    drawn.append(
        draw_threads(
            "stores",
            f"Which thread stores which elements of {output}",
            partition(plan.threads, images(store_layout(plan, compact(tile))), tile),
            (plan.m, plan.n),
            [access for access in found if access.tensor not in operands],
            (Subject(name="epilogue"), Subject(name=f"copy of {output}")),
        )
    )
    return tuple(drawn)


def place_in_row(x: MmaOperand, place: int) -> int:
    """Where in a stage an element lies whose place in rows is `place`: runs of 16 bytes have exchanged theirs.

    Bits 7 and up of the address in bytes are added without carry to those from bit 4 on, as many as a row's runs need.
    """
    size = x.tensor.dtype.bytes
    mask = x.swizzle // RUN - 1
    return (place * size ^ (place * size >> 7 & mask) << 4) // size


def _copy(plan: MmaSyncPlan, x: MmaOperand, found: Sequence[Access]) -> Figure:
    """The picture of an operand's tile in global memory, and of one stage of shared memory, a row of it in a row."""
    name, tile = x.tensor.name, (x.block, plan.tile[plan.k])
    run = x.swizzle // x.tensor.dtype.bytes
    rows, held = tile[0] * tile[1] // run, images(x.smem_layout)
    places = [place_in_row(x, held[i]) for i in images(tiled_copy(x, tile, (1, tile[0])))]
    stage = tile_grid(
        f"{name} in a stage of shared memory, in rows of {x.swizzle} bytes",
        partition(plan.threads, [place % run * rows + place // run for place in places], (rows, run)),
        thread_colours(plan.threads),
        ("row", str(x.tensor.major)),
        x.vector,
    )
    read = ", so that fragments meet each bank once." if x.matrices else "; fragments are read element by element."
    more = f". Rows of {x.swizzle} bytes exchange runs of {RUN}{read}"
    return draw_copy(plan, x, found, stage, more, Subject(("schedule", "smem", name)))
