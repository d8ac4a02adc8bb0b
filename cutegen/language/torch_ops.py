"""The op that torch knows a kernel by: its name, what it can have as arguments, and whether it can have a gradient.

An op takes the tensors that are read, then the scalars, and by name the outputs that only a caller can make. It returns
the other outputs. What it takes and writes is an argument that it mutates; torch computes no gradient of such an op.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from cutegen.language.context import Context
from cutegen.language.kinds import Record
from cutegen.language.model import Scalar, Tensor
from cutegen.language.names import MAX_KERNEL_NAME, name_problem, shown
from cutegen.language.torch_key import TorchOp
from cutegen.views.extents import extent, is_computed
from cutegen.views.sizes import solved

TAKEN = ("aten", "prim", "prims", "torch", "c10d", "inductor", "quantized", "torchvision", "torchaudio")

VARIABLES = ("ctx", "inputs", "keys", "output")
"""Of the functions of a module that torch calls, where arguments are variables."""


def can_be_made(tensors: Sequence[Tensor], static: Mapping[str, int], tensor: Tensor) -> bool:
    """Whether a call can make a tensor: it is only written, and its sizes follow from others."""
    read = [t for t in tensors if t.reads]
    known = {mode for t in read for mode in t.modes} | set(static) | {one.mode for one in solved(read, static)[0]}
    wanted = {mode for item in tensor.modes for mode in (extent(item).modes if is_computed(item) else (item,))}
    return not tensor.reads and not tensor.at and known >= wanted and bool(read)


def torch_op(ctx: Context, tensors: Sequence[Tensor], scalars: Sequence[Scalar]) -> TorchOp:
    """The op of a variant, after a look at its name, and at what has a gradient."""
    found: TorchOp = Record(TorchOp).read(ctx.data.get("torch", {}), ctx, ("torch",))
    if found.op is not None:
        _check_name(ctx, found.op)
        for kind, names in (("tensors", [t.name for t in tensors]), ("scalars", [s.name for s in scalars])):
            for name in names:
                if name.lower() in VARIABLES:
                    message = f"`{name}` is a name that the module of an op uses itself"
                    ctx.say("CG113", message, kind, name, key=True, help=f"write `{name}_`, or another name")
    elif found.backward:
        message = "`backward` needs `op`, which is missing"
        ctx.say("CG139", message, "torch", "backward", key=True, help=f"write `op: mylib::{ctx.data['kernel']}` too")
    if not found.backward:
        return found
    for number, name in enumerate(found.backward):
        problem = name_problem(name, MAX_KERNEL_NAME)
        if problem:
            message = f"`{shown(name)}`, which is to name a kernel, {problem}"
            help = "name the kernel of the gradient, as its spec does"
            ctx.say("CG139", message, *place_of(found, number), help=help)
    static = ctx.data.get("static", {})
    for tensor in tensors:
        if tensor.writes and not can_be_made(tensors, static, tensor):
            why = "is read and written" if tensor.reads else "has a size that no input has"
            message = f"`{tensor.name}` {why}: the op writes an argument, and torch computes no gradient of such an op"
            how = f"write another tensor than `{tensor.name}`" if tensor.reads else "fix the size by `static`"
            ctx.say("CG139", message, "torch", "backward", key=True, help=f"leave `backward` out, or {how}")
    return found


def place_of(op: TorchOp, number: int) -> tuple[str | int, ...]:
    """Where the name of one kernel of a gradient is."""
    return ("torch", "backward") if len(op.backward) == 1 else ("torch", "backward", number)


def _check_name(ctx: Context, op: str) -> None:
    namespace, separator, name = op.partition("::")
    if not separator or name_problem(namespace, MAX_KERNEL_NAME) or name_problem(name, MAX_KERNEL_NAME):
        message = f"`{shown(op)}` is not the name of an op: a namespace, `::`, and a name"
        ctx.say("CG138", message, "torch", "op", help=f"write `mylib::{ctx.data['kernel']}`")
    elif namespace in TAKEN:
        message = f"the namespace `{namespace}` belongs to torch"
        ctx.say("CG138", message, "torch", "op", help=f"write `mylib::{name}`, with a namespace of your own")
