"""Rules about what 32 bits count and what registers hold."""

from __future__ import annotations

from math import prod

from cutegen.families.common.rules.limits import MAX_COUNT, register_limit
from cutegen.families.elementwise.planning import plan
from cutegen.families.elementwise.schedule import Spec
from cutegen.families.elementwise.tiles import block_tile
from cutegen.lint.rule import Say


def blocks(spec: Spec, say: Say) -> None:
    """Fixed sizes need no more tiles than a grid and 32-bit coordinates can count."""
    tile = block_tile(spec)
    if not all(mode in spec.static for mode in spec.lead.shape):
        return
    counts = {mode: -(-spec.static[mode] // tile[mode]) for mode in spec.lead.shape}
    if (total := prod(counts.values())) > MAX_COUNT:
        mode = max(counts, key=lambda m: counts[m])
        fits = MAX_COUNT // (total // counts[mode]) * tile[mode]
        say(
            f"the fixed sizes make {total} tiles; the limit is {MAX_COUNT}",
            *("static", mode),
            notes=(" * ".join(f"ceil({spec.static[m]} / {tile[m]})" for m in counts) + f" = {total}",),
            help=f"`{mode}: {fits}` is the most" if fits else None,
        )


def registers(spec: Spec, say: Say) -> None:
    """A thread's values of all tensors, which are under way together, should fit its registers."""
    planned = plan(spec)
    point = planned.pointwise
    needed = sum(-(-point.values * o.tensor.dtype.bytes // 4) for o in point.operands)
    limit = register_limit(planned.threads)
    if needed <= limit:
        return
    notes = (
        " + ".join(f"{point.values} {o.tensor.dtype.value}" for o in point.operands) + f" take {needed} registers",
        f"a thread of {planned.threads} has {limit}",
    )
    path = {"thread_value": "value_layout"}.get(planned.partition, "tiler")
    fits = point.values * limit // needed
    help = f"{1 << max(0, fits.bit_length() - 1)} values a thread would fit"
    say(f"a thread's {point.values} values do not fit its registers", "schedule", path, notes=notes, help=help)
