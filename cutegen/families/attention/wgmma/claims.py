"""Claims about the plan of a contraction by warpgroups, its accesses to global memory, and its shared memory."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import Layout

from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import compact, covered_once
from cutegen.analysis.words import count
from cutegen.families.attention.wgmma import allocation
from cutegen.families.attention.wgmma.plan import ROWS, WARPGROUP, WarpgroupAttentionPlan
from cutegen.families.attention.wgmma.synchronisation import counts, run_of
from cutegen.families.common.ordering import ordered

COLUMNS = 8  # of which a thread has two


def sums(plan: WarpgroupAttentionPlan, columns: int, strides: tuple[int, ...]) -> Layout:
    """The layout (thread, sum) -> element of a tile of rows and `columns`.

    A warp has 16 of its warpgroup's 64 rows; a thread has rows lane / 4 and 8 below, and pairs of columns of 8
    (PTX ISA 9.1, section 9.7.15.5.1).
    """
    m, n = strides
    return Layout(
        ((4, 8, 4, plan.consumers), (2, 2, columns // COLUMNS)),
        ((2 * n, m, 16 * m, ROWS * m), (n, 8 * m, COLUMNS * n)),
    )


def claims(plan: WarpgroupAttentionPlan) -> Iterator[Claim]:
    """The claims: coverage first, then bounds, then the order of warps."""
    every = [(columns, "sums") for columns in plan.sum_products]
    for columns, what in (*every, (plan.key_block, "scores")):
        shape = (plan.row_block, columns)
        text = f"the {what} of the warpgroups are each element of a block's tile exactly once"
        threads = plan.consumers * WARPGROUP
        yield covered_once(text, sums(plan, columns, compact(shape)), shape, ("schedule", "mma"), threads)
    yield from _bounds(plan)

    def words(tiles: int) -> str:
        return f"{count(tiles, 'tile')} along {plan.walked.walked}"

    over = f"tiles along {plan.walked.walked}"
    yield ordered(counts(plan), lambda tiles: run_of(plan, tiles), words, over, ("schedule", "pipeline"))


def _bounds(plan: WarpgroupAttentionPlan) -> Iterator[Claim]:
    rows, walked = plan.rows_mode, plan.walked.walked
    for x in plan.outputs:
        text = f"{x.tensor.name}, {rows}: rows beyond the end are not stored"
        stored = ("stores by tensor maps skip elements beyond the end",)
        yield Claim("bounds", text, stored, True, ("schedule", "tiler", rows))
    for mode, depth in dict.fromkeys((x.depth_mode, x.depth) for x in (*plan.loaded, *plan.outputs)):
        text, size = f"{mode}: a tile has whole rows", plan.spec.static[mode]
        yield Claim("bounds", text, (f"rows of {size}, tiles of {depth}",), size == depth, ("static", mode))
    because: tuple[str, ...] = ("its scores are compared with the size", "loads by tensor maps return zeros there")
    text = f"{walked}: what lies beyond counts for nothing"
    if plan.whole:
        text, because = f"{walked}: the last tile is whole", (f"{walked} is a multiple of {plan.key_block}",)
    yield Claim("bounds", text, because, True, ("schedule", "tiler", walked))


def accesses(plan: WarpgroupAttentionPlan) -> tuple[Access, ...]:
    """The stores of outputs of rows; tensor maps move the rest."""
    found = []
    for tensor in plan.spec.outputs:
        if tensor.name not in {x.tensor.name for x in plan.outputs}:
            (stride,) = strides_of(tensor, (plan.rows_mode,), fixed_sizes(plan.spec, plan.tile))
            layout = Layout(((8, 4, plan.consumers), 2), ((stride, 16 * stride, ROWS * stride), 8 * stride))
            way = f"{tensor.name} to global memory"
            found.append(Access(way, tensor.name, tensor.dtype, "global", "write", 1, layout, ("tensors", tensor.name)))
    return tuple(found)


def buffers(plan: WarpgroupAttentionPlan) -> Iterator[Buffer]:
    """The tiles and stages of the tensors that are multiplied, and barriers."""
    own = [x for x in plan.outputs if x.tensor.name not in plan.overlaid]
    of_rows = [(x, plan.consumers) for x in (*plan.lefts, *own)]
    for x, number in (*of_rows, *((x, plan.stages) for x in plan.rights)):
        yield Buffer(x.tensor.name, x.depth, x.depth, x.rows, number, number * x.bytes, f"of {x.row}", x.swizzle)
    for tensor in plan.vectors:
        size = 2 * plan.consumers * plan.key_block * tensor.dtype.bytes
        yield Buffer(tensor.name, plan.key_block, plan.key_block, 1, 2 * plan.consumers, size, "of a tile")
    barriers, count = allocation.barriers(plan.spec), len(plan.lefts)
    single, staged = barriers[0], barriers[count:]
    for x in plan.lefts:
        yield Buffer("barrier", 1, 1, 1, 1, single.bytes, f"of {x.tensor.name}")
    size = len(staged) * plan.stages * single.bytes
    yield Buffer("barriers", plan.stages, plan.stages, 1, len(staged), size, "of a kind")
