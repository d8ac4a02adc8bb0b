"""Modes with lengths, checked, and statements of which only the elements that exist are part."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Protocol

from cutegen.dtypes import Dtype
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.tree import Binary, Call, Coord, Expr, Literal_, Name, Reduce, Typed
from cutegen.language.context import Context
from cutegen.language.lengths import lengths_of
from cutegen.language.modes import Lengths, Mode
from cutegen.language.names import shown, suggestion
from cutegen.language.tensor import Tensor
from cutegen.ops.reading_walks import without_widening
from cutegen.ops.walked import Walked


class TakesLengths(Protocol):
    """An op as it is asked here."""

    name: str
    takes_lengths: bool


CODE = "CG149"
NEUTRAL = {"sum": 0.0, "max": -math.inf}


def of_existing(statements: Sequence[Typed], lengths: Lengths | None) -> tuple[Typed, ...]:
    """The statements, with sums and maxima along the mode that has lengths of the elements that exist alone. Of a
    product one factor is 0 elsewhere, so that it stays a product.
    """
    if lengths is None:
        return tuple(statements)
    found = []
    for typed in statements:
        value = _masked(typed.value, lengths)
        stored = typed.stored
        if stored is not None:
            stored = value if stored == typed.value else _masked(stored, lengths)
        found.append(replace(typed, value=value, stored=stored))
    return tuple(found)


def _masked(node: Expr, lengths: Lengths) -> Expr:
    node = rebuilt(node, lambda part: _masked(part, lengths))
    if not isinstance(node, Reduce) or node.mode != lengths.mode:
        return node
    x = node.x
    if node.function == "sum" and isinstance(x, Binary) and x.op == "*":
        if isinstance(without_widening(x.left), Name):
            return replace(node, x=replace(x, right=_existing(x.right, 0.0, lengths)))
        return replace(node, x=replace(x, left=_existing(x.left, 0.0, lengths)))
    return replace(node, x=_existing(x, NEUTRAL[node.function], lengths))


def _existing(node: Expr, other: float, lengths: Lengths) -> Expr:
    """The value, and a number where there is no element."""
    place, end = Coord(lengths.mode, dtype=Dtype.i32), Name(lengths.used, dtype=Dtype.i32)
    exists = Binary("<", place, end, dtype=Dtype.bool)
    return Call("where", (exists, node, Literal_(other, dtype=node.dtype)), dtype=node.dtype)


def exists(lengths: Lengths, tensor: Tensor, used: str, size: str) -> str:
    """The torch expression of which elements of a tensor exist, in a shape that broadcasts to its own; `used` is the
    variable of the lengths, and `size` that of the mode.
    """
    along, of = (
        ", ".join(":" if one == mode else "None" for one in tensor.shape) for mode in (lengths.mode, lengths.of)
    )
    return f"torch.arange({size}, device=device)[{along}] < {used}[{of}]"


def check_walked_lengths(ctx: Context, found: Walked, tensors: Mapping[str, Tensor]) -> None:
    """Says to `ctx` where lengths are not those of the walked mode, or differ among the rows of a tile (CG149)."""
    lengths = lengths_of(tensors.values())
    if lengths is None:
        return
    mode, of, used = lengths
    if mode != found.walked:
        message = f"`{mode}` has lengths, and the mode that is walked is {found.walked}"
        help = f"rows beyond a length are computed in vain and do no harm: leave `{mode}` out of `modes`"
        if mode in (found.scores.mode, found.columns):
            help = f"a product takes whole rows along {mode}: fill them with zeros"
        ctx.say(CODE, message, "modes", mode, key=True, help=help)
    elif of not in (*found.batch, *found.rows[1:]):
        message = f"`{mode}` has a length for each place along `{of}`, along which a tile has several rows"
        help = f"compare with the length in the scores: `where(coord({mode}) < {used}, ..., -inf)`"
        ctx.say(CODE, message, "modes", mode, "of", help=help)


def check_lengths(ctx: Context, op: TakesLengths, modes: Sequence[Mode], tensors: Sequence[Tensor]) -> bool:
    """Whether modes have lengths as they can; says to `ctx` what is wrong (CG149)."""
    before = len(ctx.found)
    known = tuple(dict.fromkeys(mode for tensor in tensors for mode in tensor.modes))
    for mode in modes:
        path = ("modes", mode.name)
        if mode.name not in known:
            ctx.unknown_mode(mode.name, known, *path)
        elif mode.of not in known:
            ctx.unknown_mode(mode.of, known, *path, "of", key=False)
        elif not op.takes_lengths:
            message = f"`{mode.name}` has a length for each place along `{mode.of}`, and `op: {op.name}` takes none"
            help = "lengths are for the mode that `op: contract` walks; elsewhere compare with the length, as in "
            help += f"`where(coord({mode.name}) < {mode.lengths}, X, 0)`"
            ctx.say(CODE, message, *path, key=True, help=help)
        elif mode.of == mode.name:
            message = f"`{mode.name}` has a length for each place along itself"
            ctx.say(CODE, message, *path, "of", help="name the mode that has one element for each length")
        else:
            _check_used(ctx, mode, tensors)
    if len(modes) > 1 and len(ctx.found) == before:
        message = f"`{modes[0].name}` and `{modes[1].name}` both have lengths; one mode of a kernel can have them"
        help = f"compare with the length of the other, as in `where(coord({modes[1].name}) < {modes[1].lengths}, X, 0)`"
        ctx.say(CODE, message, "modes", modes[1].name, key=True, help=help)
    return len(ctx.found) == before


def _check_used(ctx: Context, mode: Mode, tensors: Sequence[Tensor]) -> None:
    """Lengths are integers of 32 bits that are only read, one for each place along the other mode."""
    path, used = ("modes", mode.name, "lengths"), next((t for t in tensors if t.name == mode.lengths), None)
    what = f"`{shown(mode.lengths)}`, which has the lengths of `{mode.name}`,"
    if used is None:
        names = [t.name for t in tensors if t.dtype is Dtype.i32]
        help = suggestion(mode.lengths, names, "tensors of i32")
        ctx.say(CODE, f"`{shown(mode.lengths)}` is not a tensor of this kernel", *path, help=help)
    elif used.dtype is not Dtype.i32:
        ctx.say(CODE, f"{what} is {used.dtype.value}", *path, help=f"give `{used.name}` the type i32")
    elif used.shape != (mode.of,):
        notes = (f"it has one length for each place along {mode.of}",)
        help = f"write `shape: [{mode.of}]` at `{used.name}`"
        ctx.say(CODE, f"{what} is [{', '.join(used.shape)}]", *path, notes=notes, help=help)
    elif used.role != "in" or used.at:
        reason = used.role if used.role != "in" else "itself taken at places"
        ctx.say(CODE, f"{what} is {reason}", *path, help="lengths are only read, as they are")
