"""The signature of a spec's generated function: the tensors that it takes and returns."""

from __future__ import annotations

from functools import cached_property
from typing import Generic, Protocol, TypeVar

from cutegen.expressions.tree import Compute


class Argument(Protocol):
    """A tensor, as far as it is taken and returned."""

    @property
    def name(self) -> str: ...

    @property
    def names(self) -> tuple[str, ...]: ...  # what `compute` calls it

    @property
    def reads(self) -> bool: ...


T = TypeVar("T", bound=Argument)


class Signature(Generic[T]):
    """A spec by what its function takes and returns, all in the order of the spec. Its subclasses are frozen."""

    tensors: tuple[T, ...]
    compute: Compute

    @property
    def inputs(self) -> tuple[T, ...]:
        """The tensors that are read, an `inout` among them."""
        return tuple(t for t in self.tensors if t.reads)

    @property
    def named(self) -> tuple[T, ...]:
        """The tensors that the function takes by name: the outputs that are not read."""
        return tuple(t for t in self.outputs if not t.reads)

    @cached_property
    def outputs(self) -> tuple[T, ...]:
        """The tensors that the function returns: those that are written, in the order of `tensors`."""
        return tuple(t for t in self.tensors if any(name in self.compute.targets for name in t.names))

    @cached_property
    def assigned(self) -> tuple[T, ...]:
        """The outputs in the order in which `compute` assigns to them."""
        targets = self.compute.targets
        return tuple(sorted(self.outputs, key=lambda t: min(targets.index(n) for n in t.names if n in targets)))

    @cached_property
    def output(self) -> T:
        """The first tensor that `compute` assigns to."""
        return self.assigned[0]
