"""Checks a spec of a multistage gemm on tensor cores as it was written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cutegen.dtypes import Dtype
from cutegen.expressions.tree import Compute
from cutegen.families.gemm.batches import check_uncut
from cutegen.families.gemm.mma_sync.schedule import MmaSyncSchedule
from cutegen.families.gemm.staged.reading import check_names
from cutegen.language.context import Context
from cutegen.language.model import Tensor

# Tensors whose names would make the kernel's own, storage and staged, besides those of every module
TAKEN = ("torage", "taged")
# What the kernel calls its own besides what every gemm does, where scalars keep their names
LOCALS = ("K_BLOCKS", "SMEM_BYTES", "staged", "storage", "thr_store", "tiled_store", "warp")
DERIVED = ("read_{}", "swizzle_{}")  # of a tensor's name
OF_ROWS = ("number", "row")  # that are taken at places
MODULE = "warp"  # that the generated one imports


def own_names(tensors: Collection[Tensor]) -> set[str]:
    """The names that a kernel with these tensors takes for itself, besides those that every gemm takes."""
    steps = [f"step_{tensor.name}_{mode}" for tensor in tensors for mode, _ in tensor.at]
    derived = (pattern.format(tensor.name) for tensor in tensors for pattern in DERIVED)
    return {*LOCALS, *derived, *steps, *(OF_ROWS if steps else ())}


def unmeant(schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
    """Why a schedule that names no atom is not meant for tensor cores of single warps; None where it may be."""
    product = compute.matmul
    factor = tensors.get(product.a) if product else None
    if any(tensor.segments for tensor in tensors.values()):
        return "rows that are cut into segments are for `wgmma`"
    if factor is None or factor.dtype.is_f8 or factor.dtype.bits == 16:
        return None
    if factor.dtype is Dtype.f32:
        return None if schedule.mma.operands else "tensor cores take 11 bits of f32, if `operands: tf32` asks for it"
    return f"no tensor core multiplies {factor.dtype.value} here"


def check_schedule(
    ctx: Context, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes, tensors and names there cannot be, and what would have no effect on a tensor."""
    check_uncut(ctx, tensors)
    for name in TAKEN:
        if name in tensors:
            message = f"the tensor name `{name}` generates names that the kernel uses"
            ctx.say("CG113", message, "tensors", name, key=True, help=f"write `{name}_`, or another name")
    for name in sorted(own_names(tensors.values()) & set(ctx.data.get("scalars") or {})):
        message = f"the kernel uses the scalar name `{name}` itself"
        ctx.say("CG113", message, "scalars", name, key=True, help=f"write `{name}_`, or another name")
    if ctx.data.get("kernel") == MODULE:
        message = f"the generated module imports `{MODULE}` itself"
        ctx.say("CG113", message, "kernel", help=f"write `{MODULE}_kernel`, or another name")
    check_names(ctx, schedule, tensors, compute)
