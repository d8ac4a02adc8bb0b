"""The values that kernels of one gradient pass to those after them, as their ops compute them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from cutegen.autograd import Gradient
from cutegen.hostchecks import op_calls
from cutegen.hostchecks.arriving import strided
from cutegen.language.model import KernelSpec, Tensor

if TYPE_CHECKING:
    import torch

    from cutegen.reference.bounds import Expected


class Chain:
    """The values that were passed on so far, by name, each with the modes of its tensor."""

    def __init__(self) -> None:
        self._values: dict[str, tuple[Tensor, torch.Tensor]] = {}

    def inputs(
        self, one: Gradient, saved: Mapping[str, torch.Tensor], given: Mapping[str, torch.Tensor]
    ) -> dict[str, torch.Tensor]:
        """The inputs of a kernel by name: of `saved` tensors of the op's kernel, gradients `given` for its outputs, and
        values of kernels before it.
        """
        own, found = {t.name: t for t in one.saved}, {}
        for tensor in (t for t in one.by.by_argument.tensors if t.reads):
            if tensor.name in one.taken:
                like, value = self._values[tensor.name]
            elif tensor.name in own:
                like = own[tensor.name]
                value = saved[like.name]
            else:
                like = one.given[tensor.name]
                value = given[like.name]
            found[tensor.name] = strided(value, like.shape, tensor.shape)
        return found

    def pass_on(self, one: Gradient, values: Mapping[str, torch.Tensor]) -> None:
        """Keeps what later kernels read of a kernel's results."""
        self._values |= {name: (tensor, values[name]) for name, tensor in one.passed.items()}


def results(by: KernelSpec, tensors: Mapping[str, torch.Tensor], scalars: op_calls.Numbers) -> dict[str, torch.Tensor]:
    """The results of the op of a kernel that torch knows, by name."""
    import torch

    namespace, _, name = str(by.torch.op).partition("::")
    op: Any = getattr(getattr(torch.ops, namespace), name).default
    spec = by.by_argument
    laid = {tensor.name: _as_taken(tensors[tensor.name], tensor) for tensor in spec.tensors if tensor.reads}
    with torch.no_grad():
        return op_calls.call(op, spec, laid, scalars)


def _as_taken(x: torch.Tensor, tensor: Tensor) -> torch.Tensor:
    """A tensor contiguous along the mode that a kernel asks for, with rows that are aligned as it asks."""
    if not tensor.shape:
        return x
    place, unit = tensor.shape.index(tensor.contiguous), max(1, (tensor.align or 1) // tensor.dtype.bytes)
    along = x.movedim(place, -1)
    size = along.shape[-1]
    rows = along.new_empty((*along.shape[:-1], -(-size // unit) * unit))[..., :size]
    return rows.copy_(along).movedim(-1, place)


def unlike(one: Gradient, expected: Mapping[str, Expected], found: Mapping[str, torch.Tensor]) -> Iterator[str]:
    """Yields what is wrong with values that a kernel passes on."""
    for name in one.passed:
        if problem := op_calls.wrong_values(expected, {name: found[name]}):
            yield f"`{one.by.kernel}` passes on a wrong value: {problem}"
