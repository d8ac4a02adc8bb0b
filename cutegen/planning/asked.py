"""The protocol that planning requires of a kernel family; `cutegen.family` documents its methods."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast

from cutegen.language.model import KernelSpec

if TYPE_CHECKING:
    from cutegen.dtypes import Dtype
    from cutegen.language.cases import Case
    from cutegen.planning.report import Report


class Family(Protocol):
    """A kernel skeleton."""

    def cases(self, spec: KernelSpec) -> tuple[Case, ...]: ...

    def resolve(self, spec: KernelSpec, report: Report) -> KernelSpec: ...

    def plan(self, spec: KernelSpec) -> Any: ...

    def variants(self, plan: Any) -> tuple[Any, ...]: ...

    def accumulator(self, spec: KernelSpec) -> Dtype | None: ...


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
