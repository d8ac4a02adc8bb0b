"""A schedule that may be taken, and what tells whether it can."""

from __future__ import annotations

from dataclasses import dataclass, replace

from cutegen.family import family_of
from cutegen.language.cases import Conditions
from cutegen.language.model import KernelSpec, Schedule
from cutegen.planning.report import Report


@dataclass(frozen=True)
class Choice:
    """A schedule that names its atom, the targets and the calls that it is for, and why it is taken."""

    schedule: Schedule
    targets: tuple[str, ...]
    why: str
    conditions: Conditions = Conditions()

    def told_by_target(self) -> Choice:
        """The same, taken where its targets are those of a call."""
        return replace(self, conditions=replace(self.conditions, targets=self.targets))


def having(spec: KernelSpec, schedule: Schedule, targets: tuple[str, ...]) -> KernelSpec:
    """The spec with that schedule, for those of its targets."""
    return replace(spec, schedule=schedule, targets=targets)


def tried(spec: KernelSpec) -> tuple[KernelSpec, str | None]:
    """A spec as its family completes it, and the first error that is said of that; None where there is none."""
    from cutegen.lint import check  # late: what has its family needs no rules to be read

    report = Report(spec.source)
    resolved = family_of(spec).resolve(spec, report)
    if not report.failed:
        check(resolved, report, advise=False)
    return resolved, next((d.message for d in report.diagnostics if d.severity == "error"), None)
