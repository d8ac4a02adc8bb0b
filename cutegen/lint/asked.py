"""The protocol that lint requires of a kernel family; `cutegen.family` documents its members."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Protocol, cast

from cutegen.language.asked import Op
from cutegen.language.model import KernelSpec, Schedule
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

if TYPE_CHECKING:
    from tensor_layouts import Layout

    from cutegen.analysis.access import Access
    from cutegen.language.kinds import Path
    from cutegen.lint.rule import NoteRule, PerformanceRule, Rule


class Family(Protocol):
    """A kernel skeleton."""

    @property
    def op(self) -> Op: ...

    @property
    def schedule(self) -> type[Schedule]: ...

    def is_finished(self, spec: KernelSpec) -> bool: ...

    def kernels(self, spec: KernelSpec, report: Report) -> tuple[tuple[KernelSpec, Report], ...]: ...

    def kernel_names(self, spec: KernelSpec) -> tuple[str, ...]: ...

    def with_kernel(self, spec: KernelSpec, number: int, changed: KernelSpec) -> KernelSpec: ...

    def common_rules(self, op: Op) -> tuple[Rule, ...]: ...

    def rules(self) -> tuple[Rule, ...]: ...

    def performance_rules(self) -> tuple[PerformanceRule, ...]: ...

    def note_rules(self) -> tuple[NoteRule, ...]: ...

    def numbered_layouts(self, spec: KernelSpec) -> Iterator[tuple[Path, Layout, int]]: ...

    def unreported_cost(self, plan: Plan, made: Sequence[Access]) -> float: ...

    def refused(self, spec: KernelSpec, sizes: Mapping[str, int]) -> str | None: ...

    def accepted(self, spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None: ...


def family_of(spec: KernelSpec) -> Family:
    """The family that a spec belongs to."""
    return cast(Family, spec.family)
