"""What is wrong with a spec of a multistage gemm on tensor cores as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm_multistage.mma_sync.schedule import MmaSyncSchedule
from cutegen.families.gemm_multistage.reading import check_names
from cutegen.language.context import Context
from cutegen.language.model import Tensor

# Tensors whose names would make the kernel's own: storage, staged, slices
TAKEN = ("torage", "taged", "lices")
# What the kernel calls its own besides what every gemm does, where scalars keep their names
LOCALS = ("K_BLOCKS", "SMEM_BYTES", "staged", "storage", "thr_store", "tiled_store", "warp")
DERIVED = ("read_{}", "swizzle_{}")  # of a tensor's name
MODULE = "warp"  # that the generated one imports


def check_schedule(
    ctx: Context, schedule: MmaSyncSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes, tensors and names there cannot be, and what would have no effect on a tensor."""
    for name in TAKEN:
        if name in tensors:
            ctx.say("CG113", f"the tensor name `{name}` makes names that the kernel has", "tensors", name, key=True)
    own = {*LOCALS, *(pattern.format(tensor) for pattern in DERIVED for tensor in tensors)}
    for name in sorted(own & set(ctx.data.get("scalars") or {})):
        ctx.say("CG113", f"the scalar name `{name}` is the kernel's own", "scalars", name, key=True)
    if ctx.data.get("kernel") == MODULE:
        ctx.say("CG113", f"the generated module imports `{MODULE}` itself", "kernel")
    check_names(ctx, schedule, tensors, compute)
