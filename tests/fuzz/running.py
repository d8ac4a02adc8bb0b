"""Many specs in worker processes: what one of them ends, hangs or fills with memory is a finding like any other."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from cutegen.workers import Crew, Ending, Setup, Tell, exit_text, python_path, serve, worker_command
from tests.fuzz.making import make
from tests.fuzz.tally import Found, Tally, as_data, from_data
from tests.fuzz.trial import PATIENCE, Depth, attempt, limit_memory

ROOT = Path(__file__).parents[2]
TOGETHER = 200  # specs of one job


@dataclass(frozen=True)
class Slice:
    """The specs of a seed from one number up to another, which is left out."""

    seed: int
    start: int
    end: int


def main() -> None:
    """Tries specs for the process that started this one, until it asks for no more."""
    limit_memory()
    serve(lambda tell: lambda job: _work(tell, job))


def _work(tell: Tell, job: Slice) -> object:
    tally = Tally()
    for number in range(job.start, job.end):
        tell("start", number)
        made = make(job.seed, number)
        tally.add(number, made, attempt(made.raw, Path.cwd(), Depth.of(number)))
    return as_data(tally)


def run(whole: Slice, workers: int, told: Callable[[Tally], None]) -> Tally:
    """Tries the specs; `told` gets the tally so far, every now and then. Ctrl-C ends it early.

    Raises OSError where no process can start.
    """
    tally = Tally()
    with suppress(KeyboardInterrupt):
        _run(whole, workers, told, tally)
    return tally


def _run(whole: Slice, workers: int, told: Callable[[Tally], None], tally: Tally) -> None:
    waiting = list(_slices(whole))
    setup = Setup(worker_command("tests.fuzz.running"), _environment, 2 * PATIENCE, renewed=True)
    with Crew(setup, workers) as crew:
        while waiting:
            jobs, waiting = waiting, []
            for index, ending in crew.run(jobs):
                if ending.death is None:
                    tally.merge(from_data(ending.result))
                else:
                    waiting += _after(jobs[index], ending, tally)
                told(tally)


def _slices(whole: Slice) -> Iterator[Slice]:
    for start in range(whole.start, whole.end, TOGETHER):
        yield Slice(whole.seed, start, min(whole.end, start + TOGETHER))


def _after(job: Slice, ending: Ending, tally: Tally) -> list[Slice]:
    """The rest of a job whose process ended early: completed specs are repeated, to be counted.

    Raises RuntimeError for a process that began with none.
    """
    assert ending.death is not None
    numbers = [data for kind, data in ending.events if kind == "start"]
    if not numbers:
        raise RuntimeError(f"a worker cannot start: {ending.death.log[-2000:]}")
    last = numbers[-1]
    how = "overdue" if ending.death.how == "overdue" else exit_text(ending.death.code)
    tally.find(f"the process ended: {how}", Found(1, [last], ending.death.log[-4000:]))
    parts = (Slice(job.seed, job.start, last), Slice(job.seed, last + 1, job.end))
    return [part for part in parts if part.start < part.end]


def _environment(folder: Path) -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": python_path(str(ROOT)), "TMPDIR": str(folder)}
