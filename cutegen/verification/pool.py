"""Several kernels, each in a process of its own, a few at a time: what one breaks, it breaks for itself only."""

from __future__ import annotations

import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutegen.language.model import KernelSpec
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, case_from_json, from_json

WORKERS = 3  # at a time: verification mostly waits for Python, and a GPU has room for a few
TIMEOUT = 600.0  # seconds a kernel


@dataclass(frozen=True)
class Job:
    """One kernel to verify: resolved spec, its plan's `tile` and `stages`, its file; `on` as for `make_executor`."""

    spec: KernelSpec
    tile: Mapping[str, int]
    stages: int | None
    module: Path
    on: str = "gpu"


def verify_all(
    jobs: Sequence[Job],
    on: str | None = None,
    *,
    workers: int = WORKERS,
    timeout: float = TIMEOUT,
    done: Callable[[KernelReport], None] | None = None,
) -> list[KernelReport]:
    """A report for each job, in the jobs' order. `on` overrides the jobs' own; `done` is called as each one ends.

    Raises nothing for a kernel that crashes, hangs or ends its process: its report says which case was running.
    """

    # torch's threads wait for each other in a busy loop: more of them than cores slow everyone down
    threads = max(1, (os.cpu_count() or 1) // max(1, min(workers, len(jobs))))

    running: set[subprocess.Popen[bytes]] = set()

    def one(job: Job) -> KernelReport:
        report = _in_process(job if on is None else replace(job, on=on), timeout, threads, running)
        if done is not None:
            done(report)
        return report

    with ThreadPoolExecutor(max(1, workers)) as pool:
        futures = [pool.submit(one, job) for job in jobs]
        try:
            return [future.result() for future in futures]
        except BaseException:  # Ctrl-C must not wait for what is queued or running
            pool.shutdown(wait=False, cancel_futures=True)
            for process in tuple(running):
                _kill_group(process)
            raise


def _in_process(job: Job, timeout: float, threads: int, running: set[subprocess.Popen[bytes]]) -> KernelReport:
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="cutegen-verify-") as folder:
        job_path, events, output = (Path(folder) / n for n in ("job", "events", "output"))
        job_path.write_bytes(pickle.dumps(replace(job, module=job.module.resolve())))
        command = [sys.executable, "-m", "cutegen.verification.worker", str(job_path), str(events)]
        ended = ""
        paths = [p for p in sys.path if p]  # the worker finds cutegen and executors where this process does
        environment = {"OMP_NUM_THREADS": str(threads), **os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        with output.open("wb") as sink:
            process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=sink,
                stderr=subprocess.STDOUT,
                cwd=folder,  # the compiler's dumps end up there
                env=environment,
                start_new_session=True,
            )
            running.add(process)
            try:
                code = process.wait(timeout)
                if code != 0:
                    ended = f"the process ended with {exit_text(code)}"
            except subprocess.TimeoutExpired:
                ended = f"not done after {timeout:g} s"
            finally:
                _kill_group(process)
                running.discard(process)
        lines = events.read_text(encoding="utf-8").splitlines() if events.exists() else []
        tail = output.read_text(encoding="utf-8", errors="replace")[-2000:].strip()
    return _collect(job, lines, ended, tail, time.perf_counter() - start)


def _collect(job: Job, lines: Sequence[str], ended: str, tail: str, seconds: float) -> KernelReport:
    """The worker's own report, or what can be told from its events if it did not live to write one."""
    cases: dict[str, CaseReport] = {}
    checks: list[HostCheck] = []
    running = ""
    for line in lines:
        try:
            event: dict[str, Any] = json.loads(line)
        except ValueError:
            continue  # cut off in the middle
        if "report" in event:
            return from_json(event["report"])
        if "case" in event:
            case = case_from_json(event["case"])
            cases[case.name], running = case, ""
        elif "check" in event:
            checks.append(HostCheck(**event["check"]))
            running = ""
        running = event.get("start", running)
    error = ended or "the process ended without a report"
    if running:
        error = f"{error} in {running}"
    if tail:
        error += f"; its last words: {tail.splitlines()[-1][:300]}"
    planned = derive_cases(job.spec, job.tile, job.stages)
    all_cases = tuple(cases.get(c.name) or _lost(c, c.name == running, error) for c in planned)
    return KernelReport(
        job.spec.kernel, str(job.module), job.on, all_cases, tuple(checks), error, "process ended", seconds
    )


def _lost(case: Case, running: bool, error: str) -> CaseReport:
    if running:
        return CaseReport.of(case, "failed", error, "process ended")
    return CaseReport.of(case, "not run", "the process had ended before", "process ended")


def exit_text(code: int) -> str:
    """How a process ended, from its return code: `exit status 1`, `signal SIGSEGV`."""
    if code >= 0:
        return f"exit status {code}"
    try:
        return f"signal {signal.Signals(-code).name}"
    except ValueError:
        return f"signal {-code}"


def _kill_group(process: subprocess.Popen[bytes]) -> None:
    """The worker and whatever it started."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
