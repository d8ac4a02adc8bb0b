"""Pictures of a block's shared memory: what lies where, and how a stage of an operand lies in its banks."""

from __future__ import annotations

from cutegen.analysis.words import count
from cutegen.atoms.targets import BANK_BYTES, BANKS
from cutegen.drawing.grids import MOST_COLUMNS, NOBODY, number_axis
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Legend, Subject, Swatch
from cutegen.drawing.timelines import PALETTE, hue
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan
from cutegen.families.gemm.wgmma.shared_memory import LINE, RUN, parts_of, stage_of

LINES = 16  # that are drawn of a stage: the swizzle repeats after 8


def draw_shared_memory(plan: WarpspecializedPlan) -> Figure:
    """The figure of what a block has in shared memory: for each stage or buffer the byte at which it starts."""
    parts = list(parts_of(plan))
    names = list(dict.fromkeys(part.name for part in parts))
    columns = number_axis("stage or buffer", 1 + max(part.number for part in parts), 1, MOST_COLUMNS)

    def cell(name: str, number: int) -> Cell:
        part = next((p for p in parts if (p.name, p.number) == (name, number)), None)
        if part is None:
            return NOBODY
        about = f"{part.what}: bytes {part.start}-{part.start + part.size - 1}"
        facts = {"name": name, "number": number, "start": part.start, "size": part.size}
        return Cell((str(part.start), f"{part.size} B"), hue(names.index(name)), about, facts)

    cells = tuple(tuple(cell(name, number) for number in range(columns.drawn)) for name in names)
    rows = Axis("", len(names), tuple(names))
    outputs = [x.tensor.name for x in plan.passing]
    where = ", where the sums of others were" * plan.shares_buffers
    each = f"{count(plan.buffers, 'buffer')} for each of {count(plan.consumers, 'warpgroup')}{where}"
    if plan.in_turn:
        each = f"{count(plan.buffers, 'buffer')} for the warpgroup that stores"
    buffers = f" {' and '.join(outputs)}: {each}." if outputs else ""
    if plan.sources:
        read = " and ".join(x.tensor.name for x in plan.sources)
        each = f"{count(plan.source_buffers, 'buffer')} for each of {count(plan.consumers, 'warpgroup')}"
        buffers += f" What epilogues read of {read}: {each}."
    return Figure(
        "shared-memory",
        f"What a block has in its {plan.smem_bytes} bytes of shared memory",
        (Grid("bytes", rows, columns, cells, ("first byte", "size")),),
        PALETTE,
        caption=f"Each tensor's part starts at a multiple of 1024 bytes, where the swizzle begins anew.{buffers} Of "
        "each stage one barrier says that it is full, and one that it is empty.",
        subjects=(Subject(("schedule", "smem"), "shared memory"), Subject(("schedule", "pipeline", "stages"))),
    )


def draw_stage(plan: WarpspecializedPlan, side: Side) -> Figure:
    """The figure of how an operand's tile lies in a stage: in lines of all banks, by runs of 16 bytes."""
    tile, name = stage_of(plan, side), " and ".join(tensor.name for tensor in side.tensors)
    along, across = (plan.k, side.mode) if side.k_major else (side.mode, plan.k)
    lies = "lie" if len(side.tensors) > 1 else "lies"
    run, places = RUN // tile.size, LINE // RUN
    runs_of_row = tile.swizzle // RUN
    found: dict[int, tuple[int, int]] = {}
    lines = min(LINES, tile.along * tile.across * tile.size // LINE)
    for j in range(min(tile.across, lines * LINE // tile.swizzle)):
        for i in range(0, tile.row, run):
            found[tile.place(i, j) // RUN] = (i, j)

    def cell(line: int, place: int) -> Cell:
        i, j = found[line * places + place]
        first = line * LINE + place * RUN
        label = (f"{across} {j}", f"{along} {i}-{i + run - 1}")
        about = f"{across} {j}, {along} {i}-{i + run - 1}: bytes {first}-{first + RUN - 1} of the stage"
        facts = {"across": j, "along": i, "byte": first}
        return Cell(label, i // run % len(PALETTE), about, facts)

    cells = tuple(tuple(cell(line, place) for place in range(places)) for line in range(lines))
    whole = tile.along * tile.across * tile.size // LINE
    labels = tuple(map(str, range(lines)))
    per = RUN // BANK_BYTES
    heads = tuple(f"{place * per}-{place * per + per - 1}" for place in range(BANKS // per))
    swatches = tuple(Swatch(i, f"{along} {i * run}-{i * run + run - 1}") for i in range(runs_of_row))
    return Figure(
        f"stage-{side.letter.lower()}",
        f"How {name} {lies} in a stage: the swizzle over {tile.swizzle} bytes, and the banks",
        (
            Grid(
                "stage",
                Axis(f"line of {LINE} bytes", whole, labels),
                Axis("banks", places, heads),
                cells,
                (across, along),
            ),
        ),
        PALETTE,
        Legend(f"runs of {RUN} bytes of a row", swatches),
        caption=f"A row has {tile.row} elements along {along}, {tile.swizzle} bytes. Eight neighbours along {across} "
        f"have the same run of {RUN} bytes in eight different places of the {BANKS} banks: a product reads them at "
        "once, and a load writes whole lines.",
        subjects=(
            *(Subject(("schedule", "smem", tensor.name)) for tensor in side.tensors),
            Subject(("schedule", "smem"), "layout of shared memory"),
        ),
    )
