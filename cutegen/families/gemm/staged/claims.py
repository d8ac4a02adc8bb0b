"""Claims about a gemm's plan: each element of its tiles is covered exactly once, and no access is out of bounds."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tensor_layouts import Layout, size

from cutegen.analysis.claim import Claim
from cutegen.analysis.claims import are_runs, compact, covered_once, mode_in_bounds, sides_text
from cutegen.analysis.words import count
from cutegen.families.common.claims import miscounted, not_stored, share_predicates
from cutegen.families.common.ordering import ordered
from cutegen.families.gemm.batches import in_matrices, walked_once
from cutegen.families.gemm.staged.mainloop import ColumnMainloop, Mainloop
from cutegen.families.gemm.staged.partitions import epilogue_layout, tiled_copy, workspace_values
from cutegen.families.gemm.staged.pictures import walk_of
from cutegen.families.gemm.staged.plan import GemmPlan, MultistagePlan, StagedOperand
from cutegen.families.gemm.staged.synchronisation import counts, run_of
from cutegen.layouts import make_layout_tv
from cutegen.parts.acts import Run
from cutegen.planning.promises import known_divisor


def claims(plan: GemmPlan) -> Iterator[Claim]:
    """The claims on a gemm's plan: coverage first, then the bounds of every mode, then the order of warps."""
    yield from _coverage(plan)
    yield from _bounds(plan)
    yield order(ColumnMainloop(plan))


def _coverage(plan: GemmPlan) -> Iterator[Claim]:
    for space in plan.workspaces:
        name = space.tensor.name
        for what, written in (("read", False), ("written", True)):
            text = f"each element of a tile ({space.mode}, {space.k}) of {name}'s workspace is {what} exactly once"
            layout = workspace_values(space, compact(space.tile), written)
            yield covered_once(text, layout, space.tile, ("schedule", "workspace", name), space.threads)
    for x in (plan.a, plan.b):
        strange = f"columns of shared memory start every {count(x.smem_stride, 'element')}"
        yield copied(plan, x, *[strange] * (x.smem_stride < plan.tile[x.mode]))
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    layout = epilogue_layout(plan, compact(shape))
    wrong = (*miscounted(plan, layout), *not_stored(plan, *plan.spec.outputs))
    what = f"the accumulators of a block are each element of its tile ({plan.m}, {plan.n}) exactly once"
    yield covered_once(what, layout, shape, ("schedule", "mma"), plan.threads, wrong)
    yield from walked(plan)


def walked(plan: MultistagePlan) -> Iterator[Claim]:
    """The claim that blocks take the tiles of every matrix of a batch; none where there is one matrix."""
    if plan.batch is not None:
        yield walked_once(plan.spec.lead, walk_of(plan))


def copied(plan: MultistagePlan, x: StagedOperand, *wrong: str) -> Claim:
    """The claim that copies move each element of A's or B's tile once, in accesses as the layouts say, and that a
    thread has a predicate for each. `wrong` describes other errors.
    """
    shape, name = (plan.tile[x.mode], plan.tile[plan.k]), x.tensor.name
    tiler, _ = make_layout_tv(x.thread_layout, x.value_layout)
    values = int(size(x.value_layout))
    counted = (values // x.vector, *(extent // covered for extent, covered in zip(shape, tiler, strict=True)))
    if counted != x.copies or values % x.vector:
        wrong = (f"({sides_text(x.copies)}) accesses of {x.vector} are made", *wrong)
    what = f"the copies of {name} move each element of its tile ({x.mode}, {plan.k}) exactly once"
    layout = tiled_copy(x, shape, compact(shape))
    return covered_once(what, layout, shape, ("schedule", "copies", name), plan.threads, wrong)


def _workspace_bounds(plan: MultistagePlan) -> Iterator[Claim]:
    """The claims on the bounds of the kernels that fill workspaces.

    Their predicates compare the first coordinates of accesses with both sizes.
    """
    for x in plan.workspaces:
        name, path = x.tensor.name, ("schedule", "workspace", x.tensor.name)
        for what, along, vector in (("read", x.k, x.read), ("written", x.mode, x.write)):
            layout = workspace_values(x, compact(x.tile), what == "written")
            runs = are_runs(layout, x.tile, (x.mode, x.k).index(along), vector)
            known = known_divisor(plan.spec, x.k) if what == "read" else x.write
            size = x.k if what == "read" else f"{x.mode} of the workspace"
            text = f"{name}'s workspace, {what}: an access is made only if its first coordinates are below both sizes"
            because = (
                f"tiles of {x.tile[along == x.k]} and accesses both start at multiples of {vector}",
                f"{size} is a multiple of {known}, so that it never ends inside an access",
            )
            strange = () if runs else ("not every access is an aligned run along one mode, behind one predicate",)
            yield Claim("bounds", text, (*because, *strange), runs and known % vector == 0, path)


def _bounds(plan: GemmPlan) -> Iterator[Claim]:
    yield from _workspace_bounds(plan)
    yield from bounds(plan, epilogue_layout(plan, compact((plan.tile[plan.m], plan.tile[plan.n]))))


def bounds(plan: MultistagePlan, layout: Layout) -> Iterator[Claim]:
    """The claims on the bounds of every mode; `layout` deals the tile (m, n) out to the epilogue's accesses."""
    output, vector = plan.spec.lead, plan.pointwise.vector
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    runs = are_runs(layout, shape, (plan.m, plan.n).index(str(output.major)), vector) and share_predicates(plan)
    for mode, x in ((plan.m, plan.a), (plan.n, plan.b)):
        masked = mode in plan.pointwise.masked
        width = vector if mode == output.major else 1
        yield mode_in_bounds(plan.spec, f"{output.name}, ", mode, plan.tile[mode], masked, width, runs)
        width = x.vector if mode == x.tensor.major else 1
        runs_of_x, padded = _aligned_runs(plan, x), None if x.workspace is None else x.workspace.write
        yield mode_in_bounds(plan.spec, f"{x.tensor.name}, ", mode, plan.tile[mode], x.masked, width, runs_of_x, padded)
    if plan.batch is not None:
        yield in_matrices(output, walk_of(plan))
    yield _summed(plan)


def _aligned_runs(plan: MultistagePlan, x: StagedOperand) -> bool:
    """Whether every access to an operand is an aligned run along the mode in which it is contiguous."""
    shape = (plan.tile[x.mode], plan.tile[plan.k])
    return are_runs(tiled_copy(x, shape, compact(shape)), shape, int(x.tensor.major == plan.k), x.vector)


def _summed(plan: MultistagePlan) -> Claim:
    k, depth, path = plan.k, plan.tile[plan.k], ("schedule", "predication", plan.k)
    if not plan.residue:
        known = known_divisor(plan.spec, k)
        because: tuple[str, ...] = (f"the host takes multiples of {known} only, and the tile has {depth}",)
        return Claim("bounds", f"{k}: no predicate is needed", because, known % depth == 0, path)
    because = (
        f"the first tile starts at {k} - {depth} * ceil({k} / {depth}), above -{depth}, and the last one ends at {k}",
    )
    along = max(x.vector if x.tensor.major == k else 1 for x in (plan.a, plan.b))
    known = known_divisor(plan.spec, k)
    if along > 1:
        because += (f"accesses of {along} and {k} are multiples of {along}: the sign of their first k decides",)
    else:
        because += ("an access is within one k, whose sign decides",)
    whole = depth % along == 0 and known % along == 0
    text = f"{k}: only the first tile is incomplete, and it copies nothing below 0"
    return Claim("bounds", text, because, whole and all(_aligned_runs(plan, x) for x in (plan.a, plan.b)), path)


def order(loop: Mainloop[Any]) -> Claim:
    """The claim that the warps of a block may come in any order."""
    plan: MultistagePlan = loop.plan

    def run(k_tiles: int) -> Run:
        return run_of(loop, k_tiles)

    def words(k_tiles: int) -> str:
        return f"{count(k_tiles, 'tile')} along {plan.k}"

    return ordered(counts(plan), run, words, f"tiles along {plan.k}", ("schedule", "pipeline"))
