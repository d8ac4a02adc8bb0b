"""Declared modes of blocks: what they may be blocks of, and which tensors may have them (CG147)."""

from __future__ import annotations

from cutegen.expressions.places import ONE
from cutegen.language.asked import Op
from cutegen.language.context import Context
from cutegen.language.modes import Block, Mode
from cutegen.language.names import shown, suggestion
from cutegen.language.taken import indices
from cutegen.language.tensor import Tensor

CODE = "CG147"


def check_blocks(ctx: Context, op: Op, modes: tuple[Mode, ...], tensors: tuple[Tensor, ...]) -> bool:
    """Whether modes have blocks as they can, and tensors them; says to `ctx` which do not."""
    before = len(ctx.found)
    declared = {mode.name: Block(mode.name, mode.blocks, mode.size) for mode in modes}
    known = tuple(dict.fromkeys(mode for tensor in tensors for mode in tensor.free if mode != ONE))
    for mode in modes:
        _check_mode(ctx, mode, tensors, known, declared)
    for tensor in tensors:
        if tensor.blocks:
            _check_tensor(ctx, op, tensor, tensors)
    return len(ctx.found) == before


def _check_mode(
    ctx: Context, mode: Mode, tensors: tuple[Tensor, ...], known: tuple[str, ...], declared: dict[str, Block]
) -> None:
    """The mode has blocks of a mode with a size of its own, and some tensor has it."""
    path = ("modes", mode.name)
    if mode.blocks in declared:
        message = f"`{mode.name}` has blocks of `{mode.blocks}`, which has blocks itself"
        of = declared[mode.blocks]
        help = f"write `{{blocks: {of.of}, size: {of.size * mode.size}}}`" if of.of not in declared else None
        ctx.say(CODE, message, *path, "blocks", help=help)
    elif mode.blocks not in known:
        message = f"`{shown(mode.blocks)}` is not a mode of a tensor"
        ctx.say(CODE, message, *path, "blocks", help=suggestion(mode.blocks, known, "modes"))
    elif not any(mode.name in tensor.shape for tensor in tensors):
        message = f"no tensor has the mode `{shown(mode.name)}`"
        ctx.say(CODE, message, *path, key=True, help="write it in the shape of a tensor, or leave it out")
    for field in ("static", "divisible"):
        if mode.name in ctx.data.get(field, {}):
            message = f"the size of `{mode.name}` follows from that of `{mode.blocks}`"
            ctx.say(CODE, message, field, mode.name, key=True, help=f"promise a size of `{mode.blocks}`")


def _check_tensor(ctx: Context, op: Op, tensor: Tensor, tensors: tuple[Tensor, ...]) -> None:
    """Only inputs have modes of blocks, at their own coordinates, and not beside the mode that has the blocks."""
    path, first = ("tensors", tensor.name), tensor.blocks[0]
    twice = next((block for block in tensor.blocks if tensor.spread.count(block.of) > 1), None)
    if not op.takes_blocks:
        message = f"`{tensor.name}` has blocks of `{first.of}`, and `op: {op.name}` walks its tensors as they are"
        help = f"give it the mode `{first.of}`"
        if op.has_reductions:
            help = (
                f"see rows as [..., {first.mode}, {first.of}], `static: {{{first.of}: {first.size}}}`, without `modes`"
            )
        ctx.say(CODE, message, *path, "shape", help=help)
    elif twice is not None:
        message = f"`{tensor.name}` has the mode `{twice.of}` twice, of which `{twice.mode}` has blocks"
        ctx.say(CODE, message, *path, "shape", help="leave one of them out")
    elif tensor.writes:
        message = (
            f"`{tensor.name}` is {tensor.role}, and a value for each block of `{first.of}` is not an element of it"
        )
        notes = ("a tensor with a mode of blocks broadcasts along them: it can only be read",)
        rows = f"[..., {first.mode}, {first.of}] with `static: {{{first.of}: {first.size}}}`"
        help = f"reduce rows of a view of shape {rows}, in a row kernel"
        ctx.say(CODE, message, *path, "role", notes=notes, help=help)
    elif tensor.at or tensor.name in indices(tensors):
        what = "is taken at places" if tensor.at else "holds places"
        message = f"`{tensor.name}` has blocks of `{first.of}`, and {what}"
        ctx.say(CODE, message, *path, key=True, help="do one of both in a kernel of its own")
