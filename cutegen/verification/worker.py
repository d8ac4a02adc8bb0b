"""One kernel in a process of its own: `python -m cutegen.verification.worker JOB EVENTS`.

JOB is a pickled `pool.Job` that the parent wrote; EVENTS gets a JSON line for each thing that starts and each result,
so that the parent knows what was running if this process ends in the middle.
"""

from __future__ import annotations

import json
import pickle
import sys
import warnings
from pathlib import Path

from cutegen.verification.cases import derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, as_json, entry_as_json


def main(job_path: str, events_path: str) -> int:
    from cutegen.verification.executor import make_executor
    from cutegen.verification.pool import Job
    from cutegen.verification.runner import describe, verify_kernel

    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    job = pickle.loads(Path(job_path).read_bytes())
    assert isinstance(job, Job)
    with open(events_path, "w", encoding="utf-8") as events:

        def write(kind: str, data: object) -> None:
            print(json.dumps({kind: data}), file=events, flush=True)

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
            write("report", as_json(report))
            return 2
        write("report", as_json(verify_kernel(job.spec, job.tile, job.stages, job.module, executor, progress)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
