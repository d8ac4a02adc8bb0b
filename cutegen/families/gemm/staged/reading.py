"""Checks a multistage gemm's schedule as it was written."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm.batches import check_uncut, check_unplaced, without_batch
from cutegen.families.gemm.staged.schedule import GemmSchedule
from cutegen.families.gemm.words import GemmWords
from cutegen.language.computing import first_output, say
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.ops.taken_rows import at_places
from cutegen.planning.batches import batch_of


def check_schedule(
    ctx: Context, schedule: GemmSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes and tensors there are not, and what would have no effect on a tensor."""
    check_uncut(ctx, tensors)
    check_unplaced(ctx, tensors, compute)
    modes, operands = check_names(ctx, schedule, tensors, compute)
    ctx.known_modes(schedule.mma.permutation, modes, "schedule", "mma", "permutation")
    _only_operands(ctx, schedule.workspace, tensors, operands, "workspace", "a workspace")
    batched = operands is not None and compute is not None and batch_of(first_output(compute, tensors)) is not None
    for tensor in schedule.workspace if batched else ():
        message = f"`{tensor}` cannot go through a workspace: a batch is multiplied in its own layout"
        help = "leave `workspace` out, or pass a tensor with this layout and write its `major`"
        ctx.say("CG203", message, "schedule", "workspace", tensor, key=True, help=help)
    for tensor, space in schedule.workspace.items():
        if tensor in tensors and space.major not in tensors[tensor].shape:
            where = ("schedule", "workspace", tensor, "major")
            ctx.unknown_mode(space.major, tensors[tensor].shape[:1], *where, key=False)


BATCH_LOCALS = frozenset({"l_tile", "grid_l"})
"""Variables of a kernel with a batch, which no scalar may be called."""


def check_names(
    ctx: Context, schedule: GemmWords, tensors: Mapping[str, Tensor], compute: Compute | None
) -> tuple[tuple[str, ...] | None, tuple[str, ...] | None]:
    """Says which modes and tensors there are not; returns the modes m, n and k and the names of A and B, if known."""
    modes: tuple[str, ...] | None = None
    operands: tuple[str, ...] | None = None
    batch, tensors = None, at_places(tensors)
    if compute and compute.matmul:
        for product in compute.products[1:]:
            message = "kernels with this atom make one matrix product"
            say(ctx, "CG127", message, 0, product.place, "write `mma: {atom: wgmma}`, or a kernel for each product")
        for product in compute.products:
            if product.scales:
                message = "kernels with this atom scale no blocks of their operands"
                say(ctx, "CG146", message, 0, product.place, "write `mma: {atom: wgmma}`, for `targets: [sm_90a]`")
        operands = (compute.matmul.a, compute.matmul.b)
        output = first_output(compute, tensors)
        batch = batch_of(output)
        modes = (*output.shape[-2:], tensors[operands[0]].shape[-1])
        _check_batch(ctx, batch, [tensors[name] for name in (*operands, output.name)])
    ctx.known_modes(without_batch(ctx, batch, schedule.tiler, "tiler"), modes, "schedule", "tiler")
    ctx.known_modes(without_batch(ctx, batch, schedule.predication, "predication"), modes, "schedule", "predication")
    for mode, predicate in schedule.predication.items():
        if modes and mode in modes[:2] and predicate == "residue_first":
            message = f"`residue_first` guards the mode that is summed over, `{modes[2]}`, not `{mode}`"
            ctx.say("CG207", message, "schedule", "predication", mode, help="write `mask`")
    raster = schedule.scheduler.raster
    if raster is not None and modes is not None and raster not in modes[:2]:
        ctx.unknown_mode(raster, modes[:2], "schedule", "scheduler", "raster", key=False)
    for tensor in schedule.copies:
        if tensor not in tensors:
            ctx.unknown_tensor(tensor, tuple(tensors), "schedule", "copies")
    _only_operands(ctx, schedule.smem, tensors, operands, "smem", "shared memory")
    return modes, operands


def _check_batch(ctx: Context, batch: str | None, moved: Iterable[Tensor]) -> None:
    """Says what of a batch these kernels do not take: tensors that are contiguous along it, and names of its own."""
    if batch is None:
        return
    for tensor in moved:
        if tensor.major == batch:
            message = f"`{tensor.name}` is contiguous along {batch}, the batch, and blocks move matrices"
            help = f"write `major: {tensor.shape[-1]}`, or leave it out, and pass a tensor with this layout"
            ctx.say("CG130", message, "tensors", tensor.name, "major", help=help)
    for name in sorted(BATCH_LOCALS & set(ctx.data.get("scalars") or {})):
        message = f"the kernel uses the scalar name `{name}` itself"
        ctx.say("CG113", message, "scalars", name, key=True, help="give the scalar another name")


def _only_operands(
    ctx: Context,
    names: Iterable[str],
    known: Mapping[str, Tensor],
    operands: tuple[str, ...] | None,
    field: str,
    through: str,
) -> None:
    """Refuses tensors that are none of the product's operands; `through` is where those pass, in words."""
    for tensor in names:
        if tensor not in known:
            ctx.unknown_tensor(tensor, operands or tuple(known), "schedule", field)
        elif operands and tensor not in operands:
            help = f"{through} holds {' and '.join(operands)}"
            message = f"`{tensor}` does not go through {through}"
            ctx.say("CG203", message, "schedule", field, tensor, key=True, help=help)
