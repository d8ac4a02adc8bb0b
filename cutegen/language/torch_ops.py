"""The op that torch knows a kernel by: its name, its arguments, and the kernel that computes its gradient.

An op takes the tensors that are read, or that only a caller can make, then the scalars, in the spec's order. It returns
the other outputs. What it takes and writes is an argument that it mutates, of which torch computes no gradient.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.language.context import Context
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.kinds import Record
from cutegen.language.model import KernelSpec, Scalar, Tensor, TorchOp
from cutegen.language.names import MAX_KERNEL_NAME, name_problem, shown, suggestion

GRADIENT = "d"  # before a tensor's name: the gradient of the sum of all outputs, each times its own gradient
TAKEN = ("aten", "prim", "prims", "torch", "c10d", "inductor", "quantized", "torchvision", "torchaudio")

VARIABLES = ("ctx", "inputs", "keys", "output")
"""Of the functions of a module that torch calls, where arguments are variables."""


def can_be_made(tensors: Sequence[Tensor], static: Mapping[str, int], tensor: Tensor) -> bool:
    """Whether a call can make a tensor: it is only written, and its sizes follow from others."""
    known = {mode for t in tensors if t.reads for mode in t.shape} | set(static)
    return not tensor.reads and known.issuperset(tensor.shape) and any(t.reads for t in tensors)


def torch_op(ctx: Context, tensors: Sequence[Tensor], scalars: Sequence[Scalar]) -> TorchOp:
    """The op of a variant, after a look at its name, and at what has a gradient."""
    found: TorchOp = Record(TorchOp).read(ctx.data.get("torch", {}), ctx, ("torch",))
    if found.op is not None:
        _check_name(ctx, found.op)
        for kind, names in (("tensors", [t.name for t in tensors]), ("scalars", [s.name for s in scalars])):
            for name in names:
                if name.lower() in VARIABLES:
                    message = f"`{name}` has the name of what the module of an op calls so itself"
                    ctx.say("CG113", message, kind, name, key=True, help=f"write `{name}_`, or another name")
    elif found.backward is not None:
        message = "`backward` is the gradient of an op, and there is no `op`"
        ctx.say("CG139", message, "torch", "backward", key=True, help=f"write `op: mylib::{ctx.data['kernel']}` too")
    if found.backward is None:
        return found
    problem = name_problem(found.backward, MAX_KERNEL_NAME)
    if problem:
        message = f"`{shown(found.backward)}`, which is to name a kernel, {problem}"
        ctx.say("CG139", message, "torch", "backward", help="name the kernel of the gradient, as its spec does")
    static = ctx.data.get("static", {})
    for tensor in tensors:
        if tensor.writes and not can_be_made(tensors, static, tensor):
            why = "is read and written" if tensor.reads else "has a size that no tensor that is read has"
            message = f"`{tensor.name}` {why}: the op writes an argument, and torch computes no gradient of such an op"
            ctx.say("CG139", message, "torch", "backward", key=True, help="leave `backward` out, or make it an output")
    return found


def _check_name(ctx: Context, op: str) -> None:
    namespace, separator, name = op.partition("::")
    if not separator or name_problem(namespace, MAX_KERNEL_NAME) or name_problem(name, MAX_KERNEL_NAME):
        message = f"`{shown(op)}` is no name of an op: a namespace, `::`, and a name"
        ctx.say("CG138", message, "torch", "op", help=f"write `mylib::{ctx.data['kernel']}`")
    elif namespace in TAKEN:
        message = f"the namespace `{namespace}` has the ops of torch"
        ctx.say("CG138", message, "torch", "op", help=f"write `mylib::{name}`, with a namespace of your own")


@dataclass(frozen=True)
class Gradient:
    """How the gradient of an op is computed: by the op of another kernel, whose spec is `by`."""

    of: KernelSpec
    by: KernelSpec

    @property
    def saved(self) -> tuple[Tensor, ...]:
        """The tensors of the kernel that its gradient reads, in the order of these there."""
        own = {t.name: t for t in self.of.tensors}
        return tuple(own[t.name] for t in self.by.tensors if t.reads and t.name in own)

    @property
    def given(self) -> Mapping[str, Tensor]:
        """The outputs of the kernel whose gradients are read, by the names of the gradients."""
        own = {GRADIENT + t.name: t for t in self.of.outputs}
        return {t.name: own[t.name] for t in self.by.tensors if t.reads and t.name in own}

    @property
    def made(self) -> Mapping[str, Tensor]:
        """The inputs of the kernel whose gradients are made, by the names of the gradients."""
        own = {GRADIENT + t.name: t for t in self.of.tensors if t.reads}
        return {t.name: own[t.name] for t in self.by.outputs if t.name in own}


def gradient_of(spec: KernelSpec, beside: Sequence[KernelSpec]) -> tuple[Gradient | None, list[Diagnostic]]:
    """The gradient that a spec names, among the kernels beside it; None, with why, where that is not it."""
    name = spec.torch.backward
    if name is None:
        return None, []
    by = next((one for one in beside if one.kernel == name), None)
    if by is None:
        help = suggestion(name, [one.kernel for one in beside if one.kernel != spec.kernel], "kernels in this folder")
        message = f"there is no kernel `{name}` in the folder of this spec"
        return None, [spec.source.diagnostic("CG140", message, "torch", "backward", help=help)]
    found = Gradient(spec, by)
    problems = [
        spec.source.diagnostic(
            "CG141", f"`{name}` is no gradient of `{spec.kernel}`: {why}", "torch", "backward", help=help
        )
        for why, help in _misfits(found)
    ]
    return (None, problems) if problems else (found, [])


def _misfits(gradient: Gradient) -> Iterator[tuple[str, str]]:
    """Why a kernel is no gradient of another one, each with what would do."""
    of, by = gradient.of, gradient.by
    if by.torch.op is None:
        yield "it has no op", f"write `torch: {{op: ...}}` in the spec of `{by.kernel}`"
    own, given = {t.name: t for t in of.tensors}, {GRADIENT + t.name: t for t in of.outputs}
    wanted = {GRADIENT + t.name: t for t in of.tensors if t.reads and t.dtype.is_float}
    for tensor in by.tensors:
        if tensor.writes:
            like, what = wanted.get(tensor.name), f"the gradient of an input, such as {_some(wanted)}"
            if tensor.reads or not can_be_made(by.tensors, by.static, tensor):
                yield f"it does not make `{tensor.name}` by itself", "give it `role: out`, and sizes that inputs have"
        else:
            like = own.get(tensor.name, given.get(tensor.name))
            what = f"a tensor of `{of.kernel}`, or the gradient of an output, such as {_some(given)}"
        if like is None:
            yield f"`{tensor.name}`, which it {'writes' if tensor.writes else 'reads'}, is not {what}", "rename it"
        elif like.shape != tensor.shape:
            sizes = ", ".join(like.shape)
            yield f"`{tensor.name}` is [{', '.join(tensor.shape)}], and `{like.name}` [{sizes}]", f"write `[{sizes}]`"
        elif like.dtype is not tensor.dtype and not tensor.writes:
            kinds = f"`{tensor.name}` is {tensor.dtype.value}, and `{like.name}` {like.dtype.value}"
            yield kinds, f"write `dtype: {like.dtype.value}`"
    numbers = {s.name: s.dtype for s in of.scalars}
    for scalar in by.scalars:
        if numbers.get(scalar.name) is not scalar.dtype:
            yield (
                f"it takes a scalar `{scalar.name}`, of {scalar.dtype.value}, that `{of.kernel}` has not",
                "leave it out",
            )
    if not gradient.made:
        yield "it makes the gradient of no input", f"call its output {_some(wanted)}"


def _some(names: Mapping[str, object]) -> str:
    return " or ".join(f"`{name}`" for name in list(names)[:2]) or "none"
