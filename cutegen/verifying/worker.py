"""The process that verifies kernels; its jobs are `jobs.Job`s, its results reports in JSON.

An event `planned` has the number of cases that are to run; `start` has the name of the case or check that runs next,
`case` or `check` what came of it, so that the parent knows what was running if this process ends in the middle. What
kernels print goes to standard error.
"""

from __future__ import annotations

import gc
import time
import warnings
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, entry_as_json
from cutegen.workers import Going, Last, Tell, may_fork, serve

if TYPE_CHECKING:
    from cutegen.verification.executor import Executor
    from cutegen.verification.parts import Part
    from cutegen.verification.sharing import Share
    from cutegen.verifying.jobs import Job
    from cutegen.verifying.kernel import Progress
    from cutegen.verifying.prepared import Prepared


def main() -> None:
    """Verifies kernels for the process that started this one, until it asks for no more."""
    gc.disable()  # but between kernels: the compiler would have it go through all of torch, again and again
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    serve(lambda tell: _Verifier(tell).verify)


class _Verifier:
    """Verifies kernels, and tells what starts and what came of it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._prepared: Prepared | None = None

    def verify(self, job: Job) -> Any:
        """Verifies one kernel and gives its report; None where a process that shared it did not come to its end.

        A report ends this process, unless the kernel was right in every case and so left nothing behind that another
        could notice, or all of it ran in other processes. A job that is to come is only prepared, after its result.
        """
        from cutegen.verifying.prepared import Prepared

        if job.to_come:
            self._prepared = Prepared(job)
            return Going(None, self._prepared.steps())
        found = self._verified(job)
        return found if isinstance(found, Last) else Going(found, _tidied())

    def _verified(self, job: Job) -> Any:
        from cutegen.verification.agenda import agenda_of
        from cutegen.verification.parts import report_of, together
        from cutegen.verifying.forks import verify_in_forks
        from cutegen.verifying.kernel import loaded, verify_share
        from cutegen.verifying.prepared import Prepared

        prepared, self._prepared = self._prepared, None
        if prepared is None or not prepared.is_for(job):
            prepared = Prepared(job)
        executor = _executor(job)
        if isinstance(executor, KernelReport):
            return Last(as_json(executor))
        module = prepared.module or loaded(job.plan, job.module, executor)
        if isinstance(module, KernelReport):
            return Last(as_json(replace(module, in_part=job.extent.quick)))
        job.kept.know(module, job.plan.spec.kernel)
        start = time.perf_counter()
        agenda = prepared.agenda or agenda_of(job.plan, job.extent, executor.element_limit)
        self._tell("planned", len(agenda.turns))
        if job.processes > 1 and may_fork():
            with suppress(Exception):  # which the first case tells
                executor.prepare(module, job.plan.spec)

            def share(part: Share, tell: Tell) -> Part:
                return verify_share(agenda, module, executor, _progress(tell), part, prepared.ahead)

            parts = verify_in_forks(share, self._tell, job.processes, job.patience)
            shared = None if parts is None else together(agenda, parts)
            if shared is None:
                return None
            return as_json(report_of(agenda, str(job.module), executor.name, shared, time.perf_counter() - start))
        part = verify_share(agenda, module, executor, _progress(self._tell), ahead=prepared.ahead)
        report = report_of(agenda, str(job.module), executor.name, part, time.perf_counter() - start)
        return as_json(report) if report.ok else Last(as_json(report))


def _tidied() -> Iterator[None]:
    """Frees what a kernel has left, which nobody waits for."""
    gc.collect()
    gc.freeze()  # what outlives a kernel is there for good
    yield


def _progress(tell: Tell) -> Progress:
    """Tells what starts, and what came of it."""

    def progress(name: str, report: CaseReport | HostCheck | None) -> None:
        if report is None:
            tell("start", name)
        else:
            tell("case" if isinstance(report, CaseReport) else "check", entry_as_json(report))
            gc.collect(0)  # a launch leaves its memory in circles; what was there before the case is not looked through

    return progress


def _executor(job: Job) -> Executor | KernelReport:
    """The executor for a job's kernel, or a report that none can be set up."""
    from cutegen.verification.executors import make_executor
    from cutegen.verification.runner import describe

    try:
        return make_executor(job.on, job.kept)
    except Exception as error:
        why = f"no executor: {describe(error)}"
        cases = tuple(CaseReport.of(case, "not run", why, "no executor") for case in derive_cases(job.plan))
        report = KernelReport(job.plan.spec.kernel, str(job.module), job.on, cases, error=why, reason="no executor")
        return replace(report, in_part=job.extent.quick)
