"""The pictures of a multistage gemm: its tiles, its pipeline, its copies, its shared memory and its accumulators."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import accesses
from cutegen.analysis.claims import compact
from cutegen.analysis.words import count
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.grids import images
from cutegen.drawing.kernels import access_texts, draw_threads
from cutegen.drawing.model import Figure, Grid, Subject
from cutegen.drawing.shared import draw_bank_use
from cutegen.drawing.threads import partition, sharing_notes, thread_legend, tile_grid
from cutegen.families.common.walks import Walk, draw_walk
from cutegen.families.gemm.staged.partitions import epilogue_layout, tiled_copy, workspace_values
from cutegen.families.gemm.staged.pipelines import draw_pipeline
from cutegen.families.gemm.staged.plan import GemmOperand, GemmPlan, MultistagePlan, StagedOperand, WorkspacePlan


def figures(plan: GemmPlan) -> tuple[Figure, ...]:
    """The pictures of a gemm, from the grid down to shared memory and the accumulators of a thread."""
    found = accesses(plan)
    drawn = [draw_walk(plan, walk_of(plan)), draw_pipeline(plan)]
    for x in (plan.a, plan.b):
        own = [access for access in found if access.tensor == x.tensor.name]
        if x.workspace is not None:
            drawn.append(_workspace(x.workspace, [a for a in own if a.path[1] == "workspace"]))
        drawn.append(_copy(plan, x, [a for a in own if a.path[1] != "workspace"]))
    for x in (plan.a, plan.b):
        name = x.tensor.name
        subjects = (Subject(("schedule", "smem", name)), Subject(name=f"fragment of {name}"))
        shared = [access for access in found if access.space == "shared" and access.tensor == name]
        drawn.append(draw_bank_use(shared, name, subjects))
    tile = (plan.tile[plan.m], plan.tile[plan.n])
    outputs = [access for access in found if access.tensor not in (plan.a.tensor.name, plan.b.tensor.name)]
    drawn.append(
        draw_threads(
            "accumulators",
            f"Which thread accumulates which elements of {plan.spec.lead.name}",
            partition(plan.threads, images(epilogue_layout(plan, compact(tile))), tile),
            (plan.m, plan.n),
            outputs,
            (Subject(("schedule", "mma")), Subject(name="epilogue"), Subject(name=f"copy of {plan.spec.lead.name}")),
        )
    )
    return tuple(drawn)


def walk_of(plan: MultistagePlan) -> Walk:
    """How blocks walk the output's tiles: by a pair of numbers, or in bands by one."""
    tile = tuple(plan.tile[mode] for mode in plan.spec.lead.shape)
    if plan.batch is None:
        return Walk(tile, plan.tile_order, swizzle=plan.swizzle, paired=plan.swizzle == 1)
    return Walk(tile, (*plan.tile_order, plan.spec.lead.shape.index(plan.batch)), swizzle=plan.swizzle)


def _workspace(x: WorkspacePlan, found: Sequence[Access]) -> Figure:
    """The picture of a workspace's tile as it is read and as it is written, what is contiguous in a row."""
    name = x.tensor.name
    read = partition(x.threads, images(workspace_values(x, compact(x.tile), False)), x.tile)
    write = partition(x.threads, images(workspace_values(x, (x.tile[1], 1), True)), x.tile[::-1])
    colours = thread_colours(x.threads)
    grids = (
        tile_grid(f"{name} in global memory, {x.k}-major", read, colours, (x.mode, x.k), x.read),
        tile_grid(f"{name} in its workspace, {x.mode}-major", write, colours, (x.k, x.mode), x.write),
    )
    return Figure(
        f"workspace-{name.lower()}",
        f"How {name} reaches its workspace, by a kernel of its own",
        grids,
        colours.palette,
        thread_legend(x.threads, colours),
        arrows=("through registers",),
        caption=f"{x.threads} threads move {count(x.read * x.write, 'element')} each of a tile of "
        f"{x.tile[0]} x {x.tile[1]}: {count(x.write, 'access')} of {x.read_bits} bits read, "
        f"{count(x.read, 'access')} of {x.write_bits} bits written.",
        notes=(
            *access_texts(found),
            "Each side numbers a thread's values in the order of its own accesses.",
            *sharing_notes(grids),
        ),
        subjects=(Subject(("schedule", "workspace", name)),),
    )


def _copy(plan: GemmPlan, x: GemmOperand, found: Sequence[Access]) -> Figure:
    """The picture of an operand's tile in global memory, and of one stage of shared memory in rows along m or n."""
    name, depth = x.tensor.name, plan.tile[plan.k]
    column = images(x.smem_layout) if x.smem_layout is not None else range(x.block)
    places = [column[i % x.block] * depth + i // x.block for i in images(tiled_copy(x, (x.block, depth), (1, x.block)))]
    padding = x.smem_stride - x.block
    along = f"{x.mode} and {padding} of padding" if padding else x.mode
    stage = tile_grid(
        f"{name} in a stage of shared memory, {x.mode}-major",
        partition(plan.threads, places, (depth, x.smem_stride)),
        thread_colours(plan.threads),
        (plan.k, along),
        x.smem_vector,
    )
    written = x.smem_vector * x.tensor.dtype.bits
    return draw_copy(plan, x, found, stage, "." if written == x.bits else f", and writes of {written} bits.")


def draw_copy(
    plan: MultistagePlan, x: StagedOperand, found: Sequence[Access], stage: Grid, more: str, *subjects: Subject
) -> Figure:
    """The picture of an operand's tile in global memory, and of a `stage` of shared memory; `more` ends the caption."""
    name, tile, k_major = x.tensor.name, (x.block, plan.tile[plan.k]), x.tensor.major == plan.k
    # What is contiguous in memory stands in a row.
    shape, modes = (tile, (x.mode, plan.k)) if k_major else (tile[::-1], (plan.k, x.mode))
    strides = (1, tile[0]) if k_major else (tile[1], 1)
    source = partition(plan.threads, images(tiled_copy(x, tile, strides)), shape)
    colours = thread_colours(plan.threads)
    where = "global memory" if x.workspace is None else "its workspace"
    grids = (tile_grid(f"{name} in {where}, {x.tensor.major}-major", source, colours, modes, x.vector), stage)
    values = prod(tile) // plan.threads
    return Figure(
        f"copy-{name.lower()}",
        f"How {name} reaches shared memory",
        grids,
        colours.palette,
        thread_legend(plan.threads, colours),
        arrows=(f"{'through registers' if x.through_registers else 'cp.async'}, {x.bits} bits",),
        caption=f"{plan.threads} threads copy {count(values, 'element')} each of a tile of {tile[0]} x {tile[1]}, in "
        f"{count(values // x.vector, 'access')} of {x.bits} bits{more}",
        notes=(*access_texts(found), *sharing_notes(grids)),
        subjects=(Subject(("schedule", "copies", name)), *subjects),
    )
