"""Tensors whose modes a kernel walks: each mode has a name there."""

from __future__ import annotations

from cutegen.language.context import Context
from cutegen.language.kinds import ONE
from cutegen.language.model import Tensor


def has_names(ctx: Context, tensor: Tensor) -> bool:
    """Whether a tensor has modes, and names for all of them; says to `ctx` how not.

    A 1 in a shape has no name, and a kernel goes nowhere along it.
    """
    if tensor.shape and tensor.modes == tensor.shape:
        return True
    message, help = f"`{tensor.name}` has a 1 in its shape, and the kernel walks the modes of this tensor", None
    if tensor.shape.count(ONE) == 1:
        named = ", ".join("U" if mode == ONE else mode for mode in tensor.shape)
        help = f"name that mode, as in `shape: [{named}]`, and fix its size: `static: {{U: 1}}`"
    if not tensor.shape:
        message = f"`{tensor.name}` has no modes, and the kernel walks the modes of this tensor"
    notes = ("only what a kernel reads beside it broadcasts, along a 1 and along modes that it lacks",)
    ctx.say("CG129", message, "tensors", tensor.name, "shape", notes=notes, help=help)
    return False
