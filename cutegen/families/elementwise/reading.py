"""Checks an elementwise schedule as it was written."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.families.elementwise.schedule import ElementwiseSchedule
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.language.tensor import element_modes

# partition -> the keys that it reads, of those that not all partitions read
PARTITION_KEYS = {
    "inner": ("tiler", "threads"),
    "inner_outer": ("tiler", "thread_layout"),
    "thread_value": ("thread_layout", "value_layout"),
}


def check_schedule(
    ctx: Context, schedule: ElementwiseSchedule, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says which keys the partition does not take, and which modes the outputs do not have."""
    data = ctx.data.get("schedule", {})
    partition = schedule.partition
    given = [key for key in ("tiler", "threads", "thread_layout", "value_layout") if key in data]
    if partition is not None:
        applies = PARTITION_KEYS[partition]
        for key in given:
            if key not in applies:
                message = f"`{key}` does not apply to the partition {partition}"
                notes = [f"{partition} takes {' and '.join(applies)}"]
                if key == "tiler":
                    notes.append("its tiler follows from the two layouts")
                ctx.say("CG203", message, "schedule", key, key=True, notes=tuple(notes), help=f"remove `{key}`")
    elif not any(set(given) <= set(keys) for keys in PARTITION_KEYS.values()):
        choices = tuple(f"{name} takes {' and '.join(keys)}" for name, keys in PARTITION_KEYS.items())
        message = f"no partition takes {', '.join(given)} together"
        help = "say which one with `partition:`"
        ctx.say("CG203", message, "schedule", given[-1], key=True, notes=choices, help=help)
    first = next((tensors[name] for name in compute.targets if name in tensors), None) if compute else None
    walked = first is not None and all(index in tensors for _, index in first.at)
    modes = element_modes(first, tuple(tensors.values())) if first and walked else None
    ctx.known_modes(schedule.tiler or {}, modes, "schedule", "tiler")
    ctx.known_modes(schedule.predication, modes, "schedule", "predication")
    raster = schedule.scheduler.raster
    if raster is not None and modes is not None and raster not in modes:
        ctx.unknown_mode(raster, modes, "schedule", "scheduler", "raster", key=False)
