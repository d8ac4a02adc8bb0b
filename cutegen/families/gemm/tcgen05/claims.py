"""Claims about the plan of a gemm on Blackwell's tensor cores."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once, mode_in_bounds
from cutegen.analysis.words import count
from cutegen.families.common.claims import miscounted, not_stored, share_predicates
from cutegen.families.common.ordering import ordered
from cutegen.families.common.row_copies import rows_copied
from cutegen.families.gemm.batches import in_matrices, walked_once
from cutegen.families.gemm.tcgen05.pictures import walk_of
from cutegen.families.gemm.tcgen05.plan import Tcgen05Plan
from cutegen.families.gemm.tcgen05.product import ALL_COLUMNS, ALLOCATED, ROWS, accumulator_layout
from cutegen.families.gemm.tcgen05.synchronisation import counts, run_of


def claims(plan: Tcgen05Plan) -> Iterator[Claim]:
    """The claims on a gemm's plan: coverage first, then the bounds of every mode, then the order of warps.

    By way of workspaces that is the same kernel, to which they are tensors as it takes them: all that is claimed then
    is of the copies.
    """
    if plan.way:
        assert plan.row_copies is not None
        yield from rows_copied(plan.row_copies, plan.padded, ("schedule", "copies", plan.padded[0].name, "misaligned"))
        return
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    layout = accumulator_layout(shape[1], compact(shape))
    wrong = (*miscounted(plan, layout), *not_stored(plan, *plan.spec.outputs))
    what = f"the accumulators of the warps that store cover each element of the tile ({plan.m}, {plan.n}) once"
    yield covered_once(what, layout, shape, ("schedule", "tiler"), ROWS, wrong)
    yield _columns(plan)
    yield _bytes(plan)
    runs = are_runs(layout, shape, 1, plan.pointwise.vector) and share_predicates(plan)
    for mode in (plan.m, plan.n):
        width = plan.pointwise.vector if mode == plan.spec.output.major else 1
        masked = mode in plan.pointwise.masked
        yield mode_in_bounds(plan.spec, f"{plan.spec.output.name}, ", mode, plan.tile[mode], masked, width, runs)
    if plan.batch is not None:
        yield in_matrices(plan.spec.output, walk_of(plan))
    yield walked_once(plan.spec.output, walk_of(plan))
    over = f"steps along {plan.k}"
    yield ordered(counts(plan), lambda k: run_of(plan, k), lambda k: count(k, "step"), over, ("schedule", "mma"))


def _columns(plan: Tcgen05Plan) -> Claim:
    """That a block allocates columns that there are, and that hold its sums."""
    columns, needed = plan.columns, len(plan.b) * plan.tile[plan.n]
    fits = needed <= columns and ALLOCATED <= columns <= ALL_COLUMNS and columns & (columns - 1) == 0
    because = (
        f"{needed} columns of {ROWS} lanes have the sums of a tile, and {columns} are allocated: a power of two from "
        f"{ALLOCATED} to {ALL_COLUMNS}",
        f"{count(ALL_COLUMNS // columns, 'block')} of a multiprocessor can have as many",
    )
    return Claim("coverage", "the sums of a tile fit the block's tensor memory", because, fits, ("schedule", "tiler"))


def _bytes(plan: Tcgen05Plan) -> Claim:
    """That a barrier expects what the loads of a tile bring, whether or not all of it lies in the tensors."""
    depth = plan.tile[plan.k]
    boxes = [(x.tensor, x.block, x.block * depth * x.tensor.dtype.bytes) for x in plan.sides]
    because = tuple(f"{t.name}: {block} * {depth} * {t.dtype.bytes} = {size}" for t, block, size in boxes)
    total = sum(size for _, _, size in boxes)
    text = "a stage's barrier expects the bytes of its loads"
    because = (*because, f"{total} bytes come, and {plan.stage_bytes} are expected")
    return Claim("coverage", text, because, total == plan.stage_bytes, ("schedule", "tiler"))
