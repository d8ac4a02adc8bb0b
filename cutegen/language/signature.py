"""What the generated function of a spec takes and returns, of its tensors and scalars."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from cutegen.expressions.tree import Compute
    from cutegen.language.model import Scalar, Tensor


class Signature:
    """A spec by what its function takes by place, takes by name, and returns.

    It takes inputs and scalars by place, and outputs by name; each in the order in which the spec declares them.
    """

    tensors: tuple[Tensor, ...]
    scalars: tuple[Scalar, ...]
    compute: Compute

    @property
    def inputs(self) -> tuple[Tensor, ...]:
        """The tensors that are read, an `inout` among them."""
        return tuple(t for t in self.tensors if t.reads)

    @property
    def places(self) -> tuple[Tensor | Scalar, ...]:
        """What the function takes by place: inputs, then scalars."""
        return (*self.inputs, *self.scalars)

    @property
    def named(self) -> tuple[Tensor, ...]:
        """What the function takes by name: the outputs that are not read."""
        return tuple(t for t in self.outputs if not t.reads)

    @property
    def outputs(self) -> tuple[Tensor, ...]:
        """What the function returns: the tensors that are written, in the order of `tensors`."""
        return tuple(t for t in self.tensors if t.name in self.compute.targets)

    @property
    def assigned(self) -> tuple[Tensor, ...]:
        """The outputs in the order in which `compute` assigns to them."""
        tensors = {t.name: t for t in self.tensors}
        return tuple(tensors[target] for target in self.compute.targets if target in tensors)

    @property
    def output(self) -> Tensor:
        """The first tensor that `compute` assigns to."""
        return self.assigned[0]
