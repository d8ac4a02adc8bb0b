"""Text of a warp-specialised gemm's epilogue in its module. Numbers come from the plan."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from cutegen.expressions.parsing import coords
from cutegen.families.common.planning import may_branch_on
from cutegen.families.common.pointwise_text import Through, narrow_widths, pointwise_context
from cutegen.families.gemm.wgmma.block_text import own_columns
from cutegen.families.gemm.wgmma.fields import kind, names_of_fields
from cutegen.families.gemm.wgmma.names import own_names, source_name
from cutegen.families.gemm.wgmma.plan import Passing, WarpspecializedPlan
from cutegen.families.gemm.wgmma.product import COLUMNS
from cutegen.families.gemm.wgmma.segments_text import ROWS as ROWS_OF_SEGMENT
from cutegen.language.model import Tensor

QUOTIENT = "_quotient"
WIDE = 16  # bytes that a thread stores of a row at once, where a segment ends in a piece


def epilogue_context(plan: WarpspecializedPlan) -> dict[str, Any]:
    lead = plan.spec.output.name
    through: dict[str, Through] = {}
    for x in plan.passing:
        name = x.tensor.name
        fragment = f"t{lead}r{name}_out"
        registers = f"cute.make_rmem_tensor(((2, 2, SLICE // 4), 1, 1), {type_text(x.tensor)})"
        target = f"t{name}s{name}[None, None, part % PARTS, buffer]"
        source = f"thr_store_{name}.retile({fragment})[None, None, 0]"
        through[name] = Through(registers, [f"tiled_store_{name}", source, target])
    sources: dict[str, Through] = {}
    for x in plan.sources:
        name, stem = x.tensor.name, source_name(x.tensor)
        fragment = f"t{lead}r{name}"
        registers = f"cute.make_rmem_tensor(((2, 2, SLICE // 4), 1, 1), {type_text(x.tensor)})"
        source = f"t{stem}s{stem}[None, None, part % PARTS, slot]"
        target = f"thr_load_{stem}.retile({fragment})[None, None, 0]"
        sources[name] = Through(registers, [f"tiled_load_{stem}", source, target])
    values = {name: f"{parts}[None, part].load().reshape((SLICE,))" for name, parts in parts_names(plan).items()}
    path = f"schedule.copies.{lead}"
    deeper = 12 if plan.passing else 8
    stacked = [product.b for product in plan.spec.compute.products]
    cut = plan.segments is not None
    taken = own_names(plan.spec.tensors, _modes(plan), stacked, plan.batch is not None, cut, plan.scaled)
    taken |= names_of_fields(plan)
    found = pointwise_context(
        plan,
        path,
        accumulators=values,
        through=through,
        sources=sources,
        deeper=deeper,
        modes=_modes(plan),
        taken=taken,
        quotient=QUOTIENT,
        bounds={} if plan.segments is None else {plan.segments.mode: ROWS_OF_SEGMENT},
    )
    printed = [line for output in found["outputs"] for line in (*output.statements, output.store)]
    held = [o.tensor.name for o in plan.pointwise.operands if plan.held(o)]
    columns = [o.tensor.name for o in plan.pointwise.operands if plan.by_columns(o)]
    kept = dict.fromkeys(held, "part") | dict.fromkeys(columns, "")
    loaded = [replace(o, held=kept.get(o.tensor.name)) for o in found["loaded"]]
    accessed = {o.tensor.name for o in plan.pointwise.operands if plan.accessed(o)}  # under predicates of their widths
    direct = [o for o in found["operands"] if o.tensor.name in accessed]
    return found | {
        "loaded": loaded,
        "direct": direct,
        "narrow_widths": narrow_widths(
            plan.spec, [o for o in plan.pointwise.operands if o.tensor.name in accessed], plan.pointwise.vector
        ),
        "held": [o for o in loaded if o.tensor.name in held],
        "by_columns": [o for o in loaded if o.tensor.name in columns],
        "divides": any(f"{QUOTIENT}(" in line for line in printed),
        "clips_columns": plan.spec.schedule.predication[plan.n] == "mask",
        "row_blocks": (rows := plan.number("ROW_BLOCKS", plan.row_blocks)),
        "clears_rows": plan.rows_masked and may_branch_on(plan.statements, held),
        "of_rows": "(0, None, 0)" if plan.own_columns > COLUMNS else "(0, None)",  # eight columns have no mode
        "row_values": f"((2, 2, {own_columns(plan)} // 8), {rows}, 1)",
    }


def _modes(plan: WarpspecializedPlan) -> tuple[str, ...]:
    """The modes of outputs as the kernel sees them."""
    return (plan.m, plan.n) if plan.batch is None else (plan.m, plan.n, plan.batch)


def parts_names(plan: WarpspecializedPlan) -> dict[str, str]:
    """Maps the name of each product's B to the kernel's name for the accumulators of that product, in slices."""
    names = [product.b for product in plan.spec.compute.products]
    return {name: f"parts_{name}" if len(names) > 1 else "parts" for name in names}


def has_tile_mma(plan: WarpspecializedPlan) -> bool:
    """Whether threads find their places in what is stored of one product, which is narrower than what wgmma makes."""
    return len(plan.b.tensors) * plan.split > 1 and _finds_places(plan)


def may_have_tile_mma(plan: WarpspecializedPlan) -> bool:
    """Whether they do in some kernel that the functions serve."""
    return has_tile_mma(plan) or (plan.any_split and _finds_places(plan))


def _finds_places(plan: WarpspecializedPlan) -> bool:
    direct = any(plan.accessed(o) or plan.held(o) or plan.by_columns(o) for o in plan.pointwise.operands)
    read = any(True for typed in plan.statements for _ in coords(typed.value))
    return direct or read or bool(plan.pointwise.masked)


def passing_text(plan: WarpspecializedPlan, x: Passing) -> dict[str, Any]:
    """Template variables for an output that passes through shared memory."""
    order, swizzled = (0, 1, 2) if x.n_major else (1, 0, 2), kind(plan, x.tensor.name, x.n_major, x.swizzle)
    orders, transposed = (str(order), str(order[:2])), str(not x.n_major)
    if plan.any_rows:
        orders = f"order_{x.tensor.name}", f"order_{x.tensor.name}[:2]"
        transposed = "EXCHANGED" if plan.exchanged != x.n_major else "not EXCHANGED"
    bits = x.tensor.dtype.bits * (2 if x.n_major else 1)
    plain = ["cute.nvgpu.CopyUniversalOp()", type_text(x.tensor), f"num_bits_per_copy={bits}"]
    matrices = [f"warp.StMatrix8x8x16bOp({transposed}, 4)", type_text(x.tensor)]
    return {
        "name": x.tensor.name,
        "tensor": x.tensor,
        "width": WIDE // x.tensor.dtype.bytes,
        "type": type_text(x.tensor),
        "atom": matrices if x.matrices else plain,
        "kind": swizzled,
        "order": orders[0],
        "transposed": transposed,
        "piece": layout_call(swizzled, x.tensor, "(64, COLUMNS)", orders[1]),
    }


def source_text(plan: WarpspecializedPlan, x: Passing) -> dict[str, Any]:
    """Template variables for a tensor that the epilogue reads from shared memory."""
    stem, found = source_name(x.tensor), passing_text(plan, x)
    plain = ["cute.nvgpu.CopyUniversalOp()", *found["atom"][1:]]
    matrices = [f"warp.LdMatrix8x8x16bOp({found['transposed']}, 4)", type_text(x.tensor)]
    seen = f"tma_tensor_{stem}" if x.tensor.writes else f"m{stem}"
    return found | {"stem": stem, "atom": matrices if x.matrices else plain, "seen": seen}


def layout_call(atom: str, tensor: Tensor, box: str, order: str) -> str:
    return f"_smem_layout({atom}, {type_text(tensor)}, {box}, {order})"


def type_text(tensor: Tensor) -> str:
    return f"cutlass.{tensor.dtype.cutlass}"
