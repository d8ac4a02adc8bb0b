"""The rule about rows that are cut into segments, each of which is multiplied by a matrix of its own."""

from __future__ import annotations

from cutegen.families.gemm.wgmma.product import exchanged, product_of, split_of
from cutegen.families.gemm.wgmma.schedule import Spec
from cutegen.lint.rule import Say


def walked(spec: Spec, say: Say) -> None:
    """Blocks walk the tiles of all segments, each of which has rows of one; only the GPU knows where these end."""
    product, schedule = product_of(spec), spec.schedule
    if product.segments is None:
        return
    mode, why = product.segments.mode, f"segments of `{product.segments.mode}` have any number of rows"
    if exchanged(spec):
        help = f"write `rows: {mode}`, or leave `rows` out"
        say(f"{why}, so they must be rows of the product, not columns", "schedule", "mma", "rows", help=help)
    elif split_of(spec) > 1:
        message = (
            f"{split_of(spec)} blocks share the sum of a tile, and a kernel with segments cannot split `{product.k}`"
        )
        say(message, "schedule", "cluster", product.k, help=f"write `{product.k}: 1`")
    elif schedule.scheduler.kind == "grid":
        message = f"{why}: the number of tiles is not known when the kernel is launched"
        say(message, "schedule", "scheduler", "kind", help="write `kind: persistent`")
    elif schedule.predication.get(mode) == "none":
        message = f"{why}, so one may end inside a tile, whose rows need predicates"
        say(message, "schedule", "predication", mode, help=f"write `{mode}: mask`")
    else:
        for name, copy in schedule.copies.items():
            if copy.misaligned == "workspace":
                message = f"`{name}` may be misaligned, and kernels with segments copy nothing to workspaces"
                say(message, "schedule", "copies", name, "misaligned", help="write `misaligned: refuse`")
                return
