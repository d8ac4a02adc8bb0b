"""Declared modes, and tensors that have them; those that are cut into segments, checked against these."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.dtypes import Dtype
from cutegen.language.asked import Op
from cutegen.language.context import Context
from cutegen.language.kinds import keys_of
from cutegen.language.model import KernelSpec
from cutegen.language.modes import Block, Mode, Segments
from cutegen.language.names import shown, suggestion
from cutegen.language.tensor import Tensor


def modes_declared(ctx: Context) -> tuple[Mode, ...]:
    """Every mode that the spec declares under `modes` with all keys of one kind; says to `ctx` which lack some."""
    found: tuple[Mode, ...] = keys_of(KernelSpec)["modes"].kind.read(ctx.data.get("modes", {}), ctx, ("modes",))
    whole = []
    for mode in found:
        given = {word for word in ("of", "offsets", "lengths", "blocks", "size") if getattr(mode, word)}
        if given in ({"of", "offsets"}, {"of", "lengths"}, {"blocks", "size"}):
            whole.append(mode)
        else:
            message = f"`{shown(mode.name)}` is declared neither as segments nor as blocks nor with lengths"
            help = "write `{of: X, offsets: ends}` for a mode that is cut into segments, `{of: B, lengths: used}` for "
            help += "one of which so many elements exist, or `{blocks: K, size: 128}`"
            ctx.say("CG102", message, "modes", mode.name, key=True, help=help)
    return tuple(whole)


def with_segments(tensors: Sequence[Tensor], modes: Sequence[Mode]) -> tuple[Tensor, ...]:
    """The tensors, each with the segments that its modes are cut into."""
    every = [Segments(mode.name, mode.of, mode.offsets) for mode in modes]
    return tuple(replace(t, segments=tuple(one for one in every if one.mode in t.shape)) for t in tensors)


def with_blocks(tensors: Sequence[Tensor], modes: Sequence[Mode]) -> tuple[Tensor, ...]:
    """The tensors, each with those of its modes that are blocks of others."""
    every = {mode.name: Block(mode.name, mode.blocks, mode.size) for mode in modes}
    return tuple(replace(t, blocks=tuple(every[mode] for mode in t.shape if mode in every)) for t in tensors)


def check_segments(ctx: Context, op: Op, modes: Sequence[Mode], tensors: Sequence[Tensor]) -> bool:
    """Whether modes are cut into segments as they can be; says to `ctx` what is wrong (CG144)."""
    before = len(ctx.found)
    known = tuple(dict.fromkeys(mode for tensor in tensors for mode in tensor.modes))
    for mode in modes:
        path = ("modes", mode.name)
        if mode.name not in known:
            ctx.unknown_mode(mode.name, known, *path)
        elif mode.of not in known:
            ctx.unknown_mode(mode.of, known, *path, "of", key=False)
        elif not op.takes_segments:
            message = f"`{mode.name}` is cut into segments, and `op: {op.name}` takes none"
            help = (
                "segments are for `op: gemm`; call this kernel for each segment, or give each row the segment's values"
            )
            ctx.say("CG144", message, *path, key=True, help=help)
        elif mode.of == mode.name:
            message = f"`{mode.name}` is cut into segments along itself"
            ctx.say("CG144", message, *path, "of", help="name the mode that has one element for each segment")
        else:
            _check_ends(ctx, mode, tensors)
    if len(modes) > 1 and len(ctx.found) == before:
        message = f"`{modes[0].name}` and `{modes[1].name}` are both cut into segments; one mode of a kernel can be"
        ctx.say("CG144", message, "modes", modes[0].name, key=True, help="write a kernel for each")
    return len(ctx.found) == before


def _check_ends(ctx: Context, mode: Mode, tensors: Sequence[Tensor]) -> None:
    """The ends of segments are integers of 32 bits that are only read, one for each segment."""
    path, ends = ("modes", mode.name, "offsets"), next((t for t in tensors if t.name == mode.offsets), None)
    both = next((t for t in tensors if mode.name in t.shape and mode.of in t.shape), None)
    if ends is None:
        names = [t.name for t in tensors if t.dtype is Dtype.i32]
        help = suggestion(mode.offsets, names, "tensors of i32")
        ctx.say("CG144", f"`{shown(mode.offsets)}` is not a tensor of this kernel", *path, help=help)
    elif ends.dtype is not Dtype.i32:
        message = f"`{ends.name}`, which has the ends of the segments of `{mode.name}`, is {ends.dtype.value}"
        ctx.say("CG144", message, *path, help=f"give `{ends.name}` the type i32")
    elif ends.shape != (mode.of,):
        message = f"`{ends.name}`, which has the ends of the segments of `{mode.name}`, is [{', '.join(ends.shape)}]"
        notes = (f"it has one end for each element along {mode.of}",)
        ctx.say("CG144", message, *path, notes=notes, help=f"write `shape: [{mode.of}]` at `{ends.name}`")
    elif ends.role != "in" or ends.at:
        message = f"`{ends.name}`, which has the ends of the segments of `{mode.name}`, is "
        message += ends.role if ends.role != "in" else "itself taken at places"
        ctx.say("CG144", message, *path, help="ends are only read, as they are")
    elif both is not None:
        message = f"`{both.name}` has `{mode.name}` and `{mode.of}`, and a row of `{mode.name}` belongs to one segment"
        help = f"leave `{mode.of}` out of `{both.name}`"
        ctx.say("CG144", message, "tensors", both.name, "shape", help=help)
