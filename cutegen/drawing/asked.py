"""The interface that drawing requires of a family of kernels. `cutegen.family` says what each answer means."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

if TYPE_CHECKING:
    from cutegen.drawing.model import Figure


class Family(Protocol):
    """A kernel skeleton."""

    def figures(self, plan: Plan) -> tuple[Figure, ...]: ...

    def facts(self, plan: Plan) -> list[tuple[str, str]]: ...


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
