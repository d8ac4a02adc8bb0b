"""Which kernels compute the gradient of an op of torch: those that its spec names, if they are there and fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.names import nearest, suggestion
from cutegen.language.torch_ops import can_be_made, place_of

GRADIENT = "d"  # before a tensor's name: the gradient of the sum of all outputs, each times its own gradient


@dataclass(frozen=True)
class Gradient:
    """One kernel of the gradient of an op: `by` is its spec, and `of` that of the op's kernel.

    It may have the modes of a tensor in another order, as a product needs that is of the transposed matrix.
    """

    of: KernelSpec
    by: KernelSpec

    @property
    def saved(self) -> tuple[Tensor, ...]:
        """The tensors of the op's kernel that this one reads, in the order of these here."""
        own = {t.name: t for t in self.of.tensors}
        return tuple(own[t.name] for t in self.by.tensors if t.reads and t.name in own)

    @property
    def given(self) -> Mapping[str, Tensor]:
        """The outputs of the op's kernel whose gradients are read, by the names of the gradients."""
        own = {GRADIENT + t.name: t for t in self.of.outputs}
        return {t.name: own[t.name] for t in self.by.tensors if t.reads and t.name in own}

    @property
    def made(self) -> Mapping[str, Tensor]:
        """The inputs of the op's kernel whose gradients are made, by the names of the gradients."""
        own = {GRADIENT + t.name: t for t in self.of.tensors if t.reads}
        return {t.name: own[t.name] for t in self.by.outputs if t.name in own}


def gradients_of(spec: KernelSpec, beside: Sequence[KernelSpec]) -> tuple[list[Gradient], list[Diagnostic]]:
    """The gradient that a spec names, by kernels beside it; none, with why, where one is not there or not that."""
    found: list[Gradient] = []
    problems: list[Diagnostic] = []
    by_whom: dict[str, str] = {}
    for number, name in enumerate(spec.torch.backward):
        place = place_of(spec.torch, number)
        by = next((one for one in beside if one.kernel == name), None)
        if by is None:
            known = [one.kernel for one in beside if one.kernel != spec.kernel]
            help = suggestion(name, known, "kernels in this folder")
            if not known or nearest(name, known) is None:
                help = f"`cutegen grad SPEC -o FILE` writes the spec of a gradient; {help}"
            message = f"there is no kernel `{name}` in the folder of this spec"
            problems.append(spec.source.diagnostic("CG140", message, *place, help=help))
            continue
        found.append(Gradient(spec, by))
        misfits = list(_misfits(found[-1]))
        misfits += [
            (f"`{made}` is made by `{by_whom[made]}` already", "leave one of them out")
            for made in found[-1].made
            if made in by_whom
        ]
        by_whom |= dict.fromkeys(found[-1].made, name)
        for why, help in misfits:
            message = f"`{name}` is no gradient of `{spec.kernel}`: {why}"
            problems.append(spec.source.diagnostic("CG141", message, *place, help=help))
    return ([] if problems else found), problems


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
            if tensor.name in own and tensor.name in given:
                why = f"`{tensor.name}` may be that of `{of.kernel}`, or the gradient of `{given[tensor.name].name}`"
                yield why, f"give the tensor `{tensor.name}` of `{of.kernel}` another name"
        if like is None:
            yield f"`{tensor.name}`, which it {'writes' if tensor.writes else 'reads'}, is not {what}", "rename it"
            continue
        modes, kind = ", ".join(like.shape), like.dtype.value
        if sorted(like.shape) != sorted(tensor.shape):
            yield f"`{tensor.name}` is [{', '.join(tensor.shape)}], and `{like.name}` [{modes}]", f"write `[{modes}]`"
        elif tensor.name in own and contiguous(tensor) != contiguous(like):
            along = contiguous(like)
            why = f"`{tensor.name}` is contiguous along {contiguous(tensor)}, and along {along} in `{of.kernel}`"
            yield why, f"write `major: {along}`"
        if like.dtype is not tensor.dtype and not tensor.writes:
            yield f"`{tensor.name}` is {tensor.dtype.value}, and `{like.name}` {kind}", f"write `dtype: {kind}`"
    numbers = {s.name: s.dtype for s in of.scalars}
    for scalar in by.scalars:
        if numbers.get(scalar.name) is not scalar.dtype:
            kind = f"a scalar `{scalar.name}`, of {scalar.dtype.value}"
            yield f"it takes {kind}, that `{of.kernel}` has not", "leave it out"
    if not gradient.made:
        yield "it makes the gradient of no input", f"call its output {_some(wanted)}"


def contiguous(tensor: Tensor) -> str:
    """The mode in which a tensor is contiguous, the last one where none is written."""
    return tensor.contiguous


def _some(names: Mapping[str, object]) -> str:
    return " or ".join(f"`{name}`" for name in list(names)[:2]) or "none"
