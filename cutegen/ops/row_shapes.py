"""Checks of tensors several of whose modes are one row: their order, and which outputs there may be."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import Tensor


def check_row(ctx: Context, compute: Compute, tensors: Mapping[str, Tensor], row: tuple[str, ...]) -> bool:
    """Whether a row has these modes in every tensor with all of them, and no output has only some; says how not."""
    along = " and ".join(row)
    for tensor in tensors.values():
        own = tuple(mode for mode in tensor.shape if mode in row)
        if len(own) == len(row) and tensor.shape[-len(row) :] != row:
            wanted = ", ".join([*(mode for mode in tensor.shape if mode not in row), *row])
            message = f"a row goes along {along}, which are not the last modes of `{tensor.name}`, in this order"
            help = f"write `shape: [{wanted}]`, and pass `{tensor.name}` permuted: its rows must have no gaps"
            ctx.say("CG129", message, "tensors", tensor.name, "shape", help=help)
            return False
    for number, statement in enumerate(compute.statements):
        target = tensors.get(statement.target)
        own = tuple(mode for mode in target.shape if mode in row) if target else ()
        if target and own and len(own) < len(row):
            message = f"a row goes along {along}, of which `{target.name}` has {' and '.join(own)} alone"
            whole = ", ".join([*(mode for mode in target.shape if mode not in row), *row])
            others = " and ".join(mode for mode in row if mode not in own)
            help = (
                f"write `shape: [{whole}]` for a value of each element, or leave {' and '.join(own)} out for one of "
                f"each row; what is reduced along {others} alone is a kernel of its own"
            )
            say(ctx, "CG129", message, number, statement.target_place, help)
            return False
    return True
