"""The keys of the spec that a plan's parts come from, dotted, as templates name them in their regions."""

from __future__ import annotations

from typing import Any

from cutegen.planning.plan import ElementwisePlan, GemmPlan, Plan


def origins(plan: Plan) -> dict[str, Any]:
    """What the templates of all ops call: the keys of copies, predicates, tiles and of what a thread owns."""
    masked = plan.pointwise.masked
    context: dict[str, Any] = {
        # In a gemm, whatever the epilogue reads moves as the output does
        "copy_path": f"schedule.copies.{plan.spec.output.name}" if isinstance(plan, GemmPlan) else "schedule.copy",
        "mask_path": f"schedule.predication.{masked[0]}" if len(masked) == 1 else "schedule.predication",
    }
    if isinstance(plan, ElementwisePlan):
        # A thread-value partition has no tiler of its own: both layouts make it
        context["tile_path"] = "schedule.partition" if plan.partition == "thread_value" else "schedule.tiler"
        shared = plan.partition == "inner_outer"
        context["share_path"] = "schedule.thread_layout" if shared else "schedule.partition"
    return context


def elementwise_constants(plan: ElementwisePlan) -> dict[str, str]:
    match plan.partition:
        case "inner":
            tile, threads, values = "schedule.tiler", "schedule.threads", "schedule.tiler"
        case "inner_outer":
            tile, threads, values = "schedule.tiler", "schedule.thread_layout", "schedule.tiler"
        case "thread_value":
            tile, threads, values = "schedule.partition", "schedule.thread_layout", "schedule.value_layout"
    return {"TILER": tile, "THREADS": threads, "VALUES": values, "VECTOR": "schedule.copy"}
