"""What is wrong with the schedule of a gemm whose warps have roles, as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm_warpspecialized.product import ROLES
from cutegen.families.gemm_warpspecialized.schedule import WarpspecializedSchedule
from cutegen.language.context import Context
from cutegen.language.model import Tensor

# Tensors whose names would make the kernel's own: smem, stage, slices
TAKEN = ("mem", "tage", "lices")
# What the kernel calls its own, where scalars keep their names
LOCALS = ("warp", "full", "empty", "stage", "k_tile", "k_tiles", "k_block", "m_tile", "n_tile", "load", "op", "part")


def check_schedule(
    ctx: Context, schedule: WarpspecializedSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes, tensors and roles there are not, and what would have no effect on a tensor."""
    modes: tuple[str, ...] | None = None
    operands: tuple[str, ...] | None = None
    if compute and compute.matmul:
        operands = (compute.matmul.a, compute.matmul.b)
        modes = (*tensors[compute.targets[0]].shape, tensors[operands[0]].shape[1])
    for name in TAKEN:
        if name in tensors:
            ctx.say("CG113", f"the tensor name `{name}` makes names that the kernel has", "tensors", name, key=True)
    for name in LOCALS:
        if name in (ctx.data.get("scalars") or {}):
            ctx.say("CG113", f"the scalar name `{name}` is the kernel's own", "scalars", name, key=True)
    ctx.known_modes(schedule.tiler or {}, modes, "schedule", "tiler")
    ctx.known_modes(schedule.predication, modes and modes[:2], "schedule", "predication")
    raster = schedule.scheduler.raster
    if raster is not None and modes is not None and raster not in modes[:2]:
        ctx.unknown_mode(raster, modes[:2], "schedule", "scheduler", "raster", key=False)
    for role in schedule.warps.registers:
        if role not in ROLES:
            where = ("schedule", "warps", "registers", role)
            ctx.say("CG203", f"`{role}` is no role", *where, key=True, help=f"roles: {', '.join(ROLES)}")
    for tensor in (*schedule.copies, *schedule.smem):
        field = "copies" if tensor in schedule.copies else "smem"
        if tensor not in tensors:
            ctx.unknown_tensor(tensor, tuple(tensors), "schedule", field)
        elif operands and (field == "smem") != (tensor in operands):
            other = "is brought to shared memory by a tensor map" if field == "copies" else "is not in shared memory"
            ctx.say("CG203", f"`{tensor}` {other}", "schedule", field, tensor, key=True)
        elif compute and field == "copies" and tensor not in compute.targets:
            help = f"write it for `{compute.targets[0]}`: what the epilogue reads moves as that does"
            ctx.say("CG203", f"`{tensor}` has no copy of its own", "schedule", field, tensor, key=True, help=help)
