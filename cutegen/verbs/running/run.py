"""Runs a job in a process of its own, which may crash or hang."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from cutegen.compiling.environment import DROPPED_PREFIXES
from cutegen.verbs.running.job import Job, Outcome
from cutegen.workers import Crew, Death, Ending, Setup, exit_text, python_path, worker_command

TIMEOUT = 600.0  # seconds
_CACHES_OFF = {"QUACK_CACHE_ENABLED": "0"}  # of compiled kernels on disk, which are for GPUs


def run_job(job: Job, timeout: float = TIMEOUT) -> Outcome:
    """Runs a job in a worker process and returns its outcome. Raises OSError where no process can be started."""
    with Crew(_setup(job, timeout)) as crew:
        ((_, ending),) = crew.run([job])
    return _outcome(ending)


def _setup(job: Job, timeout: float) -> Setup:
    def environment(folder: Path) -> Mapping[str, str]:
        kept = {name: value for name, value in os.environ.items() if not name.startswith(DROPPED_PREFIXES)}
        return {
            "OMP_NUM_THREADS": "1",
            **kept,
            **_CACHES_OFF,
            "PYTHONPATH": python_path(),
            "TMPDIR": str(folder),
            "CUTE_DSL_ARCH": job.target,
            "CUDA_VISIBLE_DEVICES": "",
        }

    return Setup(worker_command("cutegen.verbs.running.worker"), environment, timeout, start_timeout=timeout)


def _outcome(ending: Ending) -> Outcome:
    """The worker's own outcome, or what can be told of its death."""
    if ending.death is None:
        return Outcome.from_json(ending.result)
    stages = [data for kind, data in ending.events if kind == "stage"]
    doing = stages[-1] if stages else "starting"
    compiles = doing.startswith("compiling ")
    message = f"{_ended(ending.death)} while {doing}{ending.death.last_words}"
    help = ""
    if ending.death.how == "overdue":
        help = "give it smaller shapes, since the emulator is slow, or a larger --timeout"
        return Outcome("not executed", message, help, seconds=ending.seconds)
    if compiles:
        help = "CuTeDSL's compiler crashed, as it would without cutegen"
    return Outcome("crashed" if compiles else "not executed", message, help, seconds=ending.seconds)


def _ended(death: Death) -> str:
    if death.how == "overdue":
        return f"not done after {death.seconds:g} s,"
    return f"the process ended with {exit_text(death.code)}"
