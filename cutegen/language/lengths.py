"""Modes of which only the first elements exist, so many for each place along another mode: padded batches, and caches
of keys and values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.language.context import Context
from cutegen.language.modes import Lengths, Mode
from cutegen.language.names import shown, suggestion
from cutegen.language.tensor import Tensor

if TYPE_CHECKING:
    from cutegen.language.asked import Op

CODE = "CG149"


def with_lengths(tensors: Sequence[Tensor], modes: Sequence[Mode]) -> tuple[Tensor, ...]:
    """The tensors, each with the lengths that its modes have."""
    every = [Lengths(mode.name, mode.of, mode.lengths) for mode in modes]
    return tuple(replace(t, lengths=tuple(one for one in every if one.mode in t.shape)) for t in tensors)


def lengths_of(tensors: Iterable[Tensor]) -> Lengths | None:
    """The mode of which only some elements exist for each place along another one, if there is one."""
    return next((lengths for tensor in tensors for lengths in tensor.lengths), None)


def ends_and_lengths(tensors: Iterable[Tensor]) -> Iterator[str]:
    """The tensors with the ends of segments and with lengths, by name, once for each tensor that is cut so."""
    for tensor in tensors:
        yield from (one.ends for one in tensor.segments)
        yield from (one.used for one in tensor.lengths)


def check_lengths(ctx: Context, op: Op, modes: Sequence[Mode], tensors: Sequence[Tensor]) -> bool:
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
    elif (written := next((t for t in tensors if t.writes and mode.name in t.shape), None)) is not None:
        message = f"`{written.name}` is {written.role} and has `{mode.name}`, of which only some elements exist"
        help = f"leave `{mode.name}` out of `{written.name}`"
        ctx.say(CODE, message, "tensors", written.name, "shape", help=help)
