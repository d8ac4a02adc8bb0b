"""What is proved of the plan of a gemm whose warps have roles."""

from __future__ import annotations

from collections.abc import Iterator

from cutegen.analysis.claims import Claim, are_runs, compact, covered_once, mode_in_bounds
from cutegen.families.common.claims import miscounted, not_stored, share_predicates
from cutegen.families.gemm_warpspecialized.plan import WarpspecializedPlan
from cutegen.families.gemm_warpspecialized.product import ROWS, WARPGROUP, accumulator_layout


def claims(plan: WarpspecializedPlan) -> Iterator[Claim]:
    """The claims on a gemm's plan: coverage first, then the bounds of every mode."""
    shape = (plan.tile[plan.m], plan.tile[plan.n])
    layout = accumulator_layout(plan.consumers, shape[1], compact(shape)[:2])  # type: ignore[arg-type]
    wrong = (*miscounted(plan, layout), *not_stored(plan, plan.spec.output))
    what = f"the accumulators of the warpgroups that multiply are each element of its tile ({plan.m}, {plan.n}) once"
    yield covered_once(what, layout, shape, ("schedule", "warps"), plan.consumers * WARPGROUP, wrong)
    yield _rows(plan)
    yield _bytes(plan)
    runs = are_runs(layout, shape, 1, plan.pointwise.vector) and share_predicates(plan)
    for mode in (plan.m, plan.n):
        width = plan.pointwise.vector if mode == plan.spec.output.major else 1
        masked = mode in plan.pointwise.masked
        yield mode_in_bounds(plan.spec, f"{plan.spec.output.name}, ", mode, plan.tile[mode], masked, width, runs)
    yield _summed(plan)


def _rows(plan: WarpspecializedPlan) -> Claim:
    rows = plan.tile[plan.m]
    text = f"the warpgroups that multiply have the rows of a tile of {plan.m} between them"
    because = (f"{plan.consumers} * {ROWS} = {plan.consumers * ROWS}, and the tile has {rows}",)
    return Claim("coverage", text, because, plan.consumers * ROWS == rows, ("schedule", "warps", "consumers"))


def _bytes(plan: WarpspecializedPlan) -> Claim:
    """That a barrier expects what the loads of a tile bring, whether or not all of it lies in the tensors."""
    depth = plan.tile[plan.k]
    boxes = [(x, x.block * depth * x.tensor.dtype.bytes) for x in plan.sides]
    because = tuple(f"{x.tensor.name}: {x.block} * {depth} * {x.tensor.dtype.bytes} = {size}" for x, size in boxes)
    total = sum(size for _, size in boxes)
    text = "a stage's barrier expects the bytes that the loads of its tile bring"
    because = (*because, f"{total} bytes come, and {plan.stage_bytes} are expected")
    return Claim("coverage", text, because, total == plan.stage_bytes, ("schedule", "tiler"))


def _summed(plan: WarpspecializedPlan) -> Claim:
    text = f"{plan.k}: what lies beyond the end of {plan.a.tensor.name} and {plan.b.tensor.name} adds nothing"
    because = ("loads by tensor maps bring zeros from there, along every mode",)
    return Claim("bounds", text, because, True, ("schedule", "tiler", plan.k))
