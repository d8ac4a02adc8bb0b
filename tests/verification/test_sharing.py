"""A kernel that is dealt to several processes has the report that a single one would give."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from verification_fakes import ADD_TILE, add_plan, add_spec, plan_of, write_module

from cutegen.planning.plan import Plan
from cutegen.verification import Job, KernelReport, SoFar, verify_all
from cutegen.verification.report import CaseReport
from cutegen.verification.sharing import Part, Turns, deal, together

SHARED = [(0, 2)]


def timeless(report: KernelReport) -> KernelReport:
    """A report without how long anything took."""
    return replace(report, seconds=0.0, cases=tuple(replace(case, seconds=0.0) for case in report.cases))


def test_each_entry_is_done_by_one_process() -> None:
    queue = Turns.queue()
    turns = [Turns([queue]), Turns([queue])]
    first, second = (turn.of("abcde") for turn in turns)
    one, two = [next(first), next(first)], [next(second)]
    one += first
    two += second
    assert sorted(one + two) == list("abcde") and one and two
    assert sorted(turns[0].taken[0] + turns[1].taken[0]) == [0, 1, 2, 3, 4]
    assert [["abcde"[i] for i in turn.taken[0]] for turn in turns] == [one, two]
    assert turns[0].counts == turns[1].counts == [5]


def case(number: int, unjudged: tuple[str, ...] = ()) -> CaseReport:
    return CaseReport(f"case {number}", "", {}, "compact", "random", "passed", elements=4, unjudged=unjudged)


def part(cases: dict[int, CaseReport], counts: tuple[int, int] = (3, 0), error: str = "") -> Part:
    return Part(KernelReport("add", "add.py", "cpu", tuple(cases.values()), error=error), [list(cases), []], counts)


def test_entries_are_in_their_order() -> None:
    found = together(add_plan(), [part({1: case(1)}), part({0: case(0), 2: case(2)})], 1.0)
    assert found is not None and found.cases == (case(0), case(1), case(2)) and found.seconds == 1.0


def test_what_no_share_judges_is_said_of_the_whole() -> None:
    open_ = part({0: case(0, ("D",)), 2: case(2, ("D",))})
    found = together(add_plan(), [open_, part({1: case(1, ("D",))})], 1.0)
    assert found is not None and found.reason == "open" and "an element of D" in found.error
    found = together(add_plan(), [open_, part({1: case(1)})], 1.0)
    assert found is not None and not found.error


@pytest.mark.parametrize(
    "other",
    [part({1: case(1)}, error="cannot run"), part({1: case(1)}, (4, 0)), part({})],
    ids=["without an end", "of other checks", "that lacks one"],
)
def test_shares_that_do_not_come_to_the_whole_are_no_report(other: Part) -> None:
    assert together(add_plan(), [part({0: case(0), 2: case(2)}), other], 1.0) is None


@pytest.mark.parametrize("bug", ["", "rounding", "no size check", "crash", "hang"])
def test_processes_give_the_report_of_one(bug: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a process ends in the middle: what ran after that in others is of no account."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    job = Job(add_plan(), write_module(tmp_path, add_spec(), bug), "verification_fakes:CpuExecutor")
    limit = 6.0 if bug == "hang" else 60.0
    (alone,) = verify_all([job], timeout=limit)
    monkeypatch.setattr("cutegen.verification.pool.deal", lambda *_, **__: SHARED)
    seen: list[KernelReport] = []
    start = time.perf_counter()
    (found,) = verify_all([job], workers=2, done=seen.append, timeout=limit)
    assert 0 < found.seconds <= time.perf_counter() - start  # not the sum over processes
    assert timeless(found) == timeless(alone) and seen == [found]
    assert found.ok is not bool(bug)


@pytest.mark.parametrize("shared", [False, True])
def test_it_is_told_how_far_a_kernel_is(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    if shared:
        monkeypatch.setattr("cutegen.verification.pool.deal", lambda *_, **__: SHARED)
    told: list[SoFar] = []
    job = Job(add_plan(), write_module(tmp_path, add_spec()), "verification_fakes:CpuExecutor")
    (report,) = verify_all([job], workers=1 + shared, going=told.append)
    cases, checks = len(report.cases), len(report.host_checks)
    assert [so_far.cases + so_far.checks for so_far in told] == list(range(1, cases + checks + 1))
    assert told[-1] == SoFar("add", cases, cases, checks) and {so_far.planned for so_far in told} == {cases}


def test_a_kernel_is_loaded_once_for_all_its_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    monkeypatch.setattr("cutegen.verification.pool.deal", lambda *_, **__: SHARED)
    module, told = write_module(tmp_path, add_spec()), tmp_path / "loaded"
    module.write_text(f"print('loaded', file=open({str(told)!r}, 'a'))\n{module.read_text()}")
    (report,) = verify_all([Job(add_plan(), module, "verification_fakes:CpuExecutor")], workers=2)
    assert report.ok and told.read_text().split() == ["loaded"]


class Dealt:
    """Plans whose verification takes so many seconds, by their numbers."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, *seconds: float) -> None:
        self.plans: Sequence[Plan] = [
            plan_of(replace(add_spec(), kernel=f"k{i}"), ADD_TILE) for i in range(len(seconds))
        ]
        times = {plan.spec.kernel: time for plan, time in zip(self.plans, seconds, strict=True)}
        monkeypatch.setattr("cutegen.verification.sharing._about", lambda plan: times[plan.spec.kernel])

    def deal(self, workers: int, shares: bool = True) -> list[tuple[int, int]]:
        return deal(self.plans, workers, shares)


def test_the_only_kernel_is_shared_unless_it_is_small(monkeypatch: pytest.MonkeyPatch) -> None:
    assert Dealt(monkeypatch, 40.0).deal(3) == [(0, 3)]
    assert Dealt(monkeypatch, 40.0).deal(3, shares=False) == [(0, 1)]
    assert Dealt(monkeypatch, 0.4).deal(3) == [(0, 1)]


def test_what_takes_longest_begins_first(monkeypatch: pytest.MonkeyPatch) -> None:
    many = Dealt(monkeypatch, 3.0, 5.0, *[4.0] * 40).deal(2)
    assert many[0] == (1, 1) and many[-1] == (0, 1) and len(many) == 42
    long = Dealt(monkeypatch, 3.0, 60.0, *[4.0] * 40).deal(2)
    assert long[0] == (1, 2) and {count for _, count in long[1:]} == {1}
    assert {count for _, count in Dealt(monkeypatch, 3.0, 60.0, *[4.0] * 400).deal(2)} == {1}
