"""The pictures of products: the accumulators of warpgroups, and several products side by side."""

from __future__ import annotations

from cutegen.analysis.accesses import accesses
from cutegen.drawing.grids import MOST_COLUMNS, images, number_axis
from cutegen.drawing.kernels import draw_threads
from cutegen.drawing.model import Axis, Cell, Figure, Grid, Subject
from cutegen.drawing.threads import partition
from cutegen.drawing.timelines import PALETTE, hue
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import COLUMNS, ROWS, WARPGROUP, accumulator_layout

PAIR = 2  # columns that a thread has next to each other
QUAD = 4  # accumulators of a thread of 8 columns of 64 rows


def draw_accumulators(plan: WarpspecializedPlan) -> Figure:
    """The figure of the elements of a tile that each consumer thread, counted from the first, accumulates."""
    output, tile = plan.spec.output.name, (plan.tile[plan.m], plan.tile[plan.n])
    layout = accumulator_layout(plan.groups, plan.tile[plan.n], (1, tile[0]), plan.row_blocks)
    return draw_threads(
        "accumulators",
        f"Which thread that multiplies accumulates which elements of {output}",
        partition(WARPGROUP * plan.groups, images(layout), tile),
        (plan.m, plan.n),
        [access for access in accesses(plan) if access.space == "global"],
        (Subject(("schedule", "mma")), Subject(name="epilogue"), Subject(name=f"copy of {output}")),
        PAIR,
    )


def draw_products(plan: WarpspecializedPlan) -> Figure:
    """The figure of several products that are made as one: which accumulators of a thread are whose."""
    stacked = max(plan.a.tensors, plan.b.tensors, key=len)
    side = plan.b if len(plan.b.tensors) > 1 else plan.a
    blocks = plan.row_blocks
    steps = plan.tile[plan.n] // COLUMNS
    columns = number_axis(plan.n, plan.tile[plan.n], COLUMNS, MOST_COLUMNS)

    def cell(product: int, block: int, step: int) -> Cell:
        # Of one wgmma all columns, those of the products side by side; then the next rows
        first = QUAD * (product * steps + step + block * steps * len(stacked))
        if side.letter == "A":
            first = QUAD * (step + (product * blocks + block) * steps)
        name = stacked[product].name
        about = (
            f"the product with {name}, rows {block * ROWS}-{block * ROWS + ROWS - 1} of a warpgroup, {plan.n} "
            f"{step * COLUMNS}-{step * COLUMNS + COLUMNS - 1}: accumulators {first}-{first + QUAD - 1} of a thread"
        )
        facts = {"product": product, "block": block, "column": step * COLUMNS, "first": first}
        return Cell((f"V{first}-{first + QUAD - 1}",), hue(product), about, facts)

    several = blocks > 1
    labels = tuple(
        f"{tensor.name}, rows {block * ROWS}" if several else tensor.name
        for tensor in stacked
        for block in range(blocks)
    )
    cells = tuple(
        tuple(cell(product, block, step) for step in range(len(columns.labels)))
        for product in range(len(stacked))
        for block in range(blocks)
    )
    names = [tensor.name for tensor in stacked]
    where = "columns" if side.letter == "B" else "rows"
    how = "side by side" if side.letter == "B" else "below each other"
    return Figure(
        "products",
        f"The products with {' and '.join(names)} in the accumulators of a thread",
        (Grid("accumulators", Axis("product", len(labels), labels), columns, cells, ("values",)),),
        PALETTE,
        caption=f"One product of {plan.b.extent} columns is made with the {where} of {' and '.join(names)} {how}: a "
        f"thread has {QUAD * steps * blocks} accumulators of each, for the same places of {plan.spec.output.name}, so "
        "that the epilogue finds all of a place in one thread.",
        subjects=(Subject(("schedule", "mma"), "operands of the product"), Subject(name="epilogue")),
    )
