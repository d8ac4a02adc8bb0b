"""Verification of kernels in worker processes, a few at a time: what one breaks, it breaks for itself only.

A worker goes on to the next kernel after one that is right in every case. After any other it ends, and the next kernel
gets a fresh one. On the CPU a worker shares a kernel that takes long beside the others with processes that it forks
once the kernel is compiled, if it can be forked; its report is the one that a single process would give.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import Any

from cutegen.verification.agenda import agenda_of
from cutegen.verification.cases import Case
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, case_from_json, from_json
from cutegen.verification.sharing import deal
from cutegen.verifying.ahead import Ahead
from cutegen.verifying.jobs import Job
from cutegen.verifying.setup import TIMEOUT, worker_setup
from cutegen.workers import Crew, Death, Ending, exit_text

WORKERS = 3  # at a time: verification mostly waits for Python, and a GPU has room for a few


@dataclass(frozen=True)
class SoFar:
    """How far the verification of a kernel is: of how many of its `planned` cases, and of how many host checks it is
    known what came of them.
    """

    kernel: str
    planned: int
    cases: int = 0
    checks: int = 0


def verify_all(
    jobs: Sequence[Job],
    on: str | None = None,
    *,
    workers: int = WORKERS,
    timeout: float = TIMEOUT,
    done: Callable[[KernelReport], None] | None = None,
    going: Callable[[SoFar], None] | None = None,
    ahead: Ahead | None = None,
) -> list[KernelReport]:
    """Verifies every job; the reports come in the jobs' order. `on` overrides the jobs' own; `done` is called in the
    calling thread as each one ends, and `going` after each of its cases and checks. `ahead` has prepared the only job,
    for as many workers and for as long as are given here.

    There are `workers` processes at most, beside those that share a kernel, and each has `timeout` seconds for a case
    or a check. Raises nothing for a kernel that crashes, hangs or ends its process: its report says which case was
    running. Where the calling thread is interrupted, the workers are killed, and nothing is said of the kernels that
    they had. Raises OSError where no process can be started.
    """
    jobs = [replace(job, on=on or job.on, patience=timeout / 2) for job in jobs]
    turns = [(index, 1) for index in range(len(jobs))]
    on_cpu = all(job.on == "cpu" for job in jobs)
    if ahead is not None:
        turns = ahead.turns()
    elif workers > 1 and jobs:
        turns = deal([job.plan for job in jobs], workers, shares=on_cpu)
    reports: dict[int, KernelReport] = {}

    def take(index: int, report: KernelReport) -> None:
        reports[index] = report
        if done is not None:
            done(report)

    going = going or (lambda so_far: None)
    most = max(1, min(workers, len(turns)))
    setup = worker_setup("cpu" if on_cpu else "", timeout)
    with Crew(setup, most) if ahead is None else nullcontext(ahead.crew) as crew:
        again: list[tuple[int, int]] = []  # kernels of which a share did not come to its end
        for index, ending in _run(crew, jobs, turns, going):
            if ending.death is None and ending.result is None:
                again.append((index, 1))
            else:
                take(index, _report(jobs[index], ending))
        for index, ending in _run(crew, jobs, again, going):
            take(index, _report(jobs[index], ending))
    return [reports[index] for index in range(len(jobs))]


def _run(
    crew: Crew, jobs: Sequence[Job], turns: Sequence[tuple[int, int]], going: Callable[[SoFar], None]
) -> Iterator[tuple[int, Ending]]:
    """Has a crew do kernels, each of which so many processes share; yields the number of each one's job and how it
    ended.
    """
    todo = [replace(jobs[index], module=jobs[index].module.resolve(), processes=count) for index, count in turns]
    far: dict[int, SoFar] = {}

    def event(place: int, kind: str, data: Any) -> None:
        if kind == "planned":
            far[place] = SoFar(todo[place].plan.spec.kernel, data)
        elif kind in ("case", "check"):
            now = far[place]
            far[place] = replace(now, cases=now.cases + (kind == "case"), checks=now.checks + (kind == "check"))
            going(far[place])

    for place, ending in crew.run(todo, event=event):
        yield turns[place][0], ending


def _report(job: Job, ending: Ending) -> KernelReport:
    """The worker's own report, or one made from its events if it did not live to write one."""
    if ending.death is None:
        return from_json(ending.result)
    cases: dict[str, CaseReport] = {}
    checks: list[HostCheck] = []
    running = ""
    for kind, data in ending.events:
        match kind:
            case "start":
                running = data
            case "case":
                case = case_from_json(data)
                cases[case.name], running = case, ""
            case "check":
                checks.append(HostCheck(**data))
                running = ""
    error = f"{_ended(ending.death)}{f' in {running}' * bool(running)}{ending.death.last_words}"
    agenda = agenda_of(job.plan, job.extent)
    all_cases = tuple(
        cases.get(c.name)
        or (agenda.not_run(n, "", "process ended") if n in agenda.left_out else _lost(c, c.name == running, error))
        for n, c in enumerate(agenda.planned)
    )
    report = KernelReport(job.plan.spec.kernel, str(job.module), job.on, all_cases, tuple(checks), error)
    return replace(report, reason="process ended", seconds=ending.seconds, in_part=job.extent.quick)


def _ended(death: Death) -> str:
    """How a worker ended, in words."""
    if death.how == "overdue":
        return f"not done after {death.seconds:g} s"
    return f"the process ended with {exit_text(death.code)}"


def _lost(case: Case, running: bool, error: str) -> CaseReport:
    """The report of a case that was `running` when the process ended, or that was still to run."""
    if running:
        return CaseReport.of(case, "failed", error, "process ended")
    return CaseReport.of(case, "not run", "the process had ended before", "process ended")
