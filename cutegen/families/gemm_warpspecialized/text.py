"""What the module of a gemm whose warps have roles prints. Numbers come from the plan."""

from __future__ import annotations

from typing import Any

from cutegen.codegen.parts import Constant, KernelParts
from cutegen.families.common.pointwise_text import pointwise_context
from cutegen.families.gemm_warpspecialized.plan import Side, WarpspecializedPlan


def kernel_parts(plan: WarpspecializedPlan) -> KernelParts:
    """The parts of a module of one gemm."""
    a, b = plan.a.tensor.name, plan.b.tensor.name
    parameters = []
    for name in (a, b):
        parameters += [f"tma_{name}: cute.CopyAtom", f"s{name}_layout: cute.ComposedLayout"]
    return KernelParts(
        template="gemm.py.j2",
        constants=_constants(plan),
        context=_epilogue(plan) | _context(plan),
        parameters=(*parameters, "tiled_mma: cute.TiledMma"),
        launched={f"m{name}": f"tma_tensor_{name}" for name in (a, b)},
        largest=_largest(plan),
        nvgpu=("OperandMajorMode", "cpasync", "warpgroup"),
    )


def _constants(plan: WarpspecializedPlan) -> tuple[Constant, ...]:
    blocks, tiler = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}, "schedule.tiler"
    copies = f"schedule.copies.{plan.spec.output.name}"
    return (
        *(Constant(blocks[m], str(plan.tile[m]), "", f"{tiler}.{m}") for m in (plan.m, plan.n, plan.k)),
        Constant("TILER", f"({blocks[plan.m]}, {blocks[plan.n]}, {blocks[plan.k]})", "of a thread block", tiler),
        Constant("STAGES", str(plan.stages), "tiles in shared memory", "schedule.pipeline.stages"),
        Constant("CONSUMERS", str(plan.consumers), "warpgroups that multiply", "schedule.warps.consumers"),
        Constant("THREADS", "128 * (1 + CONSUMERS)", "", "schedule.warps.consumers"),
        Constant("STAGE_BYTES", str(plan.stage_bytes), "that the loads of one tile bring", tiler),
        Constant("VALUES", str(plan.pointwise.values), "accumulators of a thread", tiler),
        Constant("VECTOR", str(plan.pointwise.vector), f"elements of one access to {plan.spec.output.name}", copies),
        Constant("SLICE", str(plan.pointwise.slice), "accumulators that the epilogue takes at a time", "schedule.mma"),
    )


def _epilogue(plan: WarpspecializedPlan) -> dict[str, Any]:
    product = "product = acc[None, part].load().reshape((SLICE,))"
    return pointwise_context(plan, f"schedule.copies.{plan.spec.output.name}", accumulator=product)


def _context(plan: WarpspecializedPlan) -> dict[str, Any]:
    first, _ = plan.tile_order
    number = ("bidx", "bidy")
    blocks = {mode: f"BLK_{mode.upper()}" for mode in (plan.m, plan.n, plan.k)}
    return {
        "A": plan.a.tensor.name,
        "B": plan.b.tensor.name,
        "M": plan.m.upper(),
        "N": plan.n.upper(),
        "K": plan.k.upper(),
        "sides": [_side(plan, x, blocks) for x in plan.sides],
        "operand_type": f"cutlass.{plan.a.tensor.dtype.cutlass}",
        "block_coordinate": ", ".join(number[plan.tile_order.index(i)] for i in (0, 1)),
        "grid": ", ".join(("grid_m", "grid_n") if first == 0 else ("grid_n", "grid_m")) + ", 1",
        "row_first": False,
    }


def _side(plan: WarpspecializedPlan, side: Side, blocks: dict[str, str]) -> dict[str, Any]:
    """What is printed of A or B."""
    atom = f"{side.majorness}_SW{side.swizzle}"
    box, order = f"({blocks[side.mode]}, {blocks[plan.k]})", (0, 1, 2) if side.k_major else (1, 0, 2)
    return {
        "name": side.tensor.name,
        "box": box,
        "shape": f"({blocks[side.mode]}, {blocks[plan.k]}, STAGES)",
        "order": str(order),
        "atom": atom,
        "stage": f"_smem_layout(warpgroup.SmemLayoutAtomKind.{atom}, {box}, {order[:2]})",
        "tile": "m_tile" if side.letter == "A" else "n_tile",
        "path": f"schedule.smem.{side.tensor.name}.swizzle",
    }


def _largest(plan: WarpspecializedPlan) -> dict[str, str]:
    """The largest size that the grid can count, by mode, as text."""
    if plan.largest is None:
        return {}
    mode, most = plan.largest
    return {mode: f"{most // plan.tile[mode]} * BLK_{mode.upper()}"}
