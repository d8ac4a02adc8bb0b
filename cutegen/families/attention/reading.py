"""The tiler of a schedule against the spec's modes: unknown ones, and those that no tile has a part of."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.expressions.places import joined, parts_of
from cutegen.expressions.tree import Compute
from cutegen.language.context import Context
from cutegen.language.model import Tensor
from cutegen.ops.contract import walked_in
from cutegen.ops.walked import Walked


def check_tiler(
    ctx: Context,
    tiler: Mapping[str, int] | None,
    tensors: Mapping[str, Tensor],
    compute: Compute | None,
    packs: bool = False,
) -> None:
    """Says to `ctx` which modes of the tiler are unknown, or are not tiled. If a family `packs`, the rows of a tile may
    have several modes.
    """
    if compute is None:
        return
    found = walked_in(compute, tensors)
    tiled = (found.rows[0], found.walked)
    every = tuple(dict.fromkeys(mode for tensor in tensors.values() for mode in tensor.modes))
    rows = 0
    for mode in tiler or {}:
        first, *others = parts_of(mode)
        rows += first == found.rows[0]
        if others and first == found.rows[0]:
            if not packs:
                message = f"warpgroups take tiles with rows along `{first}` alone"
                help = f"write `{first}`, or `mma: {{atom: mma_sync}}`"
                ctx.say("CG203", message, "schedule", "tiler", mode, key=True, help=help)
            elif rows > 1:
                message = f"rows along `{found.rows[0]}` stand in the tiler twice"
                ctx.say("CG203", message, "schedule", "tiler", mode, key=True, help="leave one of them out")
            _check_packed(ctx, found, mode)
        elif mode not in every:
            ctx.unknown_mode(mode, tiled, "schedule", "tiler", mode)
        elif mode not in tiled:
            message = f"a tile has all of `{mode}`, or one place along it"
            ctx.say("CG203", message, "schedule", "tiler", mode, key=True, help=f"a tiler has {' and '.join(tiled)}")


def check_split(
    ctx: Context, split: Mapping[str, int | str], tensors: Mapping[str, Tensor], compute: Compute | None
) -> None:
    """Says to `ctx` which modes of a split are not walked."""
    walked = None if compute is None else walked_in(compute, tensors).walked
    for mode in split if walked is not None else ():
        if mode != walked:
            message = f"`{mode}` is not walked, and only a walk is split"
            ctx.say("CG203", message, "schedule", "split", mode, key=True, help=f"write `{walked}`")


def _check_packed(ctx: Context, found: Walked, key: str) -> None:
    """Says what is no mode that the rows of a tile may have besides their first one."""
    names = parts_of(key)
    wrong = next((n for place, n in enumerate(names) if n not in found.rows or n in names[:place]), None)
    if wrong is not None:
        why = "stands there twice" if wrong in found.rows else f"is no mode that `{found.scores.a}` has alone"
        message = f"the rows of a tile have the modes {', '.join(names)}, and `{wrong}` {why}"
        most = joined(found.rows)
        help = f"write `{most}`" if len(found.rows) > 1 else f"write `{found.rows[0]}`"
        ctx.say("CG203", message, "schedule", "tiler", key, key=True, help=help)
