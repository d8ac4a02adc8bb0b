"""Checks the schedule of a gemm on Blackwell's tensor cores as it was written."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm.batches import check_uncut, check_unplaced, why_unplaced, without_batch
from cutegen.families.gemm.tcgen05.names import IMPORTS, TAKEN, own_names
from cutegen.families.gemm.tcgen05.product import TYPES
from cutegen.families.gemm.tcgen05.schedule import Copy, Tcgen05Schedule
from cutegen.language.computing import first_output, say
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.planning.batches import batch_of


def unmeant(tensors: Mapping[str, Tensor], compute: Compute) -> str | None:
    """Why a schedule that names no atom is not meant for tensor memory; None where it may be."""
    product = next(iter(compute.products), None)
    factor = tensors.get(product.a) if product else None
    unplaced = why_unplaced(tensors, "its tensor maps move rows that follow one another")
    if unplaced is not None:
        return unplaced
    if any(tensor.segments for tensor in tensors.values()):
        return "rows that are cut into segments are for `wgmma`"
    if factor is None or factor.dtype in TYPES:
        return None
    return f"it does not multiply {factor.dtype.value} here"


def check_schedule(
    ctx: Context, schedule: Tcgen05Schedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes and tensors there are not, and what would have no effect on a tensor."""
    check_uncut(ctx, tensors)
    check_unplaced(ctx, tensors, compute)
    modes: tuple[str, ...] | None = None
    operands: tuple[str, ...] | None = None
    output, batch = None, None
    if compute and compute.products:
        for product in (one for one in compute.products if one.scales):
            message = "kernels with this atom scale no blocks of their operands"
            say(ctx, "CG146", message, 0, product.place, "write `mma: {atom: wgmma}`, for `targets: [sm_90a]`")
        operands = (compute.products[0].a, *(product.b for product in compute.products))
        output = first_output(compute, tensors)
        modes = (*output.shape[-2:], tensors[operands[0]].shape[-1])
        batch = batch_of(output)
    _check_names(ctx, tensors)
    ctx.known_modes(without_batch(ctx, batch, schedule.tiler, "tiler"), modes, "schedule", "tiler")
    ctx.known_modes(
        without_batch(ctx, batch, schedule.predication, "predication"), modes and modes[:2], "schedule", "predication"
    )
    raster = schedule.scheduler.raster
    if raster is not None and modes is not None and raster not in modes[:2]:
        ctx.unknown_mode(raster, modes[:2], "schedule", "scheduler", "raster", key=False)
    for field, named in (("copies", schedule.copies), ("smem", schedule.smem)):
        for name in named:
            if name not in tensors:
                ctx.unknown_tensor(name, tuple(tensors), "schedule", field)
            elif operands and field == "smem" and name not in operands:
                message = f"`{name}` has no stages in shared memory"
                ctx.say("CG203", message, "schedule", field, name, key=True, help="leave it out")
    for name, copy in schedule.copies.items():
        if operands and output is not None and compute and name in tensors:
            _check_copy(ctx, name, copy, operands, compute.targets, output.name)


def _check_names(ctx: Context, tensors: Mapping[str, Tensor]) -> None:
    """Says which names the kernel or its module has itself."""
    for name in tensors:
        if name in TAKEN:
            message = f"the tensor name `{name}` generates names that the kernel uses"
            ctx.say("CG113", message, "tensors", name, key=True, help=f"write `{name}_`, or another name")
    for scalar in sorted(own_names(tensors.values()) & set(ctx.data.get("scalars") or {})):
        message = f"the kernel uses the scalar name `{scalar}` itself"
        ctx.say("CG113", message, "scalars", scalar, key=True, help="give the scalar another name")
    for imported in IMPORTS:
        message, instead = f"the generated module imports `{imported}` itself", f"write `{imported}_`, or another name"
        if imported in tensors:
            ctx.say("CG113", message, "tensors", imported, key=True, help=instead)
        if ctx.data.get("kernel") == imported:
            ctx.say("CG113", message, "kernel", help=instead)


def _check_copy(
    ctx: Context, name: str, copy: Copy, operands: tuple[str, ...], outputs: Collection[str], lead: str
) -> None:
    """Says which fields of a tensor's copy have no effect."""
    where, mapped = ("schedule", "copies", name), name in operands
    if not mapped and name not in outputs:
        help = f"write it for `{lead}`: all tensors of the epilogue move as that does"
        ctx.say("CG203", f"`{name}` has no copy of its own", *where, key=True, help=help)
        return
    wanted = "tma" if mapped else "universal"
    if copy.atom is not None and copy.atom != wanted:
        what = "A and B are loaded by" if mapped else "outputs are stored by"
        ctx.say("CG203", f"{what} {wanted}, not `{copy.atom}`", *where, "atom", help=f"write `atom: {wanted}`")
    if mapped and copy.bits is not None:
        message = f"`{name}` is loaded to shared memory by a tensor map: it has no `bits`"
        ctx.say("CG203", message, *where, "bits", key=True, help="leave it out")
    if not mapped and name != lead and copy.bits is not None:
        message, help = (
            f"`{name}` has accesses as the first output: it has no `bits` of its own",
            f"write it for `{lead}`",
        )
        ctx.say("CG203", message, *where, "bits", key=True, help=help)
    if not mapped and copy.misaligned is not None:
        message = f"`{name}` is stored from registers at any alignment: `misaligned` does not apply"
        ctx.say("CG203", message, *where, "misaligned", key=True, help="leave it out")
