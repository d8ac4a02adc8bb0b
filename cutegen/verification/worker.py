"""A process that verifies kernels: `python -m cutegen.verification.worker`.

For each line `[JOB, EVENTS]` on its standard input it writes one to what was its standard output, `{"usable": ...}`:
whether it may verify another kernel. JOB is a file with a pickled `pool.Job`; the file EVENTS gets a JSON line as the
job is taken, and one for each thing that starts and each result, so that the parent knows what was running if this
process ends in the middle.
What kernels print goes to standard error.
"""

from __future__ import annotations

import json
import pickle
import warnings
from pathlib import Path

from cutegen.line_process import served
from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, entry_as_json


def main() -> None:
    jobs, answers = served()
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    for line in jobs:
        job_path, events_path = json.loads(line)
        print(json.dumps({"usable": verify(job_path, events_path)}), file=answers, flush=True)


def verify(job_path: str, events_path: str) -> bool:
    """One kernel; whether it was right in every case, and left nothing behind that another one could notice."""
    from cutegen.verification.executor import make_executor
    from cutegen.verification.pool import Job
    from cutegen.verification.runner import describe, verify_kernel

    job = pickle.loads(Path(job_path).read_bytes())
    assert isinstance(job, Job)
    with open(events_path, "w", encoding="utf-8") as events:

        def write(kind: str, data: object) -> None:
            print(json.dumps({kind: data}), file=events, flush=True)

        write("taken", job.spec.kernel)

        def progress(name: str, report: CaseReport | HostCheck | None) -> None:
            if report is None:
                write("start", name)
            else:
                write("case" if isinstance(report, CaseReport) else "check", entry_as_json(report))

        try:
            executor = make_executor(job.on)
        except Exception as error:
            why = f"no executor: {describe(error)}"
            planned = derive_cases(job.spec, job.tile, job.stages)
            cases = tuple(CaseReport.of(case, "not run", why, "no executor") for case in planned)
            report = KernelReport(job.spec.kernel, str(job.module), job.on, cases, error=why, reason="no executor")
        else:
            report = verify_kernel(job.spec, job.tile, job.stages, job.module, executor, progress)
        write("report", as_json(report))
    return report.ok


if __name__ == "__main__":
    main()
