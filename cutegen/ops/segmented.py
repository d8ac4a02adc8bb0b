"""Matrix products whose rows are cut into segments: each segment of A is multiplied by a matrix of its own of B."""

from __future__ import annotations

from cutegen.expressions.parsing import coords
from cutegen.expressions.tree import Compute
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.planning.batches import BATCHED


def check_segmented(ctx: Context, compute: Compute, a: Tensor, b: Tensor, out: Tensor) -> bool:
    """Whether, where a mode is cut into segments, it is that of A's rows and B has a matrix for each segment; says to
    `ctx` what is not so (CG144).
    """
    segments = next((one for tensor in (a, b, out) for one in tensor.segments), None)
    if segments is None:
        return True
    mode, of = segments.mode, segments.of
    product = f"{out.name} = {a.name} @ {b.name}.T"
    if len(a.shape) != 2 or a.shape[0] != mode:
        message = f"`{a.name}` is [{', '.join(a.shape)}]: `{mode}`, which is cut into segments, must be its first mode"
        notes = (
            f"in `{product}` segments are groups of rows: {a.name} must be [{mode}, K], and {b.name} [{of}, N, K]",
        )
        ctx.say("CG144", message, "tensors", a.name, "shape", notes=notes, help=f"write `shape: [{mode}, K]`")
        return False
    if any(coord.mode == mode for value in compute.values for coord in coords(value)):
        number, place = next((n, c.place) for n, v in enumerate(compute.values) for c in coords(v) if c.mode == mode)
        message = f"`coord({mode})`: the rows of `{mode}` are cut into segments, and have no coordinate in `compute`"
        say(ctx, "CG144", message, number, place, "pass the coordinates as a tensor with one value for each row")
        return False
    if len(b.shape) != BATCHED or b.shape[0] != of:
        message = (
            f"`{b.name}` is [{', '.join(b.shape)}], and lacks the mode `{of}`, along which each segment has its matrix"
        )
        help = f"write `shape: [{of}, {', '.join(b.shape[-2:])}]` at {b.name}, or leave `modes` out"
        ctx.say("CG144", message, "tensors", b.name, "shape", help=help)
        return False
    return True
