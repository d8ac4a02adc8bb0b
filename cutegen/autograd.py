"""Which kernels compute the gradient of an op of torch: those that its spec names, if they are there and fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.names import nearest, suggestion
from cutegen.language.torch_ops import can_be_made, place_of

GRADIENT = "d"  # before a tensor's name: the gradient of the sum of all outputs, each times its own gradient
ELSE = "grad_"  # the same, as where a tensor of the op's kernel has the other name itself


@dataclass(frozen=True)
class Gradient:
    """One kernel of the gradient of an op: `by` is its spec, and `of` that of the op's kernel. `before` and `after` are
    the other kernels of the gradient, in the order in which they run.

    It may have the modes of a tensor in another order, as a product needs that is of the transposed matrix.
    """

    of: KernelSpec
    by: KernelSpec
    before: tuple[KernelSpec, ...] = ()
    after: tuple[KernelSpec, ...] = ()

    @property
    def saved(self) -> tuple[Tensor, ...]:
        """The tensors of the op's kernel that this one reads, in the order of these here."""
        own = {t.name: t for t in self.of.tensors}
        return tuple(own[t.name] for t in self.by.tensors if t.reads and t.name in own)

    @property
    def given(self) -> Mapping[str, Tensor]:
        """The outputs of the op's kernel whose gradients are read, by the names of the gradients."""
        own = _by_gradients(self.of, self.of.outputs)
        return {t.name: own[t.name] for t in self.by.tensors if t.reads and t.name in own}

    @property
    def made(self) -> Mapping[str, Tensor]:
        """The inputs of the op's kernel whose gradients are made, by the names of the gradients."""
        own = _of_inputs(self.of)
        return {t.name: own[t.name] for t in self.by.outputs if t.name in own}

    @property
    def passed(self) -> Mapping[str, Tensor]:
        """The outputs that kernels after this one read, by name: values such as `delta`, which are no gradients."""
        read = {t.name for one in self.after for t in one.tensors if t.reads}
        known = {*_of_inputs(self.of), *(t.name for t in self.of.tensors)}
        return {t.name: t for t in self.by.outputs if t.name in read - known}

    @property
    def taken(self) -> Mapping[str, Tensor]:
        """The values of kernels before this one that it reads, by name, as those kernels make them."""
        made = gradients_by(self.of, (*self.before, self.by))[:-1]
        values = {name: tensor for one in made for name, tensor in one.passed.items()}
        return {t.name: values[t.name] for t in self.by.tensors if t.reads and t.name in values}

    def maker(self, name: str) -> str | None:
        """The kernel before this one that makes a value which it reads."""
        made = (one.kernel for one in self.before if name in self.taken and name in {t.name for t in one.outputs})
        return next(made, None)


def gradients_by(of: KernelSpec, kernels: Sequence[KernelSpec]) -> list[Gradient]:
    """The gradient of an op by some kernels, in the order in which they run."""
    return [Gradient(of, by, tuple(kernels[:n]), tuple(kernels[n + 1 :])) for n, by in enumerate(kernels)]


def _of_inputs(of: KernelSpec) -> dict[str, Tensor]:
    """The inputs of an op's kernel by the names that their gradients may have."""
    return {start + t.name: t for start in (GRADIENT, ELSE) for t in of.tensors if t.reads}


def _by_gradients(of: KernelSpec, tensors: Sequence[Tensor]) -> dict[str, Tensor]:
    """Tensors by the names that their gradients may have where a kernel also reads tensors of the op's kernel."""
    taken = {t.name for t in of.tensors}
    found = {name: t for t in tensors if (name := GRADIENT + t.name) not in taken}
    return found | {name: t for t in tensors if (name := ELSE + t.name) not in taken}


def gradients_of(spec: KernelSpec, beside: Sequence[KernelSpec]) -> tuple[list[Gradient], list[Diagnostic]]:
    """The gradient that a spec names, by kernels beside it; none, with why, where one is not there or not that."""
    kernels: list[KernelSpec] = []
    problems: list[Diagnostic] = []
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
        kernels.append(by)
    if problems:
        return [], problems
    found = gradients_by(spec, kernels)
    by_whom: dict[str, str] = {}
    for number, one in enumerate(found):
        name = one.by.kernel
        made = (*one.made, *one.passed)
        misfits = list(_misfits(one))
        misfits += [(f"`{x}` is made by `{by_whom[x]}` already", "leave one of them out") for x in made if x in by_whom]
        by_whom |= dict.fromkeys(made, name)
        for why, help in misfits:
            message = f"`{name}` is not the gradient of `{spec.kernel}`: {why}"
            problems.append(spec.source.diagnostic("CG141", message, *place_of(spec.torch, number), help=help))
    return ([] if problems else found), problems


def _misfits(gradient: Gradient) -> Iterator[tuple[str, str]]:
    """Why a kernel is no gradient of another one, each with what would do."""
    of, by = gradient.of, gradient.by
    if by.torch.op is None:
        yield "it has no op", f"write `torch: {{op: ...}}` in the spec of `{by.kernel}`"
    if of.has_module and not by.has_module:
        yield "it has no module, which the op would import", f"name `{by.kernel}` under `modules` of its spec"
    own, given = {t.name: t for t in of.tensors}, _by_gradients(of, of.outputs)
    floats = [t for t in of.tensors if t.reads and t.dtype.is_float]
    wanted = {GRADIENT + t.name: t for t in floats} | {ELSE + t.name: t for t in floats}
    read = {t.name for t in by.tensors if t.reads}
    unclear = {GRADIENT + t.name: t.name for t in of.outputs if ELSE + t.name not in read}
    for tensor in by.tensors:
        if tensor.writes:
            like, what = wanted.get(tensor.name), f"the gradient of an input, such as {_some(wanted)}"
            like = gradient.passed.get(tensor.name) if like is None else like
            if tensor.reads or not can_be_made(by.tensors, by.static, tensor):
                yield f"it does not make `{tensor.name}` by itself", "give it `role: out`, and sizes that inputs have"
        else:
            like = own.get(tensor.name, given.get(tensor.name, gradient.taken.get(tensor.name)))
            what = f"a tensor of `{of.kernel}`, or the gradient of an output, such as {_some(given)}"
            if tensor.name in own and tensor.name in unclear:
                name = unclear[tensor.name]
                why = f"`{tensor.name}` may be that of `{of.kernel}`, or the gradient of `{name}`"
                yield why, f"call the gradient `{ELSE}{name}`, or the tensor of `{of.kernel}` by another name"
        if like is None:
            later = next((one.kernel for one in gradient.after if tensor.name in {t.name for t in one.outputs}), None)
            help = "rename it" if later is None else f"name `{later}`, which makes it, before `{by.kernel}`"
            yield f"`{tensor.name}`, which it {'writes' if tensor.writes else 'reads'}, is not {what}", help
            continue
        modes, kind = ", ".join(like.shape), like.dtype.value
        whose = gradient.maker(tensor.name) or of.kernel
        if sorted(like.shape) != sorted(tensor.shape):
            why = f"`{tensor.name}` is [{', '.join(tensor.shape)}] there, and `{like.name}` [{modes}] in `{whose}`"
            yield why, f"write `[{modes}]`"
        elif tensor.name in {*own, *gradient.taken} and contiguous(tensor) != contiguous(like):
            along = contiguous(like)
            why = f"`{tensor.name}` is contiguous along {contiguous(tensor)}, and along {along} in `{whose}`"
            yield why, f"write `major: {along}`"
        if like.dtype is not tensor.dtype and not tensor.writes:
            why = f"`{tensor.name}` is {tensor.dtype.value} there, and `{like.name}` {kind} in `{whose}`"
            yield why, f"write `dtype: {kind}`"
    numbers = {s.name: s.dtype for s in of.scalars}
    for scalar in by.scalars:
        own_type = numbers.get(scalar.name)
        if own_type is None:
            yield f"it takes a scalar `{scalar.name}` that `{of.kernel}` has not", "leave it out"
        elif own_type is not scalar.dtype:
            why = f"the scalar `{scalar.name}` is {scalar.dtype.value} there, and {own_type.value} in `{of.kernel}`"
            yield why, f"write `{scalar.name}: {own_type.value}`"
    yield from _other_sizes(of, by)
    if not gradient.made and not gradient.passed:
        yield "it makes the gradient of no input", f"call its output {_some(wanted)}"


def _other_sizes(of: KernelSpec, by: KernelSpec) -> Iterator[tuple[str, str]]:
    """The modes with sizes that the op's kernel takes and the gradient's kernel does not."""
    for mode in (mode for mode in by.modes if mode in of.modes):
        size, only = of.static.get(mode), by.static.get(mode)
        takes = f"`{of.kernel}` " + (f"{mode} = {size} only" if size is not None else f"any {mode}")
        if only is not None and only != size:
            help = f"write `static: {{{mode}: {size}}}`"
            if size is None:
                help = f"leave `static` of {mode} out, or write `static: {{{mode}: {only}}}` for `{of.kernel}` too"
            yield f"it takes {mode} = {only} only, and {takes}", help
        step, own = by.divisible.get(mode, 1), size if size is not None else of.divisible.get(mode, 1)
        if only is None and own % step:
            takes = takes if size is not None or own == 1 else f"`{of.kernel}` multiples of {own}"
            yield f"it takes multiples of {step} of {mode} only, and {takes}", f"leave `divisible` of {mode} out"


def contiguous(tensor: Tensor) -> str:
    """The mode in which a tensor is contiguous, the last one where none is written."""
    return tensor.contiguous


def _some(names: Mapping[str, object]) -> str:
    return " or ".join(f"`{name}`" for name in list(names)[:2]) or "none"
