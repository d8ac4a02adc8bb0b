"""Several kernels in worker processes, a few at a time: what one breaks, it breaks for itself only.

A worker goes on to the next kernel after one that is right in every case. After any other it ends, and the next kernel
gets a fresh one: importing torch and the DSL takes longer than verifying a small kernel. So does a kernel whose worker
is gone before it takes the job.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import sys
import tempfile
import threading
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

    Raises nothing for a kernel that crashes, hangs or ends its process: its report says which case was running. Where
    the calling thread is interrupted, the workers are killed, and nothing is said of the kernels that they had.
    """

    # torch's threads wait for each other in a busy loop: more of them than cores slow everyone down
    threads = max(1, (os.cpu_count() or 1) // max(1, min(workers, len(jobs))))
    crew = _Crew(threads, timeout, done)
    try:
        with ThreadPoolExecutor(max(1, workers)) as pool:
            try:
                futures = [pool.submit(crew.one, job if on is None else replace(job, on=on)) for job in jobs]
                return [future.result() for future in futures]
            except BaseException:  # Ctrl-C must not wait for what is queued or running
                pool.shutdown(wait=False, cancel_futures=True)
                crew.stop()
                raise
    finally:
        crew.close()


class _Stopped(Exception):
    """The verification was interrupted."""


class _Crew:
    """The workers, those that are busy and those that wait for a kernel; used by several threads."""

    def __init__(self, threads: int, timeout: float, done: Callable[[KernelReport], None] | None) -> None:
        self._threads, self._timeout, self._done = threads, timeout, done
        self._idle: queue.SimpleQueue[_Worker] = queue.SimpleQueue()
        self._started: list[_Worker] = []
        self._lock = threading.Lock()
        self._stopped = False

    def one(self, job: Job) -> KernelReport:
        """Verifies one kernel. Raises _Stopped once the crew was stopped."""
        report, usable, worker = self._verified(job)
        if usable:
            self._idle.put(worker)
        else:
            worker.close()
        if self._stopped:  # what was killed has not failed
            raise _Stopped
        if self._done is not None:
            self._done(report)
        return report

    def stop(self) -> None:
        """Kills all workers, and lets no more be started."""
        with self._lock:
            self._stopped = True
            for worker in self._started:
                worker.kill()

    def close(self) -> None:
        for worker in self._started:
            worker.close()

    def _verified(self, job: Job) -> tuple[KernelReport, bool, _Worker]:
        try:
            worker = self._idle.get_nowait()
        except queue.Empty:
            worker = self._start()
        else:
            try:
                return *worker.verify(job, self._timeout), worker
            except _Gone:  # since its last kernel, which is nothing that this one did
                worker.close()
                worker = self._start()
        try:
            return *worker.verify(job, self._timeout), worker
        except _Gone as gone:
            return gone.report, False, worker

    def _start(self) -> _Worker:
        with self._lock:  # so that `stop` sees every worker that was started
            if self._stopped:
                raise _Stopped
            worker = _Worker(self._threads)
            self._started.append(worker)
        return worker


class _Gone(Exception):
    """The process ended before it took the job; `report` says so of the kernel."""

    def __init__(self, report: KernelReport) -> None:
        super().__init__(report.error)
        self.report = report


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
        """The kernel's report, and whether the process may verify another one. Raises _Gone."""
        start = time.perf_counter()
        said = self._log.stat().st_size
        self._events.write_text("")
        self._job.write_bytes(pickle.dumps(replace(job, module=job.module.resolve())))
        usable, died, ended = False, False, ""
        try:
            usable = json.loads(self._process.ask(json.dumps([str(self._job), str(self._events)]), timeout))["usable"]
        except Died:
            died = True
            ended = f"the process ended with {exit_text(self._process.end(5.0))}"
        except TimedOut:
            ended = f"not done after {timeout:g} s"
            self._process.close()
        lines = self._events.read_text(encoding="utf-8").splitlines()
        words = self._log.read_bytes()[said:].decode("utf-8", "replace")[-2000:].strip()
        report = _collect(job, lines, ended, words, time.perf_counter() - start)
        if died and not lines:
            raise _Gone(report)
        return report, usable

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
