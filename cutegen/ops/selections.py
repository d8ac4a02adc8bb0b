"""Checks of selections, `topk(x, N, K)`: the sizes of both modes, and where a mode of what is kept may stand."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from cutegen.expressions.selecting import MOST_KEPT, OVER_KEPT, kept_modes
from cutegen.expressions.tree import Compute, Place, Reduce, Scan, Select, along
from cutegen.language.computing import say
from cutegen.language.context import Context
from cutegen.language.model import Tensor

Problem = tuple[str, Place, str]  # a message, its place in a statement, and a help text


def check_selections(ctx: Context, compute: Compute, tensors: Mapping[str, Tensor]) -> bool:
    """Whether all selections of statements can be made; says how not."""
    kept, static = kept_modes(compute), ctx.data.get("static", {})
    for number, statement in enumerate(compute.statements):
        for node in along(statement.value):
            found = _of_selection(node, static) if isinstance(node, Select) else _along_kept(node, kept)
            if (problem := next(found, None)) is not None:
                say(ctx, "CG127", problem[0], number, problem[1], problem[2])
                return False
    walked = {node.mode for value in compute.values for node in along(value)} - {*kept}
    for tensor in tensors.values():
        mode = next((mode for mode in tensor.shape if mode in kept), None)
        if mode is None:
            continue
        along_row = next((other for other in tensor.shape if other in walked), None)
        if tensor.reads:
            message = f"`{tensor.name}` is read, and `{mode}` is the mode of the values that `compute` keeps of a row"
            help = f"write `role: out`, or give {tensor.name} a mode of another name"
        elif along_row is not None:
            message = (
                f"`{tensor.name}` has the mode `{along_row}` of a row, and the mode `{mode}` of the values kept of one"
            )
            help = f"leave {along_row} or {mode} out: an output has either a row's elements or the values kept of them"
        else:
            continue
        ctx.say("CG129", message, "tensors", tensor.name, "shape", tensor.shape.index(mode), help=help)
        return False
    return True


def _of_selection(node: Select, static: Mapping[str, int]) -> Iterator[Problem]:
    """Yields problems of the modes of a selection."""
    name, mode, kept = node.function, node.mode, node.kept
    if kept == mode:
        message = f"the K values that `{name}` keeps need a mode of their own, other than `{mode}`"
        yield message, node.kept_place, f"write it as `{name}(x, {mode}, K)`, with the size of K in `static: {{K: 8}}`"
    for one, place in ((kept, node.kept_place), (mode, node.mode_place)):
        if one not in static:
            what = "how many values it keeps" if one == kept else "the length of a row that it selects from"
            message = f"`{name}` needs to know {what}, and the size of `{one}` is not fixed"
            yield message, place, f"write `static: {{{one}: {8 if one == kept else 256}}}`, with the size that it has"
            return
    if static[kept] > MOST_KEPT:
        message = f"`{name}` keeps {static[kept]} values of a row, and at most {MOST_KEPT} are possible"
        yield message, node.kept_place, "each takes a pass over the row; for more, sort the rows in torch"
    if static[kept] > static[mode]:
        message = f"`{name}` keeps {static[kept]} of {static[mode]} values: `{kept}` is larger than `{mode}`"
        yield message, node.kept_place, f"write `{kept}: {static[mode]}` under `static`, or less"


def _along_kept(node: Reduce | Scan, kept: tuple[str, ...]) -> Iterator[Problem]:
    """Yields problems of a function along a mode of what is kept."""
    modes = [one.mode for one in node.nested] if isinstance(node, Reduce) else [node.mode]
    if not {*modes} & {*kept}:
        return
    if len(modes) > 1:
        message = f"{node.function} goes along {' and '.join(modes)} at once, and `{kept[0]}` is what a row keeps"
        yield message, node.place, "give the inner one a name, in a statement of its own"
    elif node.function not in OVER_KEPT:
        message = f"`{node.function}` goes along `{node.mode}`, of what is kept of a row"
        several = f"{', '.join(OVER_KEPT[:-1])} and {OVER_KEPT[-1]}"
        yield message, node.place, f"along `{node.mode}` there are {several}"
