"""The results of several processes that verify one kernel together, and the single report made of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, TypeVar

from cutegen.planning.plan import Plan
from cutegen.verification.agenda import IN_PART, STOPPED, Agenda
from cutegen.verification.report import (
    CaseReport,
    HostCheck,
    KernelReport,
    Reason,
    case_from_json,
    entry_as_json,
)

_Entry = TypeVar("_Entry", CaseReport, HostCheck)
_STOPPED: Reason = "stopped"
_IN_PART: Reason = "in part"


@dataclass
class Part:
    """The results of one process for a kernel: those of the cases that it ran and of the host checks, by their
    positions in the order in which all processes take them.

    `named` has the argument and the text of every host check, whether it ran or not, and whether it is to run. `error`
    says why the process could not go on, and `reason` is the kind of that error.
    """

    cases: dict[int, CaseReport] = field(default_factory=dict)
    checks: dict[int, HostCheck] = field(default_factory=dict)
    named: list[tuple[str, str, bool]] = field(default_factory=list)
    error: str = ""
    reason: Reason | None = None

    def as_json(self) -> dict[str, Any]:
        """The part as plain data."""
        cases = [(place, entry_as_json(case)) for place, case in self.cases.items()]
        checks = [(place, entry_as_json(check)) for place, check in self.checks.items()]
        return {"cases": cases, "checks": checks, "named": self.named, "error": self.error, "reason": self.reason}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Part:
        """The part that `as_json` made data of."""
        cases = {place: case_from_json(case) for place, case in data["cases"]}
        checks = {place: HostCheck(**check) for place, check in data["checks"]}
        named = [(argument, what, wanted) for argument, what, wanted in data["named"]]
        return cls(cases, checks, named, data["error"], data["reason"])


def together(agenda: Agenda, parts: Sequence[Part]) -> Part | None:
    """The merged results of several processes, equal to those of a single one; None where that cannot be guaranteed.

    That is so if a process ended early, so that what would have run after that is unknown, or lacked memory, and a
    single process has more. If the first failure ends a kernel's run, results that come after it are dropped.
    """
    if any(part.error for part in parts) or any(part.named != parts[0].named for part in parts):
        return None
    whole = Part(_merged(part.cases for part in parts), _merged(part.checks for part in parts), parts[0].named)
    if "no memory" in {*(case.reason for case in whole.cases.values()), *(c.reason for c in whole.checks.values())}:
        return None
    cases, checks = len(agenda.turns), len(whole.named)
    if not agenda.extent.all:
        if (failed := _first_failed(whole.cases)) is not None:
            cases, checks = failed + 1, 0
        elif (failed := _first_failed(whole.checks)) is not None:
            checks = failed + 1
    wanted = {place for place, (_, _, wanted) in enumerate(whole.named[:checks]) if wanted}
    if not (whole.cases.keys() >= set(range(cases)) and whole.checks.keys() >= wanted):
        return None
    whole.cases = {place: case for place, case in whole.cases.items() if place < cases}
    whole.checks = {place: check for place, check in whole.checks.items() if place < checks}
    return whole


def report_of(agenda: Agenda, module: str, executor: str, part: Part, seconds: float) -> KernelReport:
    """The report of a kernel, from what was found of all of it: in the order in which cases are derived."""
    why, kind = (part.error, part.reason) if part.error else (STOPPED, _STOPPED)
    ran = {agenda.turns[place]: case for place, case in part.cases.items()}
    cases = tuple(ran.get(number) or agenda.not_run(number, why, kind) for number in range(len(agenda.planned)))
    checks = tuple(
        part.checks.get(place)
        or HostCheck(argument, what, "not run", *((why, kind) if wanted else (IN_PART, _IN_PART)))
        for place, (argument, what, wanted) in enumerate(part.named)
    )
    report = KernelReport(
        agenda.plan.spec.kernel, module, executor, cases, checks, part.error, part.reason, seconds, agenda.extent.quick
    )
    if report.error or report.stopped or report.in_part or not (why := unjudged(agenda.plan, cases)):
        return report
    return replace(report, error=why, reason="open")


def unjudged(plan: Plan, cases: Sequence[CaseReport]) -> str:
    """Says that of some output not one element was judged, in all cases together; empty where each output was."""
    ran = [case for case in cases if case.status == "passed" and case.elements]
    never = [t.name for t in plan.spec.outputs if ran and all(t.name in case.unjudged for case in ran)]
    if not never:
        return ""
    what = f"in no case does the bound say anything about an element of {', '.join(never)}"
    return f"{what}: the spec leaves open what each is, as a number divided by a zero of either sign"


def _merged(parts: Iterable[Mapping[int, _Entry]]) -> dict[int, _Entry]:
    return {place: entry for part in parts for place, entry in part.items()}


def _first_failed(entries: Mapping[int, _Entry]) -> int | None:
    """The place of the first one that failed."""
    return min((place for place, entry in entries.items() if entry.status == "failed"), default=None)
