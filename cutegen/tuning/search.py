"""Times candidates against the incumbent: many in a few rounds, the best of them in more.

Every batch runs the incumbent too, on the same GPU in the same run, and only the ratio counts: what drifts meanwhile,
clocks or heat, drifts for both. A ratio so found holds on every GPU of that kind.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import ceil, exp, log

from cutegen.codegen import Module
from cutegen.console import Progress
from cutegen.errors import CutegenError
from cutegen.tuning.log import Conditions, Log, Timed, shape_text
from cutegen.tuning.model import (
    Batch,
    Candidate,
    Score,
    Shape,
    Time,
    Timer,
    Trouble,
    Verdict,
)

RUNGS = (6, 15)  # rounds that many candidates get, and those that are left of them
KEEP = 4  # of so many, one goes on to the next rung
FINALISTS = 4
TOGETHER = 6  # candidates in a batch
LONGER = 3  # times the rounds, for one whose times differed too much
TIE = 1e-3  # ratios so near are equal


class IncumbentTrouble(CutegenError):
    """Says that the spec as it is cannot be timed, so that nothing can be compared with it.

    `wrong` says that its result is wrong.
    """

    def __init__(self, message: str, wrong: bool) -> None:
        super().__init__(message)
        self.wrong = wrong


@dataclass(frozen=True)
class Task:
    """A batch that is to be run: one kernel of some candidates.

    `again` says that it was tried before, with others or in fewer rounds.
    """

    kernel: str
    shapes: tuple[Shape, ...]
    members: tuple[Candidate, ...]
    rounds: int
    again: bool = False


class Search:
    """Times candidates on all timers, and remembers what they came to.

    `shapes` says where each kernel that counts is timed. `deadline` is by `time.monotonic`: no batch starts after it,
    except the first ones and those that `measure` must always run.
    """

    def __init__(
        self,
        timers: Sequence[Timer],
        incumbent: Candidate,
        shapes: Mapping[str, tuple[Shape, ...]],
        log: Log,
        conditions: Conditions,
        progress: Progress,
        deadline: float | None = None,
    ) -> None:
        self.timers, self.incumbent, self.shapes = timers, incumbent, shapes
        self.log, self.conditions, self.progress, self.deadline = log, conditions, progress, deadline
        self.timed: dict[tuple[str, str, str], Timed] = {}
        for found in log.timed(conditions):
            self._keep(found)
        self._best: float = 1.0
        self.begun = False  # whether anything was timed, of this search itself

    @property
    def late(self) -> bool:
        """Whether the deadline has passed."""
        return self.deadline is not None and time.monotonic() >= self.deadline

    def halving(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The best few, best first, of candidates that were measured in as many rounds as the first rung has.

        Each further rung times fewer of them in more rounds.
        """
        pool = self._fewer(candidates)
        for rounds in RUNGS[1:]:
            self.measure(pool, rounds)
            pool = self._fewer(pool)
        return pool[:FINALISTS]

    def _fewer(self, candidates: Sequence[Candidate]) -> list[Candidate]:
        """The best of candidates, best first: one in `KEEP`, but no fewer than the finalists."""
        return self.best(candidates)[: max(FINALISTS, ceil(len(candidates) / KEEP))]

    def best(self, candidates: Iterable[Candidate]) -> list[Candidate]:
        """The candidates that have a score, best first. Of equal ones that comes first which changes least."""

        def rank(item: tuple[Candidate, Score]) -> tuple[float, int, int]:
            candidate, score = item
            return (round(score.ratio / TIE), len(candidate.changes(self.incumbent.schedule)), candidate.number)

        scored = [(c, score) for c in candidates if (score := self.score(c)) is not None]
        return [candidate for candidate, _ in sorted(scored, key=rank)]

    def score(self, candidate: Candidate) -> Score | None:
        """A candidate's score; None where one of the kernels has no time at one of its shapes."""
        logs, spreads, us, rounds = [], [], {}, []
        for kernel, shapes in self.shapes.items():
            for shape in shapes:
                if candidate.bodies[kernel] == self.incumbent.bodies[kernel]:
                    logs.append(0.0)
                    spreads.append(0.0)
                    continue
                found = self.timed.get((kernel, candidate.bodies[kernel], shape_text(shape)))
                if found is None or not isinstance(found.verdict, Time):
                    return None
                logs.append(log(found.verdict.us / found.incumbent.us))
                # Each of the two may be off by half of what its rounds spread over.
                spreads.append((found.verdict.spread + found.incumbent.spread) / 2)
                us[f"{kernel} {shape_text(shape)}"] = found.verdict.us
                rounds.append(found.rounds)
        mean = sum(logs) / len(logs)
        return Score(exp(mean), sum(spreads) / len(spreads), us, min(rounds, default=0))

    def incumbent_us(self, beside: Sequence[Candidate]) -> dict[str, float]:
        """The spec's own time in microseconds by kernel and shape, from the runs of a candidate."""
        return {
            f"{kernel} {shape_text(shape)}": found.incumbent.us
            for candidate in beside
            for kernel, shapes in self.shapes.items()
            for shape in shapes
            if (found := self.timed.get((kernel, candidate.bodies[kernel], shape_text(shape)))) is not None
        }

    def is_known(self, candidate: Candidate) -> bool:
        """Whether there is nothing more to time of a candidate in the first rung."""
        return self.score(candidate) is not None or self.trouble(candidate) is not None

    def trouble(self, candidate: Candidate) -> Trouble | None:
        """Returns what kept a candidate from being timed, a wrong result before other troubles; None if nothing did."""
        found = [
            timed.verdict
            for kernel, shapes in self.shapes.items()
            for shape in shapes
            if (timed := self.timed.get((kernel, candidate.bodies[kernel], shape_text(shape)))) is not None
            and isinstance(timed.verdict, Trouble)
        ]
        return min(found, key=lambda trouble: trouble.kind != "wrong", default=None)

    # ----------------------------------------------------------------------------------------------------- timing

    def measure(self, candidates: Sequence[Candidate], rounds: int, always: bool = False) -> None:
        """Times the candidates that have not been timed in as many rounds.

        After the deadline nothing more begins, unless it is to run `always`; the first run of a search is let through,
        too. Raises IncumbentTrouble, and what a timer raises.
        """
        tasks = self._tasks(candidates, rounds)
        if not tasks:
            return
        always = always or not self.begun
        self.begun = True
        waiting: queue.SimpleQueue[Task | None] = queue.SimpleQueue()
        results: queue.SimpleQueue[tuple[Task, Sequence[Sequence[Verdict]] | BaseException | None]] = (
            queue.SimpleQueue()
        )

        ended = threading.Event()

        def work(timer: Timer) -> None:
            while (task := waiting.get()) is not None and not ended.is_set():
                if self.late and not always:
                    results.put((task, None))
                    continue
                try:
                    results.put((task, timer.measure(self._batch(task))))
                except BaseException as problem:  # the calling thread raises it
                    results.put((task, problem))

        threads = [threading.Thread(target=work, args=(timer,), daemon=True) for timer in self.timers]
        for task in tasks:
            waiting.put(task)
        self.progress.start(f"timing {len(candidates)} candidates, {rounds} rounds", len(tasks))
        for thread in threads:
            thread.start()
        try:
            open_tasks = len(tasks)
            while open_tasks:
                task, result = results.get()
                open_tasks -= 1
                if isinstance(result, BaseException):
                    raise result
                more = [] if result is None else self._digest(task, result)
                for further in more:
                    waiting.put(further)
                open_tasks += len(more)
                self.progress.step(self._news(task))
        finally:
            ended.set()  # what still waits, after an exception, is not begun any more
            for _ in threads:
                waiting.put(None)
            self.progress.stop()

    def _tasks(self, candidates: Sequence[Candidate], rounds: int) -> list[Task]:
        """The batches in which candidates are timed that have not been timed in as many rounds."""
        tasks = []
        for kernel, shapes in self.shapes.items():
            groups: dict[tuple[str, ...], list[Candidate]] = {}
            bodies = {self.incumbent.bodies[kernel]}
            for candidate in candidates:
                body = candidate.bodies[kernel]
                if body in bodies:
                    continue
                bodies.add(body)
                open_shapes = tuple(s for s in map(shape_text, shapes) if self._rounds(kernel, body, s) < rounds)
                if open_shapes:
                    groups.setdefault(open_shapes, []).append(candidate)
            for texts, members in groups.items():
                wanted = tuple(shape for shape in shapes if shape_text(shape) in texts)
                for i in range(0, len(members), TOGETHER):
                    tasks.append(Task(kernel, wanted, tuple(members[i : i + TOGETHER]), rounds))
        return tasks

    def _rounds(self, kernel: str, body: str, shape: str) -> int:
        """The number of rounds in which a body was timed at a shape."""
        found = self.timed.get((kernel, body, shape))
        return 0 if found is None else found.rounds

    def _batch(self, task: Task) -> Batch:
        """Returns the batch of a task for a timer: the incumbent's module, then those of the task's candidates."""
        modules = tuple(_module(c, task.kernel) for c in (self.incumbent, *task.members))
        return Batch(modules, task.shapes, task.rounds)

    def _digest(self, task: Task, result: Sequence[Sequence[Verdict]]) -> list[Task]:
        """Keeps what was found by a task; gives the tasks to try again."""
        alone = len(task.members) == 1
        again: dict[int, tuple[Candidate, list[Shape], int]] = {}
        for shape, (incumbent, *verdicts) in zip(task.shapes, result, strict=True):
            if isinstance(incumbent, Trouble) and incumbent.kind == "wrong":
                raise IncumbentTrouble(f"{task.kernel} at {shape_text(shape)}: {incumbent.message}", wrong=True)
            for candidate, verdict in zip(task.members, verdicts, strict=True):
                found = incumbent if isinstance(incumbent, Trouble) else verdict
                final = isinstance(found, Time) or found.kind == "wrong" or (alone and task.again)
                if not final:
                    longer = LONGER if isinstance(found, Trouble) and found.kind == "unsteady" else 1
                    _, shapes, most = again.get(candidate.number, (candidate, [], 1))
                    again[candidate.number] = (candidate, [*shapes, shape], max(most, longer))
                    continue
                if isinstance(incumbent, Trouble) and incumbent.kind == "unsteady":
                    continue  # that is nothing about the candidate
                base = incumbent if isinstance(incumbent, Time) else Time(0.0, 0.0)
                timed = Timed(task.kernel, candidate.bodies[task.kernel], dict(shape), task.rounds, found, base)
                self._keep(timed)
                self.log.add(self.conditions, candidate, timed)
        return [
            Task(task.kernel, tuple(shapes), (candidate,), task.rounds * longer, again=True)
            for candidate, shapes, longer in again.values()
        ]

    def _keep(self, timed: Timed) -> None:
        """Remembers a verdict, unless it has one from more rounds."""
        old = self.timed.get(timed.key)
        if old is None or timed.rounds >= old.rounds or isinstance(timed.verdict, Trouble):
            self.timed[timed.key] = timed

    def _news(self, task: Task) -> str | None:
        """Returns the messages about a batch: candidates in trouble, for example with wrong results, and a candidate
        that is faster than all before it. None where there is nothing to report.
        """
        lines = []
        for candidate in task.members:
            trouble, score = self.trouble(candidate), self.score(candidate)
            if trouble is not None:
                lines.append(
                    f"candidate {candidate.number}, {changes_text(self.incumbent, candidate)}: {trouble.message}"
                )
            elif score is not None and score.ratio < self._best:
                self._best = score.ratio
                what = changes_text(self.incumbent, candidate)
                lines.append(f"best so far: {score.ratio:.3f} of the spec's time with {what}")
        return "\n".join(lines) or None


def changes_text(incumbent: Candidate, candidate: Candidate) -> str:
    """The fields that a candidate changes, in words such as `tiler.K 16, pipeline.stages 4`."""
    changes = candidate.changes(incumbent.schedule)
    kept = [f"{path} {new}" for path, (_, new) in changes.items() if new is not None]
    left = [path for path, (_, new) in changes.items() if new is None]
    return ", ".join(kept) or (f"{', '.join(left)} left to planning" if left else "the spec as it is")


def _module(candidate: Candidate, kernel: str) -> Module:
    """A candidate's module for a kernel."""
    return next(module for module in candidate.modules if module.spec.kernel == kernel)
