"""Searches that have to end: what a budget leaves time for."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, good
from tuning_kit import MM, TUNED, Clock, StandInGpu, entries, search, small_space, tuning_of, valley

from cutegen.compiling import Failed, Job, Outcome
from cutegen.tuning.flow import Result
from cutegen.tuning.model import Batch
from cutegen.tuning.output import as_json, counts_lines
from cutegen.tuning.pruning import Sieve


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

        def began(batch: Batch) -> None:
            self.events.append((f"time {len(batch.modules) - 1} x {batch.rounds}", clock.now - start))
            clock.takes(self.timed / gpus)

        with self.monkeypatch.context() as patch:
            patch.setattr(Sieve, "sift", look)
            patch.setattr("cutegen.tuning.flow.time", clock)
            patch.setattr("cutegen.tuning.search.time", clock)
            timers = [StandInGpu(valley, began=began) for _ in range(gpus)]
            return search(text, valley, log, timers, compiler=StandInCompiler(outcome), **options)

    def began(self, what: str) -> list[float]:
        return [when for event, when in self.events if event.startswith(what) and event != "time 0 x 6"]


@pytest.fixture
def hours(monkeypatch: pytest.MonkeyPatch) -> Hours:
    return Hours(monkeypatch)


def test_a_small_budget_times_some_early_and_ends(log: Path, hours: Hours) -> None:
    """Where compiling everything would take all of it, and more."""
    hours.compiled = 2.0
    everything = len(tuning_of(MM, log.with_name("dry")).dry().candidates)
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
