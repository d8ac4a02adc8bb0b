"""The outputs whose gradients a backward is given, the tensors whose gradients it makes, and the names of all these."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cutegen.differentiation.reverse import DifferentiationError
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec, Tensor
from cutegen.language.names import MAX_KERNEL_NAME, MAX_NAME, suggestion

SUFFIX = "_bwd"


@dataclass(frozen=True)
class Backward:
    """The specs of a backward, in the order in which they run, and the tensors that could have had a gradient and have
    none.
    """

    specs: tuple[KernelSpec, ...]
    without: tuple[str, ...] = ()
    summed: tuple[str, ...] = ()  # of those, whose gradients are sums over places or blocks

    @property
    def spec(self) -> KernelSpec:
        """The spec of a backward of one kernel."""
        (spec,) = self.specs
        return spec


@dataclass(frozen=True)
class Buildable:
    """A backward that builds, and of the tensors whose gradients would not: the error that says why, by name."""

    made: Backward
    refused: Mapping[str, Diagnostic] = field(default_factory=dict)


def given_outputs(spec: KernelSpec, names: Sequence[str]) -> tuple[str, ...]:
    """The outputs whose gradients the backward is given."""
    able = [tensor.name for tensor in spec.outputs if tensor.dtype.is_float]
    for name in names:
        if name not in able:
            help = suggestion(name, able, "outputs that have one")
            raise DifferentiationError(f"`{name}` is not an output of floats, so it has no gradient", help)
    if not able:
        raise DifferentiationError(f"{spec.kernel} writes no floats, so there is nothing to differentiate")
    return tuple(name for name in able if not names or name in names)


def wanted_tensors(spec: KernelSpec, wrt: Sequence[str]) -> tuple[Tensor, ...]:
    """The tensors that are asked for, in the spec's order."""
    tensors = {tensor.name: tensor for tensor in spec.tensors}
    able = [tensor for tensor in spec.tensors if tensor.reads and tensor.dtype.is_float]
    help = f"tensors that can have one: {', '.join(tensor.name for tensor in able)}" if able else None
    for name in wrt:
        if name in [scalar.name for scalar in spec.scalars]:
            message = f"`{name}` is a scalar, and a kernel writes tensors: it has no gradient here"
            raise DifferentiationError(message, f"make `{name}` a tensor that broadcasts, as one of `shape: [M]` does")
        if name not in tensors:
            raise DifferentiationError(f"{spec.kernel} has no tensor `{name}`", suggestion(name, tensors))
        if not tensors[name].reads:
            raise DifferentiationError(f"`{name}` is written and not read: it has no gradient", help)
        if not tensors[name].dtype.is_float:
            message = f"`{name}` has whole numbers, {tensors[name].dtype.value}: it has no gradient"
            raise DifferentiationError(message, help)
    if not able:
        raise DifferentiationError(f"{spec.kernel} reads no tensor of floats, so there is nothing to differentiate by")
    chosen = tuple(tensor for tensor in able if not wrt or tensor.name in wrt)
    taken = [tensor for tensor in chosen if tensor.at]
    if taken and (wrt or len(taken) == len(chosen)):
        indices = [index for _, index in taken[0].at]
        named = " and ".join(f"`{index}`" for index in indices)
        message = f"`{taken[0].name}` is read at the places of {named}: its gradient adds up what equal places give"
        adding = "index_add_" if len(indices) == 1 else "index_put_(..., accumulate=True)"
        elements = f"{taken[0].name}[{', '.join(indices)}]"
        help = f"their order is not fixed: use `{adding}` of torch on the gradient of `{elements}`"
        raise DifferentiationError(message, help)
    blocked = [tensor for tensor in chosen if tensor.blocks]
    if blocked and (wrt or len(blocked) == len(chosen)):
        name, of = blocked[0].name, blocked[0].blocks[0].of
        message = f"`{name}` has a value for each block of {of}: its gradient is a sum over each"
        raise DifferentiationError(message, "write the gradient of each element, and sum views of blocks in torch")
    return tuple(tensor for tensor in chosen if not (tensor.at or tensor.blocks))


class GradientNames:
    """Names for gradients that nothing else of a kernel has."""

    def __init__(self, spec: KernelSpec) -> None:
        tensors = (tensor.name for tensor in (*spec.tensors, *spec.arguments))
        scalars = (scalar.name for scalar in spec.scalars)
        self.own = (*tensors, *scalars, *spec.compute.targets, *spec.modes)
        self.taken = {name.lower() for name in self.own}

    def of(self, name: str, end: str = "") -> str:
        """The name of a tensor's gradient. Raises DifferentiationError where none is free."""
        found = next(n for n in (f"d{name}{end}", f"grad_{name}{end}", "") if n.lower() not in self.taken)
        if not found or len(found) > MAX_NAME:
            why = "is too long" if found else "is taken"
            raise DifferentiationError(f"there is no name for the gradient of `{name}`: `d{name}{end}` {why}")
        self.taken.add(found.lower())
        return found


def kernel_name(spec: KernelSpec, ending: str = SUFFIX) -> str:
    """The name of a kernel of a backward. Raises DifferentiationError where it is too long."""
    if len(spec.kernel) + len(ending) > MAX_KERNEL_NAME:
        message = f"the backward of {spec.kernel} would have a name of more than {MAX_KERNEL_NAME} characters"
        raise DifferentiationError(message, "give the kernel a shorter name")
    return f"{spec.kernel}{ending}"
