"""The ways in which a warp-specialised gemm runs, as plans of their own."""

from __future__ import annotations

from dataclasses import replace
from math import lcm

from cutegen.families.gemm.wgmma.plan import WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import ALIGN

COPIED = "by way of workspaces"


def variants(plan: WarpspecializedPlan) -> tuple[WarpspecializedPlan, ...]:
    """The plan alone; or with the promises that tensor maps need, and without them, where calls copy some tensors."""
    if not plan.padded:
        return (plan,)
    spec, names, divisible = plan.spec, [t.name for t in plan.padded], dict(plan.spec.divisible)
    for tensor in plan.padded:
        if tensor.writes and tensor.major is not None and tensor.major not in spec.static:
            unit = ALIGN // tensor.dtype.bytes  # of the whole 16 bytes that are stored
            divisible[tensor.major] = lcm(divisible.get(tensor.major, 1), unit)
    aligned = tuple(replace(t, align=ALIGN) if t.name in names else t for t in spec.tensors)
    return replace(plan, spec=replace(spec, tensors=aligned, divisible=divisible)), replace(plan, way=COPIED)
