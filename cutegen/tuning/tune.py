"""The road of `cutegen tune`: space, pruning, compiling, timing, and the winner's text."""

from __future__ import annotations

import math
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from cutegen.atoms.targets import fitting
from cutegen.compiling import Cache, Compiled, Job, compile_until
from cutegen.console import Progress
from cutegen.language.model import KernelSpec
from cutegen.sass.expectations import check
from cutegen.tuning.artefacts import Compile, compile_candidates
from cutegen.tuning.log import Conditions, Log
from cutegen.tuning.model import (
    DUPLICATE,
    WRONG,
    Batch,
    Candidate,
    Dropped,
    Shape,
    Timer,
    Trouble,
)
from cutegen.tuning.pruning import Sieve, ranked
from cutegen.tuning.result import Options, Result
from cutegen.tuning.search import FINALISTS, RUNGS, TOGETHER, IncumbentTrouble, Search
from cutegen.tuning.space import make_space, neighbours

ROUNDS = 30  # of the last run
PASSES = 3  # of changes around the best
LEADERS = 2  # that are changed
FIRST = 3  # candidates that a search with a budget compiles before it times any
LOOKING = 0.25  # of what is left of a budget: the most that looking at schedules takes
DRY = 10.0  # seconds: the budget of a search without a timer that is given none
DRY_LOOKING = 0.5  # as LOOKING, of such a search
GRACE = 60.0  # seconds after the budget in which the first few candidates must be found and compiled


class Tuning:
    """One search. `shapes` says where each kernel that counts is timed; the others only have to build."""

    def __init__(
        self,
        sieve: Sieve,
        shapes: Mapping[str, tuple[Shape, ...]],
        options: Options,
        log: Log,
        progress: Progress,
        compile: Compile = compile_until,
        *,
        also: Sequence[Mapping[str, Any]] = (),
    ) -> None:
        """Prepares a search over a spec that has no errors; it tries some schedules before the rest."""
        self.sieve, self.shapes, self.options, self.log, self.progress = sieve, shapes, options, log, progress
        self.compile, self.also = compile, also
        self.cache = Cache() if options.cache else None
        incumbent = sieve.incumbent()
        self.result = Result(make_space(sieve.sheet.data, _specs(incumbent)), incumbent)
        self.targets = options.targets
        self.deadline: float | None = None  # by `time.monotonic`

    def dry(self) -> Result:
        """Finds the space, prunes it and compiles candidates as far as the budget goes, the most promising first,
        without timing anything. Raises OSError where no compiler process can be started.
        """
        result, budget = self.result, self.options.budget
        self.deadline = time.monotonic() + (DRY if budget is None else budget)
        schedules = list(self._schedules())
        found = self._sifted(schedules, share=DRY_LOOKING)
        result.unseen = len(schedules)
        self._compiled(found, until=self.deadline)
        result.late = bool(result.unseen or result.untried)
        return result

    def run(self, timers: Sequence[Timer]) -> Result:
        """Runs the whole search. Raises OSError as `dry` does, and where no worker process can be started.

        The timers stay the caller's to close, which also ends what they run.
        """
        result = self.result
        if self.options.budget is not None:
            self.deadline = time.monotonic() + self.options.budget
        try:
            timers = self._calibrated(timers)
            assert result.place is not None
            conditions = Conditions(result.place.gpu, result.place.versions, dict(result.incumbent.bodies))
            search = Search(timers, result.incumbent, self.shapes, self.log, conditions, self.progress, self.deadline)
            self._search(search)
        except IncumbentTrouble as trouble:
            result.stopped = str(trouble)
            if trouble.wrong:
                self._drop(Dropped(0, result.incumbent.schedule, WRONG, str(trouble)))
        return result

    # ------------------------------------------------------------------------------------------------- candidates

    def _schedules(self) -> Iterable[Mapping[str, Any]]:
        """Yields the whole space, and then what is around the spec itself, which may be a good one."""
        result = self.result
        yield from self.also
        yield from result.space.schedules(self.options.seed)
        yield from neighbours(result.space, result.incumbent.schedule, _specs(result.incumbent)[0])

    def _sifted(
        self, schedules: list[Mapping[str, Any]], search: Search | None = None, share: float = LOOKING
    ) -> list[Candidate]:
        """Looks at schedules, and takes those it looked at from the list; gives candidates, the most promising first.

        With a budget it takes a share of what is left of it; a search that times goes on until it has found the first
        few that were not timed before, if there are any to be found in `GRACE`.
        """
        found: list[Candidate] = []
        unknown, wanted = 0, FIRST if search is not None else 0
        enough = last = math.inf
        if self.deadline is not None:
            now = time.monotonic()
            enough, last = now + share * max(0.0, self.deadline - now), self.deadline + GRACE
        self.progress.start("looking at schedules", len(schedules))
        try:
            while schedules:
                if time.monotonic() >= (enough if unknown >= wanted else last):
                    break
                schedule = schedules.pop(0)
                one = self.sieve.sift(schedule)
                self.result.tried += 1
                self.progress.step(None)
                if isinstance(one, Candidate):
                    found.append(one)
                    unknown += search is None or not search.is_known(one)
                    continue
                self.result.pruned[one.by] += 1
                if one.by != DUPLICATE:
                    self.log.dropped(one)
        finally:
            self.progress.stop()
        kept = ranked(found)[: self.options.most]
        self.result.left_out += len(found) - len(kept)
        for candidate in kept:
            self.log.candidate(candidate, _json_changes(candidate, self.result.incumbent))
        return kept

    def _compiled(
        self,
        candidates: Sequence[Candidate],
        targets: tuple[str, ...] | None = None,
        every: bool = False,
        until: float | None = None,
    ) -> list[Candidate]:
        """The candidates that the compiler takes, of those that get through it before the time `until`.

        With `every`, all kernels of the spec are compiled, not only those that are timed.
        """
        kernels = list(self.result.incumbent.bodies) if every else list(self.shapes)
        try:
            judged = compile_candidates(
                candidates,
                targets or self.targets,
                kernels,
                workers=self.options.jobs,
                cache=self.cache,
                on_start=lambda count: self.progress.start("compiling candidates", count),
                on_done=lambda line: self.progress.step(line or None),
                until=until,
                compile=self.compile,
            )
        finally:
            self.progress.stop()
        good = [one for one in judged if isinstance(one, Candidate)]
        self.result.uncompiled += [c for c, one in zip(candidates, judged, strict=True) if one is None]
        for one in judged:
            if isinstance(one, Dropped):
                self._drop(one)
        gone = {one.number for one in judged if isinstance(one, Dropped)}
        self.result.candidates = [c for c in self.result.candidates if c.number not in gone]
        self._add(good)
        return good

    def _add(self, candidates: Sequence[Candidate]) -> None:
        """Notes candidates that the compiler takes."""
        known = {one.number for one in self.result.candidates}
        self.result.candidates += [c for c in candidates if c.number not in known]

    def _drop(self, dropped: Dropped) -> None:
        """Notes that a schedule is out."""
        if dropped not in self.result.dropped:
            self.result.dropped.append(dropped)
            self.log.dropped(dropped)

    # ------------------------------------------------------------------------------------------------------ timing

    def _calibrated(self, timers: Sequence[Timer]) -> list[Timer]:
        """The timers on the same kind of GPU as the first one, each after it has run the spec as it is.

        Raises IncumbentTrouble where the first one cannot.
        """
        result = self.result
        good: list[Timer] = []
        kernel, shapes = next(iter(self.shapes.items()))
        module = next(m for m in result.incumbent.modules if m.spec.kernel == kernel)
        self.progress.start("looking at the GPUs", len(timers))
        try:
            for number, timer in enumerate(timers):
                ((verdict,),) = timer.measure(Batch((module,), shapes[:1], RUNGS[0]))
                place = timer.place()
                if place is None or (isinstance(verdict, Trouble) and verdict.kind != "unsteady"):
                    assert isinstance(verdict, Trouble)
                    if not good:
                        message = f"{kernel} as it is cannot be timed: {verdict.message}"
                        raise IncumbentTrouble(message, verdict.kind == "wrong")
                    result.notices.append(f"GPU {number} is left out: {verdict.message}")
                elif result.place is not None and place != result.place:
                    result.notices.append(f"GPU {number} is left out: {place.gpu}, not {result.place.gpu}")
                else:
                    result.place = place
                    good.append(timer)
                self.progress.step(None)
        finally:
            self.progress.stop()
        result.gpus = len(good)
        assert result.place is not None
        targets = _specs(result.incumbent)[0].targets
        self.targets = (target_of(result.place.capability, targets),)
        return good

    def _tried(
        self, search: Search, candidates: Sequence[Candidate], timed: Sequence[Candidate] = ()
    ) -> list[Candidate]:
        """Compiles and times candidates; gives the best few of them and of those that were timed before, best first.

        With a budget a few are compiled and timed, and then some more, until it is spent. What an earlier search timed
        was compiled then.
        """
        pool, new, until = list(timed), list(candidates), self.deadline
        if until is not None:
            known = [c for c in candidates if search.is_known(c)]
            new = [c for c in candidates if c not in known]
            self._add(known)
            pool += known
        for portion in self._portions(new):
            if self._over(search):
                self.result.uncompiled += portion
                continue
            good = self._compiled(portion, until=until if until is None or search.begun else until + GRACE)
            search.measure(good, RUNGS[0])
            pool += good
        return search.halving(pool)

    def _portions(self, candidates: Sequence[Candidate]) -> Iterator[Sequence[Candidate]]:
        """Yields what to compile and time at once: all candidates without a budget; else a few of them at first, and
        then a batch for each GPU.
        """
        if self.deadline is None:
            yield candidates
            return
        yield candidates[:FIRST]
        count = TOGETHER * self.result.gpus
        for start in range(FIRST, len(candidates), count):
            yield candidates[start : start + count]

    def _over(self, search: Search) -> bool:
        """Whether nothing new is to be tried any more, not even to have timed something."""
        return search.late and (search.begun or time.monotonic() >= (self.deadline or 0.0) + GRACE)

    def _search(self, search: Search) -> None:
        """Times the space, then passes of changes around the best, then the finalists and the spec side by side."""
        result = self.result
        schedules, pool = list(self._schedules()), list[Candidate]()
        while schedules and not pool and not self._over(search):
            pool = self._tried(search, self._sifted(schedules, search))
        for _ in range(PASSES):
            if search.late or not pool:
                break
            leader = pool[0]
            around: list[Mapping[str, Any]] = [
                s for c in pool[:LEADERS] for s in neighbours(result.space, c.schedule, _specs(c)[0])
            ]
            new = self._sifted(around, search)
            result.unseen += len(around)
            if not new:
                break
            pool = self._tried(search, new, pool)
            if not pool or pool[0] is leader:
                break
        result.unseen += len(schedules)
        finalists = pool[:FINALISTS]
        search.measure(finalists, ROUNDS, always=True)
        result.late = search.late
        for candidate in result.candidates:
            trouble = search.trouble(candidate)
            if trouble is not None:
                self._drop(Dropped(candidate.number, candidate.schedule, trouble.kind, trouble.message))
        best = search.best(finalists)
        result.ranking = [(c, score) for c in best if (score := search.score(c)) is not None]
        result.incumbent_us = search.incumbent_us(best[:1])
        # What wins must build: for all targets, and also those kernels of the spec that were not timed.
        everywhere = _specs(result.incumbent)[0].targets
        while result.ranking and result.ranking[0][1].faster:
            if self._compiled([result.ranking[0][0]], everywhere, every=True):
                break
            del result.ranking[0]
        if result.ranking and result.ranking[0][1].faster:
            result.winner = result.ranking[0][0]
            result.notices += self._unexpected(result.winner)
            others = [kernel for kernel in result.incumbent.bodies if kernel not in self.shapes]
            if others:
                result.notices.append(f"{', '.join(others)} share the schedule, and were not timed")

    def _unexpected(self, winner: Candidate) -> list[str]:
        """A notice for each expectation of the spec that the winner does not meet."""
        jobs = {Job(m.text, m.spec.kernel, t): m for m in winner.modules for t in m.spec.targets}
        outcomes = self.compile(list(jobs), workers=self.options.jobs, cache=self.cache, on_done=None)
        return [
            f"expect no longer holds: {f.kernel} on {f.target}: {f.key}: wanted {f.wanted}, found {f.found}"
            for module, outcome in zip(jobs.values(), outcomes, strict=True)
            if isinstance(outcome, Compiled)
            for f in check(module.spec.expect, outcome.artefact)
        ]


def target_of(capability: str, targets: Sequence[str]) -> str:
    """The one of the targets whose code a generated module runs on a device of this compute capability.

    It is the first target where none fits; then nothing will run.
    """
    major, minor = map(int, capability.split("."))
    return fitting(10 * major + minor, targets) or targets[0]


def _specs(candidate: Candidate) -> tuple[KernelSpec, ...]:
    """The resolved specs of a candidate's kernels."""
    return tuple(module.spec for module in candidate.modules)


def _json_changes(candidate: Candidate, incumbent: Candidate) -> dict[str, list[Any]]:
    """Returns a candidate's changes to the incumbent's schedule, as JSON: `{path: [old, new]}`."""
    return {path: [old, new] for path, (old, new) in candidate.changes(incumbent.schedule).items()}
