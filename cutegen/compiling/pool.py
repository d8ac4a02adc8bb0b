"""Compiles many jobs in several worker processes, with a cache in front of them."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext

from cutegen.compiling.artefact import Artefact
from cutegen.compiling.cache import Cache
from cutegen.compiling.deaths import failed_by
from cutegen.compiling.environment import IMPORTS, clean_environment
from cutegen.compiling.outcome import Compiled, Failed, Job, Outcome
from cutegen.workers import Crew, Ending, Setup, processors, worker_command

TIMEOUT = 120.0  # seconds a job
START_TIMEOUT = 120.0  # seconds for importing torch and cutlass; a cold disk takes its time


def compile_all(
    jobs: Sequence[Job],
    *,
    workers: int | None = None,
    cache: Cache | None = None,
    on_done: Callable[[Job, Outcome], None] | None = None,
    timeout: float = TIMEOUT,
    crew: Crew | None = None,
) -> list[Outcome]:
    """Compiles every job; the outcomes come in the order of the jobs.

    Everything else is as `compile_until` has it.
    """
    outcomes = compile_until(jobs, workers=workers, cache=cache, on_done=on_done, timeout=timeout, crew=crew)
    return [outcome for outcome in outcomes if outcome is not None]  # without an end of time, every one


def compile_until(
    jobs: Sequence[Job],
    *,
    until: float | None = None,
    workers: int | None = None,
    cache: Cache | None = None,
    on_done: Callable[[Job, Outcome], None] | None = None,
    timeout: float = TIMEOUT,
    crew: Crew | None = None,
) -> list[Outcome | None]:
    """Compiles jobs, the first ones first, until a time by `time.monotonic` (None: all of them).

    The outcomes come in the order of the jobs; those that did not end in time have None.

    There are `workers` processes at most (None: one a processor), never more than jobs that the cache does not answer,
    and none at all if it answers them all. `on_done` is called in the calling thread as each job ends. `timeout` is in
    seconds for one job. A `crew` of workers that compile, which stays after that, does the jobs in the place of others,
    with its own number of workers and timeout.

    What goes wrong in a job is its outcome. An exception of `on_done`, KeyboardInterrupt and what keeps a process from
    being started at all, or from writing its temporary files (OSError), are raised, after every worker was killed.
    """
    if workers is not None and workers < 1:
        raise ValueError(f"workers must be at least 1, got {workers}")
    outcomes: dict[int, Outcome] = {}

    def done(index: int, outcome: Outcome) -> None:
        outcomes[index] = outcome
        if on_done is not None:
            on_done(jobs[index], outcome)

    waiting: list[int] = []
    for index, job in enumerate(jobs):
        if until is not None and time.monotonic() >= until:
            break
        start = time.perf_counter()
        found = cache.get(job) if cache is not None else None
        if found is not None:
            done(index, Compiled(found, time.perf_counter() - start, cached=True))
        else:
            waiting.append(index)
    if waiting:
        try:
            most = min(workers or processors(), len(waiting))
            with Crew(worker_setup(timeout), most) if crew is None else nullcontext(crew) as busy:
                for number, ending in busy.run([jobs[index] for index in waiting], until):
                    index = waiting[number]
                    outcome = _outcome(jobs[index], ending)
                    if cache is not None and isinstance(outcome, Compiled):
                        cache.put(jobs[index], outcome.artefact)
                    done(index, outcome)
        finally:
            if cache is not None:
                cache.prune()
    return [outcomes.get(index) for index in range(len(jobs))]


def worker_setup(timeout: float) -> Setup:
    """Describes workers that compile, with `timeout` seconds for each try of a job."""
    return Setup(
        command=worker_command("cutegen.compiling.worker"),
        environment=lambda folder: clean_environment(os.environ, folder),
        timeout=timeout,
        renewed=True,
        start_timeout=START_TIMEOUT,
        traced=True,
        imports=IMPORTS,
    )


def _outcome(job: Job, ending: Ending) -> Outcome:
    """The outcome of a job that ended. Where a worker made a second try and did not live to end it, the outcome is that
    of the first.
    """
    if ending.death is not None:
        tried = [Failed.from_json(failed) for kind, failed in ending.events if kind == "failed"]
        return tried[0] if tried else failed_by(ending.death, job)
    if "failed" in ending.result:
        return Failed.from_json(ending.result["failed"])
    return Compiled(Artefact.from_json(ending.result["artefact"]), ending.result["seconds"], cached=False)
