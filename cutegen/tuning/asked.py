"""The members of a family of kernels that the search for a schedule uses, as documented in `cutegen.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    from cutegen.tuning.choice import Choice


class Family(Protocol):
    """A kernel skeleton."""

    @property
    def atoms(self) -> tuple[str, ...]: ...

    def axes(self, specs: Sequence[KernelSpec]) -> Iterator[tuple[str, list[Choice]]]: ...

    def refinements(self, spec: KernelSpec) -> Iterator[Choice]: ...

    def inferred_from(self) -> Mapping[str, tuple[str, ...]]: ...


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
