"""Tensors whose elements are taken `at` places that other tensors have: what may be taken by what."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.dtypes import Dtype
from cutegen.language.context import Context
from cutegen.language.names import shown, suggestion
from cutegen.language.tensor import Tensor

INDEX_DTYPES = (Dtype.i32, Dtype.i64)


def check_taken(ctx: Context, tensors: tuple[Tensor, ...]) -> bool:
    """Whether every `at` names a mode of its tensor and a tensor of places; says to `ctx` which does not (CG143)."""
    known, before = {t.name: t for t in tensors}, len(ctx.found)
    for tensor in tensors:
        if not tensor.at:
            continue
        path = ("tensors", tensor.name, "at")
        for mode, name in tensor.at:
            if mode not in tensor.modes:
                ctx.unknown_mode(mode, tensor.modes, *path, mode)
            elif name not in known:
                help = suggestion(name, [t.name for t in tensors if t.dtype in INDEX_DTYPES], "tensors of integers")
                ctx.say("CG143", f"`{shown(name)}` is not a tensor of this kernel", *path, mode, help=help)
            else:
                _check_index(ctx, tensor, mode, known[name])
        if len(ctx.found) == before:
            _check_together(ctx, tensor, known)
    if len(ctx.found) == before:
        _check_walked(ctx, tensors)
    return len(ctx.found) == before


def _check_index(ctx: Context, tensor: Tensor, mode: str, index: Tensor) -> None:
    """The places along a mode are integers of 32 or 64 bits, which the kernel reads at its own coordinates."""
    path = ("tensors", tensor.name, "at", mode)
    if index.dtype not in INDEX_DTYPES:
        message = f"`{index.name}`, which holds the places along `{mode}` of `{tensor.name}`, is {index.dtype.value}"
        ctx.say("CG143", message, *path, help=f"give `{index.name}` the type i64 or i32")
    elif index.role != "in":
        message = f"`{index.name}`, which holds the places along `{mode}` of `{tensor.name}`, is {index.role}"
        ctx.say("CG143", message, *path, help="places are read only: write them in another kernel")
    elif index.at:
        message = f"`{index.name}`, which holds the places along `{mode}` of `{tensor.name}`, has `at` itself"
        ctx.say("CG143", message, *path, help="gather the places in a separate kernel")
    elif not index.modes or index.modes != index.shape:
        message = f"`{index.name}`, which holds the places along `{mode}`, is [{', '.join(index.shape)}]"
        ctx.say("CG143", message, *path, help="give it modes with names; a 1 is not possible")
    elif set(index.modes) & set(tensor.modes):
        both = next(m for m in index.modes if m in tensor.modes)
        message = f"`{tensor.name}` has the mode `{both}`, along which `{index.name}` has a place for each coordinate"
        notes = ("the shape is that of the tensor in memory; indexing puts the modes of the places in it",)
        ctx.say("CG143", message, *path, notes=notes, help=f"give the mode of `{tensor.name}` another name")


def _check_together(ctx: Context, tensor: Tensor, known: Mapping[str, Tensor]) -> None:
    """Several modes of one tensor are taken at places along the same modes, and are neighbours."""
    path, taken = ("tensors", tensor.name, "at"), dict(tensor.at)
    first = known[tensor.at[0][1]]
    other = next((known[name] for _, name in tensor.at if known[name].shape != first.shape), None)
    if other is not None:
        message = f"`{other.name}` is [{', '.join(other.shape)}], and `{first.name}` [{', '.join(first.shape)}]"
        notes = (f"both hold places in `{tensor.name}`: each element needs a place in both",)
        ctx.say("CG143", message, *path, key=True, notes=notes, help="give both the same shape")
    axes = [i for i, mode in enumerate(tensor.shape) if mode in taken]
    if axes[-1] - axes[0] + 1 != len(axes):
        message = f"the modes of `{tensor.name}` in `at`, {' and '.join(taken)}, are not adjacent"
        ctx.say("CG143", message, *path, key=True, help="pass a view in which they are adjacent, such as `x.mT`")
    elif tensor.writes and axes[0]:
        message = f"`{tensor.name}` is written at places along `{tensor.shape[axes[0]]}`, which is not its first mode"
        help = "write that mode first, name the contiguous one with `major`, and pass a view such as `x.mT`"
        ctx.say("CG143", message, *path, key=True, help=help)


def _check_walked(ctx: Context, tensors: tuple[Tensor, ...]) -> None:
    """A mode along which elements are taken at places is one in memory only."""
    for tensor in tensors:
        for mode, name in tensor.at:
            other = next((t for t in tensors if mode in t.modes and mode not in dict(t.at)), None)
            if other is None:
                continue
            message = f"`{mode}` is a mode of `{other.name}`, and along it `{tensor.name}` is taken at `{name}`"
            notes = ("a mode in `at` exists in memory only, and has no coordinate in `compute`",)
            help = f"give the mode of `{tensor.name}` another name"
            ctx.say("CG143", message, "tensors", tensor.name, "at", mode, key=True, notes=notes, help=help)
