"""Several kernels in worker processes, a few at a time: what one breaks, it breaks for itself only.

A worker goes on to the next kernel after one that is right in every case. After any other it ends, and the next kernel
gets a fresh one: importing torch and the DSL takes longer than verifying a small kernel.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cutegen.language.model import KernelSpec
from cutegen.line_process import Died, LineProcess, TimedOut, exit_text
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
    idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
    started: list[_Worker] = []

    def one(job: Job) -> KernelReport:
        try:
            worker = idle.get_nowait()
        except queue.Empty:
            worker = _Worker(threads)
            started.append(worker)
        report, usable = worker.verify(job if on is None else replace(job, on=on), timeout)
        if usable:
            idle.put(worker)
        else:
            worker.close()
        if done is not None:
            done(report)
        return report

    try:
        with ThreadPoolExecutor(max(1, workers)) as pool:
            futures = [pool.submit(one, job) for job in jobs]
            try:
                return [future.result() for future in futures]
            except BaseException:  # Ctrl-C must not wait for what is queued or running
                pool.shutdown(wait=False, cancel_futures=True)
                for worker in tuple(started):
                    worker.kill()
                raise
    finally:
        for worker in started:
            worker.close()


class _Worker:
    """A process that verifies kernels, one after the other, and its folder."""

    def __init__(self, threads: int) -> None:
        """`threads` are torch's."""
        self._folder = tempfile.TemporaryDirectory(prefix="cutegen-verify-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name)
        self._job, self._events, self._log = (folder / n for n in ("job", "events", "log"))
        work = folder / "work"  # the compiler's dumps end up there
        work.mkdir()
        paths = [p for p in sys.path if p]  # the worker finds cutegen and executors where this process does
        given = {"OMP_NUM_THREADS": str(threads), **os.environ}
        # The compiler leaves folders where temporary files go: there they end with the worker.
        environment = {**given, "PYTHONPATH": os.pathsep.join(paths), "TMPDIR": str(work.resolve())}
        with self._log.open("wb") as sink:
            command = [sys.executable, "-m", "cutegen.verification.worker"]
            self._process = LineProcess(command, work, environment, sink)

    def verify(self, job: Job, timeout: float) -> tuple[KernelReport, bool]:
        """The kernel's report, and whether the process may verify another one."""
        start = time.perf_counter()
        said = self._log.stat().st_size
        self._events.write_text("")
        self._job.write_bytes(pickle.dumps(replace(job, module=job.module.resolve())))
        usable, ended = False, ""
        try:
            usable = json.loads(self._process.ask(json.dumps([str(self._job), str(self._events)]), timeout))["usable"]
        except Died:
            ended = f"the process ended with {exit_text(self._process.end(5.0))}"
        except TimedOut:
            ended = f"not done after {timeout:g} s"
            self._process.close()
        lines = self._events.read_text(encoding="utf-8").splitlines()
        words = self._log.read_bytes()[said:].decode("utf-8", "replace")[-2000:].strip()
        return _collect(job, lines, ended, words, time.perf_counter() - start), usable

    def kill(self) -> None:
        """Ends the process at once; may be called from any thread."""
        self._process.kill()

    def close(self) -> None:
        """Ends the process, and removes its folder."""
        self._process.close()
        self._folder.cleanup()


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
