"""The process that verifies kernels; its jobs are `pool.Job`s, its results reports in JSON.

An event `start` has the name of the case or check that runs next, `case` or `check` what came of it, so that the parent
knows what was running if this process ends in the middle. What kernels print goes to standard error.
"""

from __future__ import annotations

import gc
import warnings
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, entry_as_json
from cutegen.verification.sharing import WHOLE
from cutegen.workers import Last, Tell, serve

if TYPE_CHECKING:
    from cutegen.verification.executor import Executor
    from cutegen.verification.pool import Job


def main() -> None:
    """Verifies kernels for the process that started this one, until it asks for no more."""
    gc.disable()  # but between kernels: the compiler would have it go through all of torch, again and again
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    serve(lambda tell: _Verifier(tell).verify)


class _Verifier:
    """Verifies kernels, and tells what starts and what came of it."""

    def __init__(self, tell: Tell) -> None:
        self._tell = tell
        self._last: tuple[Job, Executor, ModuleType] | None = None  # whose other shares need not be compiled again

    def verify(self, job: Job) -> Any:
        """Verifies one kernel, or a share of it, and gives its report.

        That ends the process, unless the kernel was right in every case and so left nothing behind that another could
        notice.
        """
        from cutegen.verification.runner import loaded, verify_share

        if self._last is None or (self._last[0].module, self._last[0].on) != (job.module, job.on):
            self._forget()
            executor = _executor(job)
            if isinstance(executor, KernelReport):
                return Last(as_json(executor))
            module = loaded(job.plan, job.module, executor)
            if isinstance(module, KernelReport):
                return Last(as_json(module))
            self._last = job, executor, module
        _, executor, module = self._last
        report = verify_share(job.plan, module, executor, self._progress, job.share)
        if not report.ok:
            return Last(as_json(report))
        if job.share == WHOLE:
            self._forget()
        return as_json(report)

    def _forget(self) -> None:
        """Lets go of the kernel before, if there was one."""
        self._last = None
        gc.collect()
        gc.freeze()  # what outlives a kernel is there for good

    def _progress(self, name: str, report: CaseReport | HostCheck | None) -> None:
        if report is None:
            self._tell("start", name)
        else:
            self._tell("case" if isinstance(report, CaseReport) else "check", entry_as_json(report))


def _executor(job: Job) -> Executor | KernelReport:
    """What a job's kernel runs on, or the report that there is no such thing."""
    from cutegen.verification.executor import make_executor
    from cutegen.verification.runner import describe

    try:
        return make_executor(job.on)
    except Exception as error:
        why = f"no executor: {describe(error)}"
        cases = tuple(CaseReport.of(case, "not run", why, "no executor") for case in derive_cases(job.plan))
        return KernelReport(job.plan.spec.kernel, str(job.module), job.on, cases, error=why, reason="no executor")
