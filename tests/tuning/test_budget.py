"""Searches that have to end: what a budget leaves time for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, good
from tuning_kit import MM, TUNED, Clock, StandInGpu, entries, search, small_space, tuning_of, valley

from cutegen.compiling import Failed, Job, Outcome
from cutegen.tuning.model import Batch
from cutegen.tuning.output import SHOWN, as_json, counts_lines, dry_rows
from cutegen.tuning.pruning import Sieve
from cutegen.tuning.result import Result
from cutegen.tuning.tune import GRACE


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    small_space(monkeypatch)


@pytest.fixture
def log(tmp_path: Path) -> Path:
    return tmp_path / ".cutegen-tune" / "mm.jsonl"


@dataclass
class Hours:
    """A search in which everything takes its time, in seconds: `looked`, `compiled` a candidate, `timed` a batch."""

    monkeypatch: pytest.MonkeyPatch
    looked: float = 0.02
    compiled: float = 1.0
    timed: float = 8.0
    events: list[tuple[str, float]] = field(default_factory=list)  # what began when, from the start of the search

    def search(
        self, text: str, log: Path, gpus: int = 1, fails: Callable[[Job], bool] | None = None, **options: Any
    ) -> Result:
        with self._patched(fails) as (compiler, began):
            timers = [StandInGpu(valley, began=lambda batch: began(batch, gpus)) for _ in range(gpus)]
            return search(text, valley, log, timers, compiler=compiler, **options)

    def dry(self, text: str, log: Path, **options: Any) -> Result:
        with self._patched() as (compiler, _):
            return tuning_of(text, log, compiler=compiler, **options).dry()

    @contextmanager
    def _patched(
        self, fails: Callable[[Job], bool] | None = None
    ) -> Iterator[tuple[StandInCompiler, Callable[[Batch, int], None]]]:
        clock = Clock()
        start = clock.now
        sift = Sieve.sift

        def look(sieve: Sieve, schedule: Mapping[str, Any]) -> Any:
            self.events.append(("look", clock.now - start))
            clock.takes(self.looked)
            return sift(sieve, schedule)

        def outcome(job: Job) -> Outcome:
            self.events.append(("compile", clock.now - start))
            clock.takes(self.compiled)
            return Failed("exception", "no") if fails and fails(job) else good(job)

        def began(batch: Batch, gpus: int) -> None:
            self.events.append((f"time {len(batch.modules) - 1} x {batch.rounds}", clock.now - start))
            clock.takes(self.timed / gpus)

        with self.monkeypatch.context() as patch:
            patch.setattr(Sieve, "sift", look)
            patch.setattr("cutegen.tuning.tune.time", clock)
            patch.setattr("cutegen.tuning.search.time", clock)
            yield StandInCompiler(outcome, clock.monotonic), began

    def began(self, what: str) -> list[float]:
        return [when for event, when in self.events if event.startswith(what) and event != "time 0 x 6"]


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


def test_a_small_budget_times_some_early_and_ends(log: Path, hours: Hours) -> None:
    """Where compiling everything would take all of it, and more."""
    hours.compiled = 2.0
    everything = len(tuning_of(MM, log.with_name("dry"), budget=600.0).dry().candidates)
    assert everything * hours.compiled > 50
    result = hours.search(MM, log, budget=50.0)
    assert result.late and result.ranking and result.untried > 0
    assert len(result.candidates) + result.untried == everything == as_json(result)["untried"] + len(result.candidates)
    assert any(line.startswith(f"{result.untried} not compiled before the budget") for line in counts_lines(result))
    timed = [when for event, when in hours.events if event.startswith("time") and event.endswith("x 6")][1:]
    assert len(timed) > 1 and timed[0] < 25 and timed[-1] < 50
    assert len([when for when in hours.began("compile") if when < timed[0]]) == 3
    # the best few, which are compiled for the other target too and timed to the end
    assert hours.began("time")[-1] < 50 + 2 * hours.timed + 8 * hours.compiled


@pytest.mark.parametrize("gpus", [1, 2])
def test_one_batch_is_timed_whatever_the_budget(log: Path, hours: Hours, gpus: int) -> None:
    result = hours.search(TUNED, log, gpus, budget=0.0)
    assert [event for event, _ in hours.events if event.startswith("time")] == ["time 0 x 6"] * gpus + [
        "time 3 x 6",
        "time 3 x 30",
    ]
    assert result.late and len(result.candidates) == 3 and len(result.ranking) == 3


def test_what_does_not_compile_is_no_first_batch(log: Path, hours: Hours) -> None:
    first: list[str] = []

    def fails(job: Job) -> bool:
        first.extend([job.text] if len(first) < 3 else [])
        return job.text in first

    result = hours.search(TUNED, log, fails=fails, budget=0.0)
    assert len(hours.began("time")) == 2 and len(result.dropped) == 3 and result.ranking


def test_each_short_search_adds_to_those_before_and_forgets_none(log: Path, hours: Hours) -> None:
    known = []
    for _ in range(4):
        result = hours.search(TUNED, log, budget=0.0)
        known.append(len({entry["body"] for entry in entries(log, "timed")}))
    assert known == [3, 6, 8, 8] and result.untried == 0
    assert result.winner is not None
    assert result.winner.schedule == {"tiler": {"M": 64, "N": 128, "K": 16}, "pipeline": {"stages": 4}}


def test_looking_at_schedules_leaves_most_of_the_budget(log: Path, hours: Hours) -> None:
    hours.looked = 2.0
    result = hours.search(MM, log, budget=50.0)
    assert result.tried < result.space.size and result.ranking
    assert max(hours.began("look")) <= 8 + (50 - 8) / 4, "a quarter of what the look at the GPU left"


def test_without_a_budget_everything_is_compiled_at_once(log: Path, hours: Hours) -> None:
    result = hours.search(TUNED, log)
    assert not result.late and result.untried == 0
    before = [when for when in hours.began("compile") if when < hours.began("time")[0]]
    assert len(before) == len(result.candidates) == 8


@pytest.mark.parametrize(("given", "budget"), [({"budget": 6.0}, 6.0), ({}, 10.0)])
def test_a_dry_run_ends_with_its_budget(log: Path, hours: Hours, given: dict[str, float], budget: float) -> None:
    """Looking has the first half of it, compiling the rest; what neither came to is counted."""
    hours.looked = 0.25
    result = hours.dry(MM, log, targets=("sm_80",), **given)
    assert max(hours.began("look")) < budget / 2 and max(hours.began("compile")) < budget
    assert len(result.candidates) == pytest.approx(budget / 2, abs=1) and result.late
    whole = hours.dry(MM, log, targets=("sm_80",), budget=600.0)
    assert not whole.late and result.unseen == whole.tried - result.tried > 0
    looked_at = result.tried - sum(result.pruned.values())
    assert len(result.candidates) + result.untried == looked_at and result.untried > 0
    lines = counts_lines(result, dry=True)
    assert any(line.startswith(f"{result.unseen} not looked at before the budget was spent") for line in lines)
    assert lines[-1] == f"{looked_at} candidates left, {len(result.candidates)} of them compiled"
    assert [row[1] for row in dry_rows(result)] == ["24"] * len(result.candidates) + ["not compiled"] * (
        min(SHOWN, looked_at) - len(result.candidates)
    )
    told = as_json(result)
    assert told["space"]["unseen"] == result.unseen and len(told["uncompiled"]) == told["untried"] == result.untried


def test_where_nothing_compiles_a_search_ends_soon_after_its_budget(log: Path, hours: Hours) -> None:
    hours.compiled = 20.0
    result = hours.search(MM, log, fails=lambda job: True, budget=5.0)
    assert not result.candidates and result.unseen > 0
    assert max(hours.began("compile")) < 5 + GRACE
    assert hours.began("time") == [] and len(hours.began("compile")) >= 3


def test_where_lint_refuses_everything_a_search_ends_soon_after_its_budget(log: Path, hours: Hours) -> None:
    hours.looked = 30.0
    tilers = ", ".join(f"{{M: {m}, N: 100, K: 8}}" for m in range(101, 121))
    text = f"{MM}tune: {{schedule.tiler: [{tilers}]}}\n"
    result = hours.search(text, log, budget=5.0)
    assert max(hours.began("look")) < 5 + GRACE and 0 < result.tried < result.space.size
    assert result.unseen == result.space.size - result.tried


def test_only_the_winner_is_compiled_for_all_targets(log: Path, hours: Hours) -> None:
    """After its budget, a search times one more candidate, not each of the best."""
    jobs: list[Job] = []
    result = hours.search(TUNED, log, fails=lambda job: bool(jobs.append(job)), budget=0.0)
    assert result.winner is not None and len(result.ranking) == 3
    assert {job.text for job in jobs if job.target == "sm_80"} == {m.text for m in result.winner.modules}
