"""Checks a row kernel's schedule as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.places import joined
from cutegen.expressions.tree import Compute
from cutegen.families.rowwise.schedule import RowwiseSchedule
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.ops.row_modes import leading, row_modes


def check_schedule(
    ctx: Context, schedule: RowwiseSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Reports unknown modes, and modes of which a block cannot have several."""
    lead = leading(tensors.values(), compute) if compute else None
    if compute is None or lead is None:
        return
    parts = row_modes(compute, tensors.values())
    row = joined(parts)
    modes = lead.shape if len(parts) == 1 else (*(mode for mode in lead.shape if mode not in parts), row)
    ctx.known_modes(schedule.tiler or {}, modes, "schedule", "tiler")
    ctx.known_modes(schedule.predication, modes, "schedule", "predication")
    others = tuple(mode for mode in modes if mode != row)
    ctx.known_modes(schedule.cluster or {}, modes, "schedule", "cluster")
    for mode in schedule.cluster or {}:
        if mode in others:
            message = f"the blocks of a cluster share a row, which lies along {row}"
            ctx.say("CG203", message, "schedule", "cluster", mode, key=True, help=f"write `{row}`")
    for mode, extent in (schedule.tiler or {}).items():
        if mode in others[:-1] and extent > 1:
            message = f"a block has rows that are neighbours along {others[-1]}, and the tiler has {extent} of {mode}"
            ctx.say("CG203", message, "schedule", "tiler", mode, help=f"write `{mode}: 1`")
    if schedule.scheduler.kind == "grid" and schedule.scheduler.blocks is not None:
        message = "`blocks` does not apply to the kind grid, which has one for each tile of rows"
        ctx.say("CG203", message, "schedule", "scheduler", "blocks", key=True, help="remove `blocks`")
    taken = next((tensor.name for tensor in tensors.values() if tensor.at), None)
    if taken is not None and (schedule.scheduler.kind == "persistent" or schedule.scheduler.blocks is not None):
        message = f"`{taken}` is taken at places, which blocks that walk many rows do not look up"
        key = "kind" if schedule.scheduler.kind == "persistent" else "blocks"
        ctx.say("CG203", message, "schedule", "scheduler", key, key=True, help="remove `scheduler`")
    raster = schedule.scheduler.raster
    if raster is not None and raster not in others:
        if raster == row:
            message = f"`{row}` is the mode of the rows, which blocks do not divide"
            help = f"write one of {', '.join(others)}" if others else "remove `raster`"
            ctx.say("CG203", message, "schedule", "scheduler", "raster", help=help)
        else:
            ctx.unknown_mode(raster, others, "schedule", "scheduler", "raster", key=False)
