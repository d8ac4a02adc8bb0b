"""Compiles many jobs in several worker processes, with a cache in front of them."""

from __future__ import annotations

import os
import queue
import threading
import time
from collections.abc import Callable, Sequence

from cutegen.compiling.artefact import Artefact
from cutegen.compiling.cache import Cache
from cutegen.compiling.outcome import Compiled, Failed, Job, Outcome
from cutegen.compiling.process import Unfit, WorkerProcess
from cutegen.line_process import Died, TimedOut

TIMEOUT = 120.0  # seconds a job
START_TIMEOUT = 120.0  # seconds for importing torch and cutlass; a cold disk takes its time

_Result = tuple[int, Outcome | BaseException]


def compile_all(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    cache: Cache | None = None,
    on_done: Callable[[Job, Outcome], None] | None = None,
    timeout: float = TIMEOUT,
) -> list[Outcome]:
    """Compiles every job; the outcomes come in the order of the jobs.

    `workers` processes at most (None: one a processor), never more than jobs that the cache does not answer; none at
    all if it answers them all. `on_done` is called in the calling thread as each job ends. `timeout` is in seconds for
    one job. What goes wrong in a job is its outcome; an exception of `on_done`, KeyboardInterrupt and what keeps a
    process from being started at all, or from writing its temporary files (OSError), are raised, after every worker was
    killed.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    outcomes: list[Outcome | None] = [None] * len(jobs)

    def done(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        if on_done is not None:
            on_done(jobs[index], outcome)

    waiting: queue.SimpleQueue[int] = queue.SimpleQueue()
    open_jobs = 0
    for index, job in enumerate(jobs):
        start = time.perf_counter()
        found = cache.get(job) if cache is not None else None
        if found is not None:
            done(index, Compiled(found, time.perf_counter() - start, cached=True))
        else:
            waiting.put(index)
            open_jobs += 1
    if open_jobs:
        crew = _Crew(jobs, waiting, timeout)
        try:
            crew.start(min(workers or _processors(), open_jobs))
            for _ in range(open_jobs):
                index, result = crew.results.get()
                if isinstance(result, BaseException):
                    raise result
                if cache is not None and isinstance(result, Compiled):
                    cache.put(jobs[index], result.artefact)
                done(index, result)
        finally:
            crew.end()
            if cache is not None:
                cache.prune()
    return [outcome for outcome in outcomes if outcome is not None]


class _Crew:
    """Threads that take jobs from a queue, each with a worker process that it starts when it has a job for it."""

    def __init__(self, jobs: Sequence[Job], waiting: queue.SimpleQueue[int], timeout: float) -> None:
        self.results: queue.SimpleQueue[_Result] = queue.SimpleQueue()
        self._jobs = jobs
        self._waiting = waiting
        self._timeout = timeout
        self._lock = threading.Lock()
        self._ended = False
        self._unusable: Failed | None = None  # why no worker can be had; then no more are tried
        self._processes: set[WorkerProcess] = set()
        self._threads: list[threading.Thread] = []

    def start(self, count: int) -> None:
        self._threads = [threading.Thread(target=self._work, name=f"compile-{n}", daemon=True) for n in range(count)]
        for thread in self._threads:
            thread.start()

    def end(self) -> None:
        """Kills what still runs, and waits until the processes and their folders are gone."""
        with self._lock:
            self._ended = True
            for process in self._processes:
                process.kill()
        for thread in self._threads:
            thread.join()

    def _work(self) -> None:
        process: WorkerProcess | None = None
        index = 0
        try:
            while not self._ended:
                try:
                    index = self._waiting.get_nowait()
                except queue.Empty:
                    return
                outcome, process = self._one(self._jobs[index], process)
                self.results.put((index, outcome))
        except BaseException as problem:  # the calling thread raises it
            self.results.put((index, problem))
        finally:
            self._discard(process)

    def _one(self, job: Job, process: WorkerProcess | None) -> tuple[Outcome, WorkerProcess | None]:
        """A job's outcome, and the process if it can take another one. Raises OSError where none can."""
        try:
            return self._tried(job, process)
        except Unfit:  # its folder only, it may be
            return self._tried(job, None)

    def _tried(self, job: Job, process: WorkerProcess | None) -> tuple[Outcome, WorkerProcess | None]:
        """As `_one`. Raises Unfit for this process."""
        ready = process is not None
        try:
            if process is None:
                if self._unusable is not None:
                    return self._unusable, None
                process = self._spawn()
                self._unusable = process.wait_ready(START_TIMEOUT)
                if self._unusable is not None:
                    self._discard(process)
                    return self._unusable, None
            ready = True
            answer = process.ask(job, self._timeout)
        except Unfit:
            self._discard(process)
            raise
        except Died:
            assert process is not None
            outcome: Outcome = process.crash(job)
            self._discard(process)
            return outcome, None
        except TimedOut:
            assert process is not None
            outcome = process.overdue(job, self._timeout if ready else START_TIMEOUT)
            self._discard(process)
            return outcome, None
        if "failed" in answer:
            failed = Failed.from_json(answer["failed"])
            return self._located(job, failed, process) if answer.get("unlocated") else (failed, process)
        return Compiled(Artefact.from_json(answer["artefact"]), answer["seconds"], cached=False), process

    def _located(self, job: Job, failed: Failed, process: WorkerProcess) -> tuple[Failed, WorkerProcess | None]:
        """A failure behind the module's own lines, with the line that it is about if another try tells it."""
        try:
            answer = process.ask(job, self._timeout, lines=True)
        except (Died, TimedOut, Unfit):  # what that try did is of no interest, the first one is the outcome
            self._discard(process)
            return failed, None
        located = "failed" in answer and not answer.get("unlocated")
        return Failed.from_json(answer["failed"]) if located else failed, process

    def _spawn(self) -> WorkerProcess:
        with self._lock:  # so that `end` sees every process that was started
            if self._ended:
                raise RuntimeError("the compile was stopped")
            process = WorkerProcess()
            self._processes.add(process)
        return process

    def _discard(self, process: WorkerProcess | None) -> None:
        if process is not None:
            process.close()
            with self._lock:
                self._processes.discard(process)


def _processors() -> int:
    """Processors that this process may use: fewer than the machine has under taskset or in a container."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1
