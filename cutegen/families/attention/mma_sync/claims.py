"""Claims about a contraction's plan, the accesses of its warps to global memory, and the parts of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once
from cutegen.analysis.words import count
from cutegen.atoms.targets import WARP
from cutegen.expressions.places import joined
from cutegen.families.attention.mma_sync.merge_claims import split_accesses, split_claims
from cutegen.families.attention.mma_sync.plan import AttentionPlan, CopiedOperand
from cutegen.families.attention.mma_sync.synchronisation import counts, run_of
from cutegen.families.common.dealing import dealt
from cutegen.families.common.ordering import ordered

ROWS, COLUMNS = 16, 8  # of one mma.sync
ACCESS = 16  # bytes


def copied(x: CopiedOperand, strides: Sequence[int]) -> Layout:
    """The layout (thread, value) -> element of all that a thread copies of a tile."""
    return dealt(x.threads, x.values, (x.rows, x.depth), tuple(strides))


def sums(plan: AttentionPlan, columns: int, strides: Sequence[int], of_scores: bool) -> Layout:
    """The layout (thread, sum) -> element of a tile of rows and `columns`, of the warps that share it: each has some
    rows, or where warps share what is walked, the columns of some scores, and all sums.

    A thread has rows lane / 4 and 8 below of a warp's 16, and pairs of columns of 8 (PTX ISA 9.1, section 9.7.14.5).
    """
    m, n = strides
    rows, warps = plan.row_block // (ROWS * plan.row_warps), plan.row_warps
    step = ROWS * m  # from one warp to the next
    if of_scores and plan.key_warps > 1:
        warps, columns, step = plan.key_warps, plan.keys_of_warp, plan.keys_of_warp * n
    return Layout(
        ((4, 8, warps), (2, 2, rows, columns // COLUMNS)),
        ((2 * n, m, step), (n, 8 * m, ROWS * plan.row_warps * m, COLUMNS * n)),
    )


def copied_operands(plan: AttentionPlan) -> tuple[CopiedOperand, ...]:
    """The tensors that are copied in tiles: outputs are not where a second kernel stores them."""
    return plan.loaded if plan.parts > 1 else (*plan.loaded, *plan.outputs)


def claims(plan: AttentionPlan) -> Iterator[Claim]:
    """The claims: coverage first, then bounds, then the order of warps."""
    if plan.parts > 1:
        yield from split_claims(plan)
    for x in copied_operands(plan):
        shape, name = (x.rows, x.depth), x.tensor.name
        what = f"the copies of {name} move each element of its tile ({x.row}, {x.depth_mode}) exactly once"
        path = ("schedule", "tiler", joined(plan.row_modes) if x.row == plan.rows_mode else x.row)
        yield covered_once(what, copied(x, compact(shape)), shape, path, plan.threads)
        yield _own_places(plan, x)
    own = "each warp" if plan.key_warps > 1 else "the warps"
    widths = dict.fromkeys(one.values.depth for one in plan.outers)
    for columns, what, threads, of_scores in (
        (plan.key_block, "scores of the warps", plan.threads, True),
        *((width, f"sums of {own}", plan.row_warps * WARP, False) for width in widths),
    ):
        shape = (plan.row_block, columns)
        text = f"the {what} are each element of a block's tile exactly once"
        layout = sums(plan, columns, compact(shape), of_scores)
        yield covered_once(text, layout, shape, ("schedule", "mma"), threads)
    yield from _bounds(plan)

    def words(tiles: int) -> str:
        return f"{count(tiles, 'tile')} along {plan.walked.walked}"

    over = f"tiles along {plan.walked.walked}"
    yield ordered(counts(plan), lambda tiles: run_of(plan, tiles), words, over, ("schedule", "pipeline"))


def _own_places(plan: AttentionPlan, x: CopiedOperand) -> Claim:
    places, width = layouts.offsets(x.smem_layout), x.tensor.dtype.bytes
    end = x.offset + (max(places) + 1) * width
    beside = plan.loaded if x in plan.loaded else plan.outputs
    after = min((one.offset for one in beside if one.offset > x.offset), default=plan.smem_bytes)
    holds = len(places) == len(set(places)) and end <= after and x.offset % (8 * x.swizzle) == 0
    because = (
        f"{count(len(places), 'element')} have {len(set(places))} places",
        f"bytes {x.offset} to {end - 1} of {plan.smem_bytes}; rows of {x.swizzle} exchange theirs in groups of eight",
    )
    text = f"each element of {x.tensor.name} in shared memory has a place of its own"
    return Claim("coverage", text, because, holds, ("schedule", "pipeline", "stages"))


def _bounds(plan: AttentionPlan) -> Iterator[Claim]:
    for x in copied_operands(plan):
        shape, vector = (x.rows, x.depth), ACCESS // x.tensor.dtype.bytes
        runs = are_runs(copied(x, compact(shape)), shape, 1, vector)
        text = f"{x.tensor.name}, {x.row}: an access is made only if its row is below {x.row}"
        because = (
            f"accesses of {vector} along {x.depth_mode}, of which a tile has all {plan.spec.static[x.depth_mode]}",
        )
        yield Claim(
            "bounds", text, because, runs and plan.spec.static[x.depth_mode] == x.depth, ("tensors", x.tensor.name)
        )
    walked = plan.walked.walked
    if plan.whole:
        text, because = f"{walked}: the last tile is whole", (f"{walked} is a multiple of {plan.key_block}",)
    else:
        text, because = f"{walked}: what lies beyond counts for nothing", ("its scores are compared with the size",)
    yield Claim("bounds", text, because, True, ("schedule", "tiler", walked))


def accesses(plan: AttentionPlan) -> tuple[Access, ...]:
    """The copies of tiles, then the store of the output with columns, and of those of rows."""
    found = []
    for x in copied_operands(plan):
        name, stored = x.tensor.name, x in plan.outputs
        row = plan.row_modes[-1] if x.row == plan.rows_mode else x.row
        strides = strides_of(x.tensor, (row, x.depth_mode), fixed_sizes(plan.spec, plan.tile))
        vector, path = ACCESS // x.tensor.dtype.bytes, ("schedule", "tiler", joined(plan.row_modes))
        path = path if x.row == plan.rows_mode else ("schedule", "tiler", x.row)
        way = f"{name} {'to' if stored else 'from'} global memory"
        found.append(
            Access(way, name, x.tensor.dtype, "global", "write" if stored else "read", vector, copied(x, strides), path)
        )
    if plan.parts > 1:
        return (*found, *split_accesses(plan))
    for tensor in plan.spec.outputs:
        if tensor.name not in {x.tensor.name for x in plan.outputs}:
            row = plan.row_modes[-1]
            (stride,) = strides_of(tensor, (row,), fixed_sizes(plan.spec, plan.tile))
            layout = Layout(((8, plan.warps), plan.row_block // (8 * plan.warps)), ((stride, 16 * stride), 8 * stride))
            way = f"{tensor.name} to global memory"
            found.append(Access(way, tensor.name, tensor.dtype, "global", "write", 1, layout, ("tensors", tensor.name)))
    return tuple(found)


def buffers(plan: AttentionPlan) -> Iterator[Buffer]:
    """The stages of the tensors that are multiplied."""
    for x in plan.loaded:
        yield Buffer(x.tensor.name, x.depth, x.depth, x.rows, x.stages, x.bytes, f"of {x.row}", x.swizzle)
