"""The picture of a cluster: which block has which tile, and which part of an operand it loads for which others."""

from __future__ import annotations

from cutegen.analysis.words import count
from cutegen.drawing.grids import number_axis
from cutegen.drawing.model import Cell, Figure, Grid, Subject
from cutegen.drawing.timelines import PALETTE, hue
from cutegen.families.gemm.wgmma.plan import Side, WarpspecializedPlan


def receivers(plan: WarpspecializedPlan, side: Side, x: int, y: int) -> tuple[int, ...]:
    """The blocks, by their rank in the cluster, that get what the block at (x, y) loads of an operand.

    Ranks count along m first, then along n. A is shared by blocks with the same rows, B by those with the same columns.
    """
    m, n = plan.cluster
    if side.shared_by == 1:
        return (x + y * m,)
    if side.letter == "A":
        return tuple(x + other * m for other in range(n))
    return tuple(other + y * m for other in range(m))


def draw_cluster(plan: WarpspecializedPlan) -> Figure:
    """The figure of a cluster's blocks, once for each operand: who loads what of it, and for whom."""
    m, n = plan.cluster
    shape = " x ".join(map(str, (m, n, *[plan.split] * (plan.split > 1))))
    panels = tuple(_panel(plan, side) for side in plan.sides)
    sizes = ", ".join(
        f"{side.block} x {plan.tile[plan.k]} of {'/'.join(t.name for t in side.tensors)}" for side in plan.sides
    )
    return Figure(
        "cluster",
        f"The loads of each block of a cluster of {shape}, and their receivers",
        panels,
        PALETTE,
        caption=f"A block is a cell: its tile is {plan.tile[plan.m]} of {plan.m} x {plan.tile[plan.n]} of {plan.n}, "
        f"and it multiplies tiles of {sizes}. Cells of one colour multiply the same part of the operand.",
        notes=_notes(plan),
        subjects=(
            Subject(("schedule", "cluster")),
            *(Subject(("schedule", "copies"), f"load of {t.name}") for x in plan.sides for t in x.tensors),
        ),
    )


def _panel(plan: WarpspecializedPlan, side: Side) -> Grid:
    m, n = plan.cluster
    name = " and ".join(tensor.name for tensor in side.tensors)

    def cell(x: int, y: int) -> Cell:
        for_whom, own = receivers(plan, side, x, y), x if side.letter == "A" else y
        part = (y if side.letter == "A" else x) if side.shared_by > 1 else 0
        first, others = own * side.block, ", ".join(map(str, for_whom))
        whose = f"{side.mode} {first}-{first + side.block - 1}"
        share = f"part {part} of {side.shared_by}" if side.shared_by > 1 else "all"
        label = f"{share} to {others}" if side.shared_by > 1 else "all"
        mask = sum(1 << rank for rank in for_whom)
        about = f"block {x + y * m} loads {share} of {name}, {whose} of the cluster's tile, for block {others}"
        facts = {"block": x + y * m, "part": part, "of": side.shared_by, "for": list(for_whom), "mask": mask}
        return Cell((f"block {x + y * m}", label), hue(own), about, facts)

    rows = number_axis(plan.m, m * plan.tile[plan.m], plan.tile[plan.m], m)
    columns = number_axis(plan.n, n * plan.tile[plan.n], plan.tile[plan.n], n)
    cells = tuple(tuple(cell(x, y) for y in range(n)) for x in range(m))
    return Grid(f"loads of {name}", rows, columns, cells, ("block", "loads"))


def _notes(plan: WarpspecializedPlan) -> tuple[str, ...]:
    m, n = plan.cluster
    parts: tuple[str, ...] = ()
    if plan.split > 1:
        parts = (
            f"Drawn are the {count(m * n, 'block')} that have the first part of the sum; those with the others load "
            f"alike, of other tiles along {plan.k}, and are numbered from {m * n} on. Blocks with the same tile send "
            "each other sums.",
        )
    if plan.peers == 1:
        return ("Nothing is shared: every block loads all that it multiplies.", *parts)
    return (
        *parts,
        f"A stage is free when the consumers of all {plan.peers} blocks that get something from each other say so: "
        "each loads into the shared memory of the others.",
    )
