"""The tiler of a schedule against the spec's modes: unknown ones, and those that no tile has a part of."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.tree import Compute
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.ops.contract import walked_in


def check_tiler(
    ctx: Context, tiler: Mapping[str, int] | None, tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says to `ctx` which modes of the tiler are unknown, or are not tiled."""
    if compute is None:
        return
    found = walked_in(compute, tensors)
    tiled = (found.rows[0], found.walked)
    every = tuple(dict.fromkeys(mode for tensor in tensors.values() for mode in tensor.modes))
    for mode in tiler or {}:
        if mode not in every:
            ctx.unknown_mode(mode, tiled, "schedule", "tiler", mode)
        elif mode not in tiled:
            message = f"a tile has all of `{mode}`, or one place along it"
            ctx.say("CG203", message, "schedule", "tiler", mode, key=True, help=f"a tiler has {' and '.join(tiled)}")
