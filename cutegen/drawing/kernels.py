"""The pictures of a kernel, from its plan: who has what, how it gets there, and when."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cutegen.analysis.accesses import Access, accesses
from cutegen.analysis.claims import compact
from cutegen.analysis.memory import sectors
from cutegen.analysis.partitions import epilogue_layout, thread_values, tiled_copy, workspace_values
from cutegen.drawing.colours import thread_colours
from cutegen.drawing.grids import count, images
from cutegen.drawing.model import Figure, Subject
from cutegen.drawing.pipelines import draw_pipeline
from cutegen.drawing.shared import draw_bank_use
from cutegen.drawing.threads import Partition, partition, sharing_notes, thread_legend, tile_grid
from cutegen.drawing.tiles import slice_note
from cutegen.drawing.walks import draw_walk
from cutegen.planning.plan import ElementwisePlan, GemmOperand, GemmPlan, Plan, ProbePlan, WorkspacePlan


def draw_kernel(plan: Plan) -> tuple[Figure, ...]:
    """All pictures of a kernel, from the grid down to shared memory. Their names are unique."""
    match plan:
        case ElementwisePlan():
            return draw_walk(plan), _elementwise(plan)
        case ProbePlan():
            return (_probe(plan),)
        case GemmPlan():
            return _gemm(plan)
    raise TypeError(f"a {type(plan).__name__} cannot be drawn")


def _elementwise(plan: ElementwisePlan) -> Figure:
    modes = plan.spec.output.shape
    sides = [[int(i == j) for j in range(len(modes))] for i in range(len(modes))]
    # The strides 1 along one mode and 0 along the others give the coordinate along that one.
    coordinates = [images(thread_values(plan, side)) for side in sides]
    shape = tuple(1 + max(along) for along in coordinates)
    strides = compact(shape)
    places = [sum(c * s for c, s in zip(coords, strides, strict=True)) for coords in zip(*coordinates, strict=True)]
    found = partition(plan.threads, places, shape)
    whose = "the first block's tiles" if plan.partition == "inner" else "a block's tile"
    keys = ("thread_layout", "value_layout", "threads", "copy")
    names = ("values of a thread", "thread-value layout", "walk")
    return _threads(
        "threads",
        f"Threads and values of {whose}",
        found,
        modes,
        accesses(plan),
        (*(Subject(("schedule", key)) for key in keys), *(Subject(name=name) for name in names)),
    )


def _probe(plan: ProbePlan) -> Figure:
    found = partition(plan.threads, images(plan.tv_layout), plan.tiler)
    title = f"What each thread of the probe reads of {plan.source.name}"
    return _threads("threads", title, found, plan.source.shape, accesses(plan), (Subject(("schedule", "tv_layout")),))


def _threads(
    name: str,
    title: str,
    found: Partition,
    modes: Sequence[str],
    moves: Sequence[Access],
    subjects: tuple[Subject, ...],
) -> Figure:
    """`moves` are the accesses that a cell is one of, or a part of one."""
    colours = thread_colours(found.threads)
    grid = tile_grid(title, found, colours, modes, min(access.vector for access in moves))
    values = sum(map(len, found.owners.values())) // found.threads
    sides = " x ".join(f"{extent} of {mode}" for mode, extent in zip(modes, found.shape, strict=True))
    return Figure(
        name,
        title,
        (grid,),
        colours.palette,
        thread_legend(found.threads, colours),
        caption=f"{found.threads} threads with {values} values each on {sides}.",
        notes=(*_access_texts(moves), *slice_note(found.shape, modes), *sharing_notes([grid])),
        subjects=subjects,
    )


def _access_texts(found: Sequence[Access]) -> list[str]:
    """For each access to global memory its width, and what a warp's first one costs."""
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


# --------------------------------------------------------------------------------------------------------- gemm


def _gemm(plan: GemmPlan) -> tuple[Figure, ...]:
    found = accesses(plan)
    figures = [draw_walk(plan), draw_pipeline(plan)]
    for x in (plan.a, plan.b):
        own = [access for access in found if access.tensor == x.tensor.name]
        if x.workspace is not None:
            figures.append(_workspace(x.workspace, [a for a in own if a.path[1] == "workspace"]))
        figures.append(_copy(plan, x, [a for a in own if a.path[1] != "workspace"]))
    for x in (plan.a, plan.b):
        name = x.tensor.name
        subjects = (Subject(("schedule", "smem", name)), Subject(name=f"fragment of {name}"))
        shared = [access for access in found if access.space == "shared" and access.tensor == name]
        figures.append(draw_bank_use(shared, name, subjects))
    tile = (plan.tile[plan.m], plan.tile[plan.n])
    outputs = [access for access in found if access.tensor not in (plan.a.tensor.name, plan.b.tensor.name)]
    figures.append(
        _threads(
            "accumulators",
            f"Which thread accumulates which elements of {plan.spec.output.name}",
            partition(plan.threads, images(epilogue_layout(plan, compact(tile))), tile),
            (plan.m, plan.n),
            outputs,
            (Subject(("schedule", "mma")), Subject(name="epilogue"), Subject(name=f"copy of {plan.spec.output.name}")),
        )
    )
    return tuple(figures)


def _workspace(x: WorkspacePlan, found: Sequence[Access]) -> Figure:
    """A tile as it is read and as it is written, what is contiguous in a row."""
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
            *_access_texts(found),
            "Each side numbers a thread's values in the order of its own accesses.",
            *sharing_notes(grids),
        ),
        subjects=(Subject(("schedule", "workspace", name)),),
    )


def _copy(plan: GemmPlan, x: GemmOperand, found: Sequence[Access]) -> Figure:
    """The tile in global memory, and one stage of shared memory in rows of neighbours along m or n."""
    name, tile = x.tensor.name, (x.block, plan.tile[plan.k])
    stage = (tile[1], x.smem_stride)
    # What is contiguous in memory stands in a row.
    if x.tensor.major == plan.k:
        shape, modes, strides = tile, (x.mode, plan.k), (1, tile[0])
    else:
        shape, modes, strides = (tile[1], tile[0]), (plan.k, x.mode), (tile[1], 1)
    source = partition(plan.threads, images(tiled_copy(x, tile, strides)), shape)
    column = images(x.smem_layout) if x.smem_layout is not None else range(x.block)
    places = [column[i % x.block] * tile[1] + i // x.block for i in images(tiled_copy(x, tile, (1, x.block)))]
    destination = partition(plan.threads, places, stage)
    colours = thread_colours(plan.threads)
    padding = x.smem_stride - x.block
    along = f"{x.mode} and {padding} of padding" if padding else x.mode
    where = "global memory" if x.workspace is None else "its workspace"
    grids = (
        tile_grid(f"{name} in {where}, {x.tensor.major}-major", source, colours, modes, x.vector),
        tile_grid(
            f"{name} in a stage of shared memory, {x.mode}-major", destination, colours, (plan.k, along), x.smem_vector
        ),
    )
    bits = x.bits
    how = f"cp.async, {bits} bits" if x.atom == "cp_async" else f"through registers, {bits} bits"
    values = prod(tile) // plan.threads
    return Figure(
        f"copy-{name.lower()}",
        f"How {name} reaches shared memory",
        grids,
        colours.palette,
        thread_legend(plan.threads, colours),
        arrows=(how,),
        caption=f"{plan.threads} threads copy {count(values, 'element')} each of a tile of {x.block} x {tile[1]}, in "
        f"{count(values // x.vector, 'access')} of {bits} bits"
        + (f", and writes of {written} bits." if (written := x.smem_vector * x.tensor.dtype.bits) != bits else "."),
        notes=(*_access_texts(found), *sharing_notes(grids)),
        subjects=(Subject(("schedule", "copies", name)),),
    )
