"""Claims about a contraction's plan, the accesses of its warps to global memory, and the parts of shared memory."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis.access import Access
from cutegen.analysis.accesses import fixed_sizes, strides_of
from cutegen.analysis.buffers import Buffer, Scratch
from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once
from cutegen.analysis.words import count
from cutegen.dtypes import Dtype
from cutegen.expressions.places import joined
from cutegen.families.attention.mma_sync.plan import AttentionPlan, Operand
from cutegen.families.attention.mma_sync.synchronisation import counts, run_of
from cutegen.families.common.dealing import dealt
from cutegen.families.common.ordering import ordered

ROWS, COLUMNS = 16, 8  # of one mma.sync
MOST_TILES, MOST_ROWS = 2**31 - 1, 2**31 - 2**12
ACCESS = 16  # bytes


def copied(x: Operand, strides: Sequence[int]) -> Layout:
    """The layout (thread, value) -> element of all that a thread copies of a tile."""
    return dealt(x.threads, x.values, (x.rows, x.depth), tuple(strides))


def sums(plan: AttentionPlan, columns: int, strides: Sequence[int]) -> Layout:
    """The layout (thread, sum) -> element of a tile of rows and `columns`.

    A thread has rows lane / 4 and 8 below of a warp's 16, and pairs of columns of 8 (PTX ISA 9.1, section 9.7.14.5).
    """
    m, n = strides
    rest = plan.row_block // (ROWS * plan.warps), columns // COLUMNS
    return Layout(
        ((4, 8, plan.warps), (2, 2, *rest)),
        ((2 * n, m, ROWS * m), (n, 8 * m, ROWS * plan.warps * m, COLUMNS * n)),
    )


def claims(plan: AttentionPlan) -> Iterator[Claim]:
    """The claims: coverage first, then bounds, then the order of warps."""
    for x in (plan.q, plan.k, plan.v, plan.o):
        shape, name = (x.rows, x.depth), x.tensor.name
        what = f"the copies of {name} move each element of its tile ({x.row}, {x.depth_mode}) exactly once"
        path = ("schedule", "tiler", x.row)
        yield covered_once(what, copied(x, compact(shape)), shape, path, plan.threads)
        yield _own_places(plan, x)
    for columns, what in ((plan.key_block, "scores"), (plan.columns, "sums")):
        shape = (plan.row_block, columns)
        text = f"the {what} of the warps are each element of a block's tile exactly once"
        yield covered_once(text, sums(plan, columns, compact(shape)), shape, ("schedule", "mma"), plan.threads)
    yield from _bounds(plan)

    def words(tiles: int) -> str:
        return f"{count(tiles, 'tile')} along {plan.walked.walked}"

    over = f"tiles along {plan.walked.walked}"
    yield ordered(counts(plan), lambda tiles: run_of(plan, tiles), words, over, ("schedule", "pipeline"))


def _own_places(plan: AttentionPlan, x: Operand) -> Claim:
    places, width = layouts.offsets(x.smem_layout), x.tensor.dtype.bytes
    end = x.offset + (max(places) + 1) * width
    after = {plan.q.tensor.name: plan.k.offset, plan.k.tensor.name: plan.v.offset}.get(x.tensor.name, plan.smem_bytes)
    after = plan.smem_bytes if x is plan.o else after
    holds = len(places) == len(set(places)) and end <= after and x.offset % (8 * x.swizzle) == 0
    because = (
        f"{count(len(places), 'element')} have {len(set(places))} places",
        f"bytes {x.offset} to {end - 1} of {plan.smem_bytes}; rows of {x.swizzle} exchange theirs in groups of eight",
    )
    text = f"each element of {x.tensor.name} in shared memory has a place of its own"
    return Claim("coverage", text, because, holds, ("schedule", "pipeline", "stages"))


def _bounds(plan: AttentionPlan) -> Iterator[Claim]:
    for x in (plan.q, plan.k, plan.v, plan.o):
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


def largest(plan: AttentionPlan, beside: Mapping[str, int] | None) -> Mapping[str, int]:
    """The largest sizes that two grids can count: of tiles of rows for each part, and of rows."""
    sizes = {mode: max(1, (beside or {}).get(mode, 1)) for mode in (*plan.row_modes, *plan.outer)}
    rows, outer = (prod(sizes[mode] for mode in modes) for modes in (plan.row_modes, plan.outer))
    tiles = MOST_TILES // plan.parts
    found = {}
    for mode in plan.row_modes:
        others = rows // sizes[mode]
        found[mode] = min(tiles // outer * plan.row_block // others, MOST_ROWS // outer // others)
    for mode in plan.outer:
        others = outer // sizes[mode]
        found[mode] = min(tiles // -(-rows // plan.row_block) // others, MOST_ROWS // rows // others)
    return found


def scratch(plan: AttentionPlan) -> Iterator[Scratch]:
    """The workspace of what the parts of a walk give for each row."""
    if plan.parts > 1:
        rows = joined((*plan.outer, *plan.row_modes))
        yield Scratch(plan.o.tensor.name, ((rows, 1),), plan.given * Dtype.f32.bytes, plan.parts)


def accesses(plan: AttentionPlan) -> tuple[Access, ...]:
    """The copies of tiles, then the store of the output with columns, and of those of rows."""
    found = []
    for x in (plan.q, plan.k, plan.v, plan.o):
        name, stored = x.tensor.name, x is plan.o
        strides = strides_of(x.tensor, (x.row, x.depth_mode), fixed_sizes(plan.spec, plan.tile))
        vector, path = ACCESS // x.tensor.dtype.bytes, ("schedule", "tiler", x.row)
        way = f"{name} {'to' if stored else 'from'} global memory"
        found.append(
            Access(way, name, x.tensor.dtype, "global", "write" if stored else "read", vector, copied(x, strides), path)
        )
    for tensor in plan.spec.outputs:
        if tensor.name != plan.o.tensor.name:
            row = plan.rows_mode
            (stride,) = strides_of(tensor, (row,), fixed_sizes(plan.spec, plan.tile))
            layout = Layout(((8, plan.warps), plan.row_block // (8 * plan.warps)), ((stride, 16 * stride), 8 * stride))
            way = f"{tensor.name} to global memory"
            found.append(Access(way, tensor.name, tensor.dtype, "global", "write", 1, layout, ("tensors", tensor.name)))
    return tuple(found)


def buffers(plan: AttentionPlan) -> Iterator[Buffer]:
    """The stages of the tensors that are multiplied."""
    for x in (plan.q, plan.k, plan.v):
        yield Buffer(x.tensor.name, x.depth, x.depth, x.rows, x.stages, x.bytes, f"of {x.row}", x.swizzle)
