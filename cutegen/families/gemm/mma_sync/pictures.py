"""The pictures of a multistage gemm on tensor cores: its tiles, its pipeline, its copies, its accumulators."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.analysis.words import count
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import access_texts, draw_threads
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.threads import partition, sharing_notes, thread_legend, tile_grid
from cutegen.families.common.walks import draw_walk
from cutegen.families.gemm.mma_sync.partitions import accumulator_layout, store_layout
from cutegen.families.gemm.mma_sync.plan import MmaOperand, MmaSyncPlan
from cutegen.families.gemm.staged.partitions import tiled_copy
from cutegen.families.gemm.staged.pictures import walk_of
from cutegen.families.gemm.staged.pipelines import draw_pipeline

RUN = 16  # bytes that stay together
PAIR = 2  # columns that a thread has next to each other


def figures(plan: MmaSyncPlan) -> tuple[Figure, ...]:
    """The pictures of a gemm, from the grid down to the accumulators of a thread and who stores them."""
    found = accesses(plan)
    output, tile = plan.spec.output.name, (plan.tile[plan.m], plan.tile[plan.n])
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
    name, tile, k = x.tensor.name, (x.block, plan.tile[plan.k]), plan.k
    # What is contiguous in memory stands in a row.
    shape, modes = (tile, (x.mode, k)) if x.k_major else (tile[::-1], (k, x.mode))
    strides = (1, tile[0]) if x.k_major else (tile[1], 1)
    source = partition(plan.threads, images(tiled_copy(x, tile, strides)), shape)
    run = x.swizzle // x.tensor.dtype.bytes
    rows = tile[0] * tile[1] // run
    stage = images(x.smem_layout)
    places = [place_in_row(x, stage[i]) for i in images(tiled_copy(x, tile, (1, tile[0])))]
    destination = partition(plan.threads, [place % run * rows + place // run for place in places], (rows, run))
    colours = thread_colours(plan.threads)
    grids = (
        tile_grid(f"{name} in global memory, {x.tensor.major}-major", source, colours, modes, x.vector),
        tile_grid(
            f"{name} in a stage of shared memory, in rows of {x.swizzle} bytes",
            destination,
            colours,
            ("row", str(x.tensor.major)),
            x.vector,
        ),
    )
    how = f"cp.async, {x.bits} bits" if x.atom == "cp_async" else f"through registers, {x.bits} bits"
    values = tile[0] * tile[1] // plan.threads
    return Figure(
        f"copy-{name.lower()}",
        f"How {name} reaches shared memory",
        grids,
        colours.palette,
        thread_legend(plan.threads, colours),
        arrows=(how,),
        caption=f"{plan.threads} threads copy {count(values, 'element')} each of a tile of {tile[0]} x {tile[1]}, in "
        f"{count(values // x.vector, 'access')} of {x.bits} bits. Rows of {x.swizzle} bytes exchange runs of {RUN}"
        + (", so that fragments meet each bank once." if x.matrices else "; fragments are read element by element."),
        notes=(*access_texts(found), *sharing_notes(grids)),
        subjects=(Subject(("schedule", "copies", name)), Subject(("schedule", "smem", name))),
    )
