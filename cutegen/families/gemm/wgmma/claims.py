"""Claims about the plan of a warp-specialised gemm."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once, mode_in_bounds
from cutegen.analysis.words import count
from cutegen.dtypes import Dtype
from cutegen.families.common.claims import miscounted, not_stored, share_predicates
from cutegen.families.common.ordering import ordered
from cutegen.families.common.row_copies import rows_copied
from cutegen.families.gemm.batches import in_matrices, walked_once
from cutegen.families.gemm.wgmma.pictures import walk_of
from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import ROWS, WARPGROUP, accumulator_layout
from cutegen.families.gemm.wgmma.scales_claims import scales_claimed
from cutegen.families.gemm.wgmma.synchronisation import Counts, counts, run_of


def claims(plan: WarpspecializedPlan) -> Iterator[Claim]:
    """The claims on a gemm's plan: coverage first, then the bounds of every mode, then the order of warps.

    By way of workspaces that is the same kernel, to which they are tensors as it takes them: all that is claimed then
    is of the copies.
    """
    if plan.way:
        assert plan.row_copies is not None
        yield from rows_copied(plan.row_copies, plan.padded, ("schedule", "copies", plan.padded[0].name, "misaligned"))
        return
    shape = (plan.tile[plan.m], plan.own_columns)
    layout = accumulator_layout(plan.groups, shape[1], compact(shape)[:2], plan.row_blocks)  # type: ignore[arg-type]
    wrong = (*miscounted(plan, layout), *not_stored(plan, *plan.spec.outputs))
    what = f"the accumulators of the consumer warpgroups cover each element of the tile ({plan.m}, {plan.n}) once"
    if plan.split > 1:
        what = f"the sums that a block stores are each element of its part of the tile ({plan.m}, {plan.n}) once"
        yield from _split(plan)
    yield covered_once(what, layout, shape, ("schedule", "warps"), plan.groups * WARPGROUP, wrong)
    yield _rows(plan)
    yield _bytes(plan)
    if plan.sources:
        yield _brought(plan)
    yield from scales_claimed(plan)
    runs = are_runs(layout, shape, 1, plan.pointwise.vector) and share_predicates(plan)
    for mode, extent in zip((plan.m, plan.n), plan.cluster_tile, strict=True):
        width = plan.pointwise.vector if mode == plan.spec.output.major else 1
        if mode in plan.pointwise.masked or plan.spec.schedule.predication[mode] == "none":
            masked = mode in plan.pointwise.masked
            yield mode_in_bounds(plan.spec, f"{plan.spec.output.name}, ", mode, extent, masked, width, runs)
        else:
            yield _clipped(plan, mode)
    if plan.batch is not None:
        yield in_matrices(plan.spec.output, walk_of(plan))
    yield walked_once(plan.spec.output, walk_of(plan))
    yield _summed(plan)
    yield _ordered(plan)


def _ordered(plan: WarpspecializedPlan) -> Claim:
    """That warps may come in any order."""

    def words(sizes: Counts) -> str:
        return f"{count(sizes.tiles, 'tile')} of a cluster, {count(sizes.k_tiles, 'step')} along {plan.k}"

    over = f"tiles of a cluster x steps along {plan.k}"
    return ordered(counts(plan), lambda sizes: run_of(plan, sizes), words, over, ("schedule", "warps"))


def _clipped(plan: WarpspecializedPlan, mode: str) -> Claim:
    name = plan.spec.output.name
    guarded = {o.tensor.name for o in plan.pointwise.operands if plan.held(o) and plan.rows_masked}
    last = [o.tensor.name for o in plan.pointwise.operands if plan.by_columns(o) and mode in o.tensor.shape]
    accessed = [o.tensor for o in plan.pointwise.operands if plan.accessed(o) or plan.held(o)]
    direct = [tensor.name for tensor in accessed if mode in tensor.shape and tensor.name not in guarded]
    because: tuple[str, ...] = ("stores by tensor maps skip elements beyond the end, along every mode",)
    because += tuple(f"loads of {name} beyond the end read its last element" for name in last)
    more = tuple(f"{other} is accessed from registers without a predicate" for other in direct)
    where = ("schedule", "predication", mode)
    return Claim("bounds", f"{name}, {mode}: elements beyond the end are not stored", because + more, not more, where)


def _rows(plan: WarpspecializedPlan) -> Claim:
    rows, blocks = plan.tile[plan.m], plan.row_blocks
    text = f"the warpgroups that share a tile cover its rows along {plan.m}"
    found = plan.groups * blocks * ROWS
    because = (f"{plan.groups} * {blocks} * {ROWS} = {found}, and the tile has {rows}",)
    return Claim("coverage", text, because, found == rows, ("schedule", "warps", "consumers"))


def _bytes(plan: WarpspecializedPlan) -> Claim:
    """That a barrier expects what the loads of a tile bring, whether or not all of it lies in the tensors."""
    depth = plan.tile[plan.k]
    boxes = [(x, t, x.block * depth * t.dtype.bytes) for x in plan.sides for t in x.tensors]
    because = tuple(f"{t.name}: {x.block} * {depth} * {t.dtype.bytes} = {size}" for x, t, size in boxes)
    total = sum(size for _, _, size in boxes)
    text = "a stage's barrier expects the bytes of its loads"
    because = (*because, f"{total} bytes come, and {plan.stage_bytes} are expected")
    return Claim("coverage", text, because, total == plan.stage_bytes, ("schedule", "tiler"))


def _brought(plan: WarpspecializedPlan) -> Claim:
    """That the pieces of what epilogues read are what a block stores: as many elements."""
    pieces, names = plan.groups * plan.pieces, " and ".join(x.tensor.name for x in plan.sources)
    found, elements = pieces * ROWS * plan.columns, plan.tile[plan.m] * plan.own_columns
    because = (f"{count(pieces, 'piece')} of {ROWS} * {plan.columns} = {found} elements, of {elements}",)
    text = f"the loaded elements of {names} are as many as a block stores"
    return Claim("coverage", text, because, found == elements, ("schedule", "copies", plan.sources[0].tensor.name))


def _split(plan: WarpspecializedPlan) -> Iterator[Claim]:
    """That the blocks of a cluster along k have every tile of the sum once, and every column of the result."""
    split, n, where = plan.split, plan.n, ("schedule", "cluster", plan.k)
    most = 4 * split
    wrong = sum(
        [k for share in range(split) for k in range(k_tiles * share // split, k_tiles * (share + 1) // split)]
        != list(range(k_tiles))
        for k_tiles in range(most)
    )
    text = f"the {split} blocks that share a tile multiply each of its tiles along {plan.k} once"
    tried = f"tried of 0 to {most - 1} tiles: wrong of {wrong} numbers"
    yield Claim("coverage", text, (tried,), wrong == 0, where)
    text = "these blocks store each column of the tile once, and each receives the others' sums of its columns"
    columns, results = plan.own_columns * split, plan.tile[plan.m] * plan.own_columns * plan.products
    sent = (split - 1) * results * Dtype.f32.bytes
    because = (
        f"{split} * {plan.own_columns} = {columns}, and the tile has {plan.tile[n]} along {n}",
        f"{split - 1} * {results} results of 4 bytes = {sent} bytes come, and {plan.sent_bytes} are expected",
    )
    yield Claim("coverage", text, because, columns == plan.tile[n] and sent == plan.sent_bytes, where)


def _summed(plan: WarpspecializedPlan) -> Claim:
    names = " and ".join(tensor.name for x in plan.sides for tensor in x.tensors)
    text = f"{plan.k}: elements beyond the end of {names} add zeros"
    because = ("loads by tensor maps return zeros there, along every mode",)
    return Claim("bounds", text, because, True, ("schedule", "tiler", plan.k))
