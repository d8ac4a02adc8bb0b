"""Claims and accesses of scales of blocks: which scales a thread multiplies its products by, and how it loads them."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.claim import Claim
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import COLUMNS, ROWS, column_layout, row_layout
from cutegen.families.gemm.wgmma.scales import Scale

PATH = ("compute",)


def scales_claimed(plan: WarpspecializedPlan) -> Iterator[Claim]:
    """That each product is multiplied by the scales of its block, and that no scale beyond a tensor's end is read."""
    scales = [scale for scale in (plan.scale_a, plan.scale_b) if scale is not None]
    if not scales:
        return
    depth, step = scales[0].depth, plan.tile[plan.k]
    text = f"a step along {plan.k} lies in one block of scales, and its products are added once, from zero"
    divided = (f"a block has {depth} of {plan.k}, which is {depth // step} * {step}",)
    yield Claim("coverage", text, divided, depth % step == 0, ("schedule", "tiler", plan.k))
    scale = plan.scale_b
    if scale is not None and scale.along is not None:
        tiles = range(scale.unit)
        starts = (tile * plan.tile[plan.n] + i * plan.chunk for tile in tiles for i in range(plan.chunks))
        wrong = sum(start // scale.unit != (start + plan.chunk - 1) // scale.unit for start in starts)
        text = f"each {plan.chunk} columns of a tile have one scale of {scale.tensor.name}, of {scale.unit} columns"
        tried = f"tried of the first {scale.unit} tiles: wrong in {wrong}"
        holds = wrong == 0 and plan.chunk % COLUMNS == 0
        yield Claim("coverage", text, (tried,), holds, ("schedule", "tiler", plan.n))
    for scale in scales:
        text = f"{scale.tensor.name}: no element beyond its end is read"
        because: tuple[str, ...] = (f"the step after the last one along {plan.k} reads the scales of that one again",)
        if scale.along is not None:
            clips = scale.unit > 1 or plan.spec.schedule.predication[scale.along] == "mask"
            beyond = f"beyond the end along {scale.along}, the last scale is read"
            because = (beyond if clips else f"no tile ends beyond {scale.along}", *because)
        yield Claim("bounds", text, because, True, ("tensors", scale.tensor.name))


def scales_accessed(plan: WarpspecializedPlan) -> Iterator[Access]:
    """The loads of scales: those of a thread's rows, and of the columns of a tile, which are the same for a warp."""
    for letter, scale in (("A", plan.scale_a), ("B", plan.scale_b)):
        if scale is None:
            continue
        step = _step(plan, scale)
        layout = row_layout(plan.groups, step, plan.row_blocks)
        if letter == "B":
            layout = column_layout(plan.groups, COLUMNS * plan.chunks, 0, plan.tile[plan.m] // (ROWS * plan.groups))
        name = f"{scale.tensor.name} from global memory"
        yield Access(name, scale.tensor.name, scale.tensor.dtype, "global", "read", 1, layout, PATH)


def _step(plan: WarpspecializedPlan, scale: Scale) -> int:
    """Elements between the scales of neighbouring rows: none within a block of rows."""
    if not scale.of_each:
        return 0
    (step,) = strides_of(scale.tensor, (str(scale.along),), fixed_sizes(plan.spec, plan.tile))
    return step
