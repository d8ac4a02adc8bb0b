"""Verification of kernels in worker processes, a few at a time: what one breaks, it breaks for itself only.

A worker goes on to the next kernel after one that is right in every case. After any other it ends, and the next kernel
gets a fresh one: importing torch and the DSL takes longer than verifying a small kernel. On the CPU a kernel that takes
long beside the others is dealt to all of them, which compile it once each; its report is the one that a single process
would give.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.planning.plan import Plan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, case_from_json, from_json
from cutegen.verification.sharing import WHOLE, Share, deal, together
from cutegen.workers import Crew, Death, Ending, Setup, exit_text, python_path, worker_command

WORKERS = 3  # at a time: verification mostly waits for Python, and a GPU has room for a few
TIMEOUT = 600.0  # seconds a kernel


@dataclass(frozen=True)
class Job:
    """One kernel to verify, or a share of it: its plan and its file; `on` as for `make_executor`."""

    plan: Plan
    module: Path
    on: str = "gpu"
    share: Share = WHOLE


def verify_all(
    jobs: Sequence[Job],
    on: str | None = None,
    *,
    workers: int = WORKERS,
    timeout: float = TIMEOUT,
    done: Callable[[KernelReport], None] | None = None,
) -> list[KernelReport]:
    """Verifies every job; the reports come in the jobs' order. `on` overrides the jobs' own; `done` is called in the
    calling thread as each one ends.

    There are `workers` processes at most, and each has `timeout` seconds for a kernel or a share of it. Raises nothing
    for a kernel that crashes, hangs or ends its process: its report says which case was running. Where the calling
    thread is interrupted, the workers are killed, and nothing is said of the kernels that they had. Raises OSError
    where no process can be started.
    """
    jobs = [job if on is None else replace(job, on=on) for job in jobs]
    turns = [(index, WHOLE) for index in range(len(jobs))]
    if workers > 1 and jobs:
        turns = deal([job.plan for job in jobs], workers, shares=all(job.on == "cpu" for job in jobs))
    reports: dict[int, KernelReport] = {}
    shares: dict[int, dict[int, KernelReport | None]] = {}
    began: dict[int, float] = {}  # when the first share of a kernel began

    def take(index: int, report: KernelReport) -> None:
        reports[index] = report
        if done is not None:
            done(report)

    with Crew(_setup(timeout), max(1, min(workers, len(turns)))) as crew:
        again: list[tuple[int, Share]] = []  # kernels of which a share did not come to its end
        for index, share, ending in _run(crew, jobs, turns):
            if share == WHOLE:
                take(index, _report(jobs[index], ending))
                continue
            ended = shares.setdefault(index, {})
            part = None if ending.death is not None else from_json(ending.result)
            ended[share.number] = part
            now = time.perf_counter()
            began[index] = min(began.get(index, now), now - (part.seconds if part else 0.0))
            if len(ended) == share.of:
                report = together(jobs[index].plan, [ended[number] for number in range(share.of)], now - began[index])
                if report is None:
                    again.append((index, WHOLE))
                else:
                    take(index, report)
        for index, _, ending in _run(crew, jobs, again):
            take(index, _report(jobs[index], ending))
    return [reports[index] for index in range(len(jobs))]


def _run(crew: Crew, jobs: Sequence[Job], turns: Sequence[tuple[int, Share]]) -> Iterator[tuple[int, Share, Ending]]:
    """Has a crew do kernels, or shares of them; yields the number of each one's job, its share and how it ended."""
    todo = [replace(jobs[index], module=jobs[index].module.resolve(), share=share) for index, share in turns]
    for place, ending in crew.run(todo):
        yield *turns[place], ending


def _setup(timeout: float) -> Setup:
    """Describes workers that verify, each with `timeout` seconds for a kernel."""

    def environment(folder: Path) -> dict[str, str]:
        # torch's threads wait for each other in a busy loop: on tensors of this size, beside anything else that runs,
        # they do so for several times as long as one thread needs
        given = {"OMP_NUM_THREADS": "1", **os.environ}
        # The compiler leaves folders where temporary files go: there they end with the worker.
        return {**given, "PYTHONPATH": python_path(), "TMPDIR": str(folder)}

    return Setup(worker_command("cutegen.verification.worker"), environment, timeout, start_timeout=timeout)


def _report(job: Job, ending: Ending) -> KernelReport:
    """The worker's own report, or what can be told from its events if it did not live to write one."""
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
    planned = derive_cases(job.plan)
    all_cases = tuple(cases.get(c.name) or _lost(c, c.name == running, error) for c in planned)
    return KernelReport(
        job.plan.spec.kernel, str(job.module), job.on, all_cases, tuple(checks), error, "process ended", ending.seconds
    )


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
