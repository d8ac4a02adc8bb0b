"""Statements of which only the elements that exist are part: those up to a length along a mode."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.expressions.reducing import rebuilt
from cutegen.expressions.tree import Binary, Call, Coord, Expr, Literal_, Name, Reduce, Typed
from cutegen.language.context import Context
from cutegen.language.lengths import CODE, lengths_of
from cutegen.language.modes import Lengths
from cutegen.language.tensor import Tensor
from cutegen.ops.walked import Walked, without_widening

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
