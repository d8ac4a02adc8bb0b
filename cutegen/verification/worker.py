"""The process that verifies kernels; its jobs are `pool.Job`s, its results reports in JSON.

An event `start` has the name of the case or check that runs next, `case` or `check` what came of it, so that the parent
knows what was running if this process ends in the middle. What kernels print goes to standard error.
"""

from __future__ import annotations

import gc
import warnings
from functools import partial
from typing import TYPE_CHECKING, Any

from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, entry_as_json
from cutegen.workers import Last, Tell, serve

if TYPE_CHECKING:
    from cutegen.verification.pool import Job


def main() -> None:
    """Verifies kernels for the process that started this one, until it asks for no more."""
    gc.disable()  # but between kernels: the compiler would have it go through all of torch, again and again
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    serve(lambda tell: partial(verify, tell))


def verify(tell: Tell, job: Job) -> Any:
    """Verifies one kernel and gives its report.

    That ends the process, unless the kernel was right in every case and so left nothing behind that another could
    notice.
    """
    from cutegen.verification.executor import make_executor
    from cutegen.verification.runner import describe, verify_kernel

    def progress(name: str, report: CaseReport | HostCheck | None) -> None:
        if report is None:
            tell("start", name)
        else:
            tell("case" if isinstance(report, CaseReport) else "check", entry_as_json(report))

    try:
        executor = make_executor(job.on)
    except Exception as error:
        why = f"no executor: {describe(error)}"
        planned = derive_cases(job.plan)
        cases = tuple(CaseReport.of(case, "not run", why, "no executor") for case in planned)
        report = KernelReport(job.plan.spec.kernel, str(job.module), job.on, cases, error=why, reason="no executor")
    else:
        report = verify_kernel(job.plan, job.module, executor, progress)
    gc.collect()
    gc.freeze()  # what outlives a kernel is there for good
    return as_json(report) if report.ok else Last(as_json(report))
