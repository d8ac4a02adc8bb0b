"""Families of kernels as the checks of host code use them; documented in `cutegen.family`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.analysis.buffers import Scratch
    from cutegen.analysis.tiles import Tiles
    from cutegen.codegen.parts import KernelParts


class Family(Protocol):
    """A kernel skeleton."""

    def scratch(self, plan: Plan) -> Iterator[Scratch]: ...

    def blocks(self, plan: Plan, sizes: Mapping[str, int]) -> int: ...

    def tiles(self, plan: Plan, sizes: Mapping[str, int]) -> Tiles | None: ...

    def place_of(self, plan: Plan, sizes: Mapping[str, int], start: Mapping[str, int]) -> int | None: ...

    def band(self, plan: Plan) -> tuple[str, int] | None: ...

    def largest(self, plan: Plan, beside: Mapping[str, int] | None = None) -> Mapping[str, int]: ...

    def covered(self, plan: Plan) -> dict[str, int]: ...

    def reached(self, plan: Plan, sizes: Mapping[str, int]) -> Mapping[str, int]: ...

    def kernel_parts(self, plan: Plan) -> KernelParts: ...

    def refused(self, spec: KernelSpec, sizes: Mapping[str, int]) -> str | None: ...

    def accepted(self, spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None: ...


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
