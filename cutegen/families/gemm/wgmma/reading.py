"""Checks the schedule of a warp-specialised gemm as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.gemm.batches import check_unplaced, without_batch
from cutegen.families.gemm.wgmma.names import IMPORTS, TAKEN, made_of, own_names
from cutegen.families.gemm.wgmma.product import ROLES
from cutegen.families.gemm.wgmma.schedule import Copy, WarpspecializedSchedule
from cutegen.language.computing import first_output
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.planning.batches import batch_of


def check_schedule(
    ctx: Context, schedule: WarpspecializedSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which modes, tensors and roles there are not, and what would have no effect on a tensor."""
    check_unplaced(ctx, tensors, compute)
    modes: tuple[str, ...] | None = None
    operands: tuple[str, ...] | None = None
    batch = None
    if compute and compute.products:
        operands = (compute.products[0].a, *(product.b for product in compute.products))
        output = first_output(compute, tensors)
        modes = (*output.shape[-2:], tensors[operands[0]].shape[-1])
        batch = batch_of(output)
    for name in tensors:
        if name in TAKEN:
            message = f"the tensor name `{name}` generates names that the kernel uses"
            ctx.say("CG113", message, "tensors", name, key=True, help=f"write `{name}_`, or another name")
    cut = any(tensor.segments for tensor in tensors.values())
    scaled = compute is not None and any(product.scales for product in compute.products)
    stacked = operands[1:] if operands else ()
    own = own_names(tensors.values(), modes or (), stacked, batch is not None, cut, scaled)
    for scalar in sorted(own & set(ctx.data.get("scalars") or {})):
        message = f"the kernel uses the scalar name `{scalar}` itself"
        ctx.say("CG113", message, "scalars", scalar, key=True, help="give the scalar another name")
    for one in tensors.values():
        others = [other for other in tensors.values() if other is not one]
        if any(made in made_of(others) for made in made_of([one])):
            message = f"the tensor name `{one.name}` generates names that the kernel uses for another tensor"
            ctx.say("CG113", message, "tensors", one.name, key=True, help="give the tensor another name")
    for imported in IMPORTS:
        message, instead = f"the generated module imports `{imported}` itself", f"write `{imported}_`, or another name"
        if imported in tensors:
            ctx.say("CG113", message, "tensors", imported, key=True, help=instead)
        if ctx.data.get("kernel") == imported:
            ctx.say("CG113", message, "kernel", help=instead)
    ctx.known_modes(without_batch(ctx, batch, schedule.tiler, "tiler"), modes, "schedule", "tiler")
    of_output, predication = modes and modes[:2], schedule.predication
    ctx.known_modes(without_batch(ctx, batch, predication, "predication"), of_output, "schedule", "predication")
    walked = ((schedule.scheduler.raster, ("scheduler", "raster")), (schedule.mma.rows, ("mma", "rows")))
    for mode, path in walked:
        if mode is not None and modes is not None and mode not in modes[:2]:
            ctx.unknown_mode(mode, modes[:2], "schedule", *path, key=False)
    if schedule.warps.turns is not None and schedule.warps.roles != "pingpong":
        message = "warpgroups that share a tile take no turns"
        instead = "write `roles: pingpong`, or leave `turns` out"
        ctx.say("CG203", message, "schedule", "warps", "turns", key=True, help=instead)
    for role in schedule.warps.registers:
        if role not in ROLES:
            where = ("schedule", "warps", "registers", role)
            ctx.say("CG203", f"`{role}` is not a role", *where, key=True, help=f"roles: {', '.join(ROLES)}")
    ctx.known_modes(without_batch(ctx, batch, schedule.cluster, "cluster"), modes, "schedule", "cluster")
    for tensor in (*schedule.copies, *schedule.smem):
        field = "copies" if tensor in schedule.copies else "smem"
        if tensor not in tensors:
            ctx.unknown_tensor(tensor, tuple(tensors), "schedule", field)
        elif operands and field == "smem" and tensor not in operands:
            help = f"write `copies: {{{tensor}: {{columns: 32}}}}` for rows of its pieces" if compute else None
            ctx.say(
                "CG203", f"`{tensor}` has no stages in shared memory", "schedule", field, tensor, key=True, help=help
            )
    for tensor, copy in schedule.copies.items():
        if operands and compute and tensor in tensors:
            outputs = [tensors[name] for name in compute.targets if name in tensors]
            if tensor in operands or tensor in compute.targets:
                _check_copy(ctx, tensor, copy, operands, outputs[0].name)
            else:
                _check_source(ctx, tensors[tensor], copy, outputs[0])


def _check_copy(ctx: Context, tensor: str, copy: Copy, operands: tuple[str, ...], lead: str) -> None:
    """Says which words of the copy of an operand, or of an output, have no meaning for it."""
    where = ("schedule", "copies", tensor)
    wrong: tuple[str, ...] = ("multicast", "box", *["bits"] * (tensor != lead))
    if copy.atom == "universal" and copy.misaligned is not None:
        ctx.say("CG203", f"`{tensor}` is stored from registers at any alignment", *where, "misaligned", key=True)
    wrong = ("through", "columns", "stages", "bits") if tensor in operands else wrong
    for word in wrong:
        if getattr(copy, word) is not None:
            what = "stored" if tensor == lead else "moved as the first output"
            what = "loaded to shared memory by a tensor map" if tensor in operands else what
            ctx.say("CG203", f"`{tensor}` is {what}: it has no `{word}`", *where, word, key=True)
    atoms = ("tma",) if tensor in operands else ("tma", "universal")
    if copy.atom is not None and copy.atom not in atoms:
        what = "A and B are loaded by" if tensor in operands else "outputs are stored by"
        ctx.say("CG203", f"{what} {' or '.join(atoms)}, not `{copy.atom}`", *where, "atom")


def _check_source(ctx: Context, tensor: Tensor, copy: Copy, lead: Tensor) -> None:
    """Says which fields of an epilogue operand's copy have no effect."""
    where = ("schedule", "copies", tensor.name)
    if tensor.shape != lead.shape:
        help = f"write it for `{lead.name}`: it goes through registers, as `{lead.name}` does"
        modes, wanted = (", ".join(shape) for shape in (tensor.shape, lead.shape))
        message = f"`{tensor.name}` is [{modes}] and `{lead.name}` [{wanted}]: it has no copy of its own"
        ctx.say("CG203", message, *where, key=True, help=help)
        return
    if copy.atom == "universal":
        for word in ("through", "stages", "misaligned"):
            if getattr(copy, word) is not None:
                message = f"`{tensor.name}` is loaded to registers at any alignment: `{word}` does not apply"
                ctx.say("CG203", message, *where, word, key=True)
    for word, whose in (("columns", "pieces as those of outputs"), ("bits", "accesses as the first output")):
        if getattr(copy, word) is not None:
            help = f"write it for `{lead.name}`"
            ctx.say(
                "CG203", f"`{tensor.name}` has {whose}, and no `{word}` of its own", *where, word, key=True, help=help
            )
    for word, what in (("multicast", "loaded by one block"), ("box", "loaded in pieces of 64 rows")):
        if getattr(copy, word) is not None:
            ctx.say("CG203", f"`{tensor.name}` is {what}: it has no `{word}`", *where, word, key=True)
