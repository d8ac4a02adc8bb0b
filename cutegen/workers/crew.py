"""A few workers of one kind that share jobs."""

from __future__ import annotations

import contextlib
import os
import select
import socket
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Literal

from cutegen.workers.ending import Death, Ending
from cutegen.workers.worker import Setup, Worker

Event = Callable[[int, str, Any], None]  # called with a job's index, and an event's kind and data

_PATIENCE = 10.0  # seconds for a process that says no more: at its own end, its code says more than our signal


def processors() -> int:
    """The number of processors that this process may use: under taskset or in a container fewer
    than the machine has.
    """
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


@dataclass
class _Turn:
    """A worker and the job that it is to do, or does."""

    index: int
    job: object
    worker: Worker
    limit: float  # seconds that it has for what it does now
    start: float = field(default_factory=time.perf_counter)
    deadline: float = 0.0  # by `time.monotonic`
    given: bool = False
    taken: bool = False
    events: list[tuple[str, Any]] = field(default_factory=list)

    def renew(self, limit: float) -> None:
        """Gives the worker that many seconds from now on."""
        self.limit, self.deadline = limit, time.monotonic() + limit

    def give(self, timeout: float) -> None:
        """Sends the job to a worker that is ready."""
        self.given = True
        self.renew(timeout)
        self.worker.send(self.job)

    def ending(self, result: Any = None, death: Death | None = None) -> Ending:
        """The job's ending, now."""
        return Ending(tuple(self.events), time.perf_counter() - self.start, result, death)


def _past(until: float | None) -> bool:
    """Whether that time, by `time.monotonic`, has come; None never does."""
    return until is not None and time.monotonic() >= until


class _Unfit(Exception):
    """Says that a worker is of no use, for a reason that is not its job's; `problem` is what to
    raise or to say of it.
    """

    def __init__(self, problem: OSError | Death) -> None:
        self.problem = problem


class Crew:
    """Up to `workers` processes that share jobs, started as there are jobs for them.

    It is a context manager, `with Crew(setup, workers) as crew`. Workers wait from one run for the next. A crew is used
    by one thread; another one may only close it, which ends a run with RuntimeError.
    """

    def __init__(self, setup: Setup, workers: int = 1) -> None:
        self._setup, self._most = setup, workers
        self._workers: list[Worker] = []
        self._idle: list[Worker] = []
        self._closed = False
        self._busy = threading.Lock()  # held while workers are started, heard and ended
        self._woken, self._waker = socket.socketpair()  # ends the wait of a run whose crew another thread closes

    def __enter__(self) -> Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def run(
        self, jobs: Sequence[object], until: float | None = None, event: Event | None = None
    ) -> Iterator[tuple[int, Ending]]:
        """Does the jobs; yields each one's index and its ending, as they end. `event` gets each event of a job, with
        its index, kind and data, as it comes.

        No worker gets a job while the caller has an ending. Where a worker says that no process of its kind can do a
        job, no other one is tried. At the time `until`, by `time.monotonic`, the run ends: jobs that were not begun
        have no ending then, nor do those under way, whose workers are killed. Raises OSError where a process cannot be
        started, or where two of them refuse a job; and what the setup's `environment` raises.
        """
        waiting = deque(enumerate(jobs))
        again: set[int] = set()  # jobs that a first worker had no use of
        turns: list[_Turn] = []
        try:
            while (waiting or turns) and not _past(until):
                with self._busy:
                    while waiting and len(turns) < self._most:
                        index, job = waiting.popleft()
                        turns.append(self._turn(index, job, fresh=index in again))
                    heard = self._hear(turns, until, event)
                for turn, ending in heard:
                    turns.remove(turn)
                    if isinstance(ending, _Unfit):
                        if turn.index not in again:
                            again.add(turn.index)
                            waiting.appendleft((turn.index, turn.job))
                            continue
                        if isinstance(ending.problem, OSError):
                            raise ending.problem
                        ending = turn.ending(death=ending.problem)
                    yield turn.index, ending
                    if ending.death is not None and ending.death.how == "unusable":
                        while waiting:
                            yield waiting.popleft()[0], Ending((), 0.0, death=ending.death)
        finally:
            with self._busy:
                for turn in turns:
                    turn.worker.kill()
                    self._drop(turn.worker)

    def close(self) -> None:
        """Ends all workers, and lets no more be started."""
        self._closed = True
        with contextlib.suppress(OSError):  # closed before
            self._waker.send(b"c")
        running = list(self._workers)
        for worker in running:
            if worker not in self._idle or not self._setup.patience:
                worker.kill()
        with self._busy:
            for worker in list(self._workers):
                self._drop(worker)
            self._woken.close()
            self._waker.close()

    def _turn(self, index: int, job: object, fresh: bool) -> _Turn:
        """Begins a job: on a worker that waits, or on a fresh one, if there is none or the job is to have it."""
        if self._idle and not fresh:
            turn = _Turn(index, job, self._idle.pop(), self._setup.timeout)
            turn.give(self._setup.timeout)
            return turn
        worker = Worker(replace(self._setup, imports=()) if fresh else self._setup)
        self._workers.append(worker)
        turn = _Turn(index, job, worker, self._setup.start_timeout)
        turn.renew(self._setup.start_timeout)
        return turn

    def _hear(
        self, turns: Sequence[_Turn], until: float | None, event: Event | None
    ) -> list[tuple[_Turn, Ending | _Unfit]]:
        """Waits until a worker says something or has no more time, or until the run has none; gives the turns that came
        to their end, with the endings.
        """
        if self._closed:  # what was started meanwhile was not killed
            raise RuntimeError("the crew was closed")
        poll = select.poll()  # unlike select.select, fine with descriptors above 1024
        for turn in turns:
            poll.register(turn.worker.fileno(), select.POLLIN)
        poll.register(self._woken, select.POLLIN)
        ends = [turn.deadline for turn in turns] + ([] if until is None else [until])
        left = min(ends) - time.monotonic()
        spoken = {descriptor for descriptor, _ in poll.poll(max(0.0, left * 1000))}
        if self._closed:
            raise RuntimeError("the crew was closed")
        found: list[tuple[_Turn, Ending | _Unfit]] = []
        for turn in turns:
            ending: Ending | _Unfit | None = None
            try:
                if turn.worker.fileno() in spoken:
                    ending = self._heed(turn, event)
                elif time.monotonic() >= turn.deadline:
                    turn.worker.trace()
                    ending = turn.ending(death=self._death(turn, "overdue"))
            except _Unfit as unfit:
                ending = unfit
            if ending is not None:
                found.append((turn, ending))
        return found

    def _heed(self, turn: _Turn, event: Event | None) -> Ending | None:
        """Takes what a worker said; gives the turn's ending, if it is at its end. Raises _Unfit."""
        events = turn.worker.hear()
        if events is None:
            unborn = not turn.given and not turn.worker.begun
            death = self._death(turn, "died")
            if unborn or (turn.given and not turn.taken):  # since its last job, which is nothing that this one did
                raise _Unfit(death)
            return turn.ending(death=death)
        for kind, data in events:
            match kind:
                case "ready":
                    turn.give(self._setup.timeout)
                case "unusable":
                    self._drop(turn.worker)
                    return turn.ending(death=Death("unusable", why=data))
                case "taken":
                    turn.taken = True
                case "refused":
                    self._drop(turn.worker)
                    raise _Unfit(OSError(data, os.strerror(data), str(turn.worker.folder)))
                case "result":
                    self._idle.append(turn.worker)
                    return turn.ending(data)
                case "last":
                    self._drop(turn.worker)
                    return turn.ending(data)
                case _:
                    turn.events.append((kind, data))
                    if event is not None:
                        event(turn.index, kind, data)
            if self._setup.renewed and turn.taken:
                turn.renew(self._setup.timeout)
        return None

    def _death(self, turn: _Turn, how: Literal["died", "overdue"]) -> Death:
        """Ends a worker that says no more, or nothing in time; gives its death."""
        code = turn.worker.end(_PATIENCE if how == "died" else 0.0)
        death = Death(how, code, turn.limit, log=turn.worker.log())
        self._drop(turn.worker)
        return death

    def _drop(self, worker: Worker) -> None:
        """Ends a worker for good."""
        worker.close()
        if worker in self._workers:
            self._workers.remove(worker)
        if worker in self._idle:
            self._idle.remove(worker)
