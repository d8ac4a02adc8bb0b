"""A kernel that is dealt to several processes has the report that a single one would give."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from verification_fakes import ADD_TILE, add_plan, add_spec, plan_of, write_module

from cutegen.planning.plan import Plan
from cutegen.verification import Case, Extent, KernelReport, as_json, from_json
from cutegen.verification.agenda import Agenda, agenda_of
from cutegen.verification.parts import Part, report_of, together
from cutegen.verification.report import CaseReport, HostCheck, Status
from cutegen.verification.sharing import Share, Turns, Whole, deal
from cutegen.verifying.jobs import Job
from cutegen.verifying.pool import SoFar, verify_all

SHARED = [(0, 2)]


def timeless(report: KernelReport) -> KernelReport:
    """A report without how long anything took."""
    return replace(report, seconds=0.0, cases=tuple(replace(case, seconds=0.0) for case in report.cases))


def test_each_entry_is_done_by_one_process() -> None:
    queue = Turns.queue()
    first, second = (Turns([queue]).of("abcde") for _ in range(2))
    one, two = [next(first), next(first)], [next(second)]
    one += first
    two += second
    assert sorted(one + two) == list(enumerate("abcde")) and one and two


@pytest.mark.parametrize("alone", [False, True])
def test_a_stop_ends_the_turns_of_all_and_all_entries_are_gone_through(alone: bool) -> None:
    queues = [Turns.queue(), Turns.queue()]
    one: Share = Whole() if alone else Turns(queues)
    other: Share = one if alone else Turns(queues)
    cases = one.of("abcde")
    begun = [next(cases)[1], *(() if alone else [next(other.of("abcde"))[1]])]
    one.stop()
    assert list(cases) == [] and begun == ["a", "b"][: len(begun)]
    seen: list[str] = []
    for share in {one, other}:
        assert list(share.of(seen.append(check) or check for check in "xyz")) == []  # type: ignore[func-returns-value]
    assert seen == list("xyz") * len({one, other})


def agenda(count: int, *, all: bool = True) -> Agenda:
    """One of cases that run backwards."""
    planned = tuple(Case(f"case {number}", "", {}) for number in range(count))
    return Agenda(add_plan(), planned, tuple(range(count))[::-1], frozenset(), {}, Extent(all=all))


def case(number: int, status: Status = "passed", unjudged: tuple[str, ...] = ()) -> CaseReport:
    return CaseReport(f"case {number}", "", {}, "compact", "random", status, elements=4, unjudged=unjudged)


def check(number: int, status: Status = "passed") -> HostCheck:
    return HostCheck("A", f"check {number}", status)


NAMED = [("A", f"check {number}", True) for number in range(3)]


def test_entries_are_in_the_order_in_which_they_are_derived() -> None:
    planned = agenda(3)
    parts = [
        Part({1: case(1)}, {0: check(0), 2: check(2)}, NAMED),
        Part({0: case(2), 2: case(0)}, {1: check(1)}, NAMED),
    ]
    whole = together(planned, [Part.from_json(json.loads(json.dumps(part.as_json()))) for part in parts])
    assert whole is not None
    found = report_of(planned, "add.py", "cpu", whole, 1.0)
    assert found.cases == (case(0), case(1), case(2)) and found.host_checks == (check(0), check(1), check(2))
    assert found.complete and found.seconds == 1.0


def test_what_no_share_judges_is_said_of_the_whole() -> None:
    planned = agenda(3)
    open_ = Part({0: case(2, unjudged=("D",)), 1: case(1, unjudged=("D",))})
    for last, said in ((case(0, unjudged=("D",)), True), (case(0), False)):
        whole = together(planned, [open_, Part({2: last})])
        assert whole is not None
        found = report_of(planned, "add.py", "cpu", whole, 1.0)
        assert ("an element of D" in found.error) is said and (found.reason == "open") is said


@pytest.mark.parametrize(
    "other",
    [Part({1: case(1)}, error="cannot run"), Part({1: case(1)}, {}, NAMED), Part(),
     Part({1: replace(case(1), reason="no memory")})],
    ids=["without an end", "of other checks", "that lacks one", "without memory"],
)  # fmt: skip
def test_shares_that_do_not_come_to_the_whole_are_none(other: Part) -> None:
    assert together(agenda(3), [Part({0: case(0), 2: case(2)}), other]) is None
    assert together(agenda(3), [Part({0: case(0), 2: case(2)}), Part({1: case(1)})]) is not None


def test_what_ran_beside_the_first_failure_is_of_no_account() -> None:
    """So several processes say what one would, whichever was faster."""
    planned = agenda(4, all=False)
    found = []
    for beside in ({}, {2: case(1)}, {2: case(1, "failed"), 3: case(0)}):
        whole = together(planned, [Part({0: case(3)}, {}, NAMED), Part({1: case(2, "failed"), **beside}, {}, NAMED)])
        assert whole is not None
        found.append(report_of(planned, "add.py", "cpu", whole, 1.0))
    assert found[0] == found[1] == found[2]
    assert [entry.status for entry in found[0].cases] == ["not run", "not run", "failed", "passed"]
    assert {r.reason for r in found[0].results if r.status == "not run"} == {"stopped"}
    assert found[0].left_out == "2 cases and 3 host checks were left out after it: `--all` runs all"
    assert "(2 cases and 3 host checks were left out after it: `--all` runs all)" in found[0].text
    whole = together(planned, [Part({1: case(2, "failed")}, {}, NAMED), Part({}, {}, NAMED)])
    assert whole is None, "what comes before it is known"
    checks = {0: check(0), 1: check(1, "failed"), 2: check(2)}
    whole = together(planned, [Part({place: case(3 - place) for place in range(4)}, checks, NAMED)])
    assert whole is not None
    report = report_of(planned, "add.py", "cpu", whole, 1.0)
    assert [entry.status for entry in report.host_checks] == ["passed", "failed", "not run"]
    assert report.left_out == "1 host check was left out after it: `--all` runs all"
    whole = together(agenda(4), [Part({place: case(3 - place) for place in range(4)}, checks, NAMED)])
    assert whole is not None and len(whole.checks) == 3, "all were asked for"


@pytest.mark.parametrize(
    ("bug", "all"),
    [("", False), ("rounding", False), ("rounding", True), ("no size check", False), ("crash", False), ("hang", False)],
)
def test_processes_give_the_report_of_one(bug: str, all: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where a process ends in the middle: what ran after that in others is of no account."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    job = Job(add_plan(), write_module(tmp_path, add_spec(), bug), "verification_fakes:CpuExecutor", Extent(all))
    limit = 4.0 if bug == "hang" else 60.0
    (alone,) = verify_all([job], timeout=limit)
    monkeypatch.setattr("cutegen.verifying.pool.deal", lambda *_, **__: SHARED)
    seen: list[KernelReport] = []
    start = time.perf_counter()
    (found,) = verify_all([job], workers=2, done=seen.append, timeout=limit)
    assert 0 < found.seconds <= time.perf_counter() - start  # not the sum over processes
    assert timeless(found) == timeless(alone) and seen == [found]
    assert found.ok is not bool(bug)
    failed = sum(result.status == "failed" for result in found.results)
    assert failed > 1 if all else failed == bool(bug)


@pytest.mark.parametrize("shared", [False, True])
def test_it_is_told_how_far_a_kernel_is(shared: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    if shared:
        monkeypatch.setattr("cutegen.verifying.pool.deal", lambda *_, **__: SHARED)
    told: list[SoFar] = []
    job = Job(add_plan(), write_module(tmp_path, add_spec()), "verification_fakes:CpuExecutor")
    (report,) = verify_all([job], workers=1 + shared, going=told.append)
    cases, checks = len(report.cases), len(report.host_checks)
    assert [so_far.cases + so_far.checks for so_far in told] == list(range(1, cases + checks + 1))
    assert told[-1] == SoFar("add", cases, cases, checks) and {so_far.planned for so_far in told} == {cases}


@pytest.mark.parametrize("workers", [1, 2])
def test_a_part_is_the_cases_and_checks_that_tell_much_for_little(
    workers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    if workers > 1:
        monkeypatch.setattr("cutegen.verifying.pool.deal", lambda *_, **__: SHARED)
    path, quick = write_module(tmp_path, add_spec()), Extent(quick=True)
    (report,) = verify_all([Job(add_plan(), path, "verification_fakes:CpuExecutor", quick)], workers=workers)
    ran = [[r.status == "passed" for r in some] for some in (report.cases, report.host_checks)]
    assert report.ok and report.in_part and not report.complete and from_json(as_json(report)) == report
    assert all(any(some) and not all(some) for some in ran)
    assert {r.reason for r in report.results if r.status != "passed"} == {"in part"}
    assert {i for i, some in enumerate(report.cases) if some.status == "passed"} == set(
        agenda_of(add_plan(), quick).turns
    )
    cheap = {check.what for check in report.host_checks if check.status == "passed"}
    assert "wrong dtype (int32)" in cheap and not any("2^32" in what or "as can be run" in what for what in cheap)
    assert f"in part: {sum(ran[0])}/{len(ran[0])} cases, {sum(ran[1])}/{len(ran[1])} host checks" in report.text
    assert "not run" not in report.text


def test_a_kernel_is_loaded_once_for_all_its_shares(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    monkeypatch.setattr("cutegen.verifying.pool.deal", lambda *_, **__: SHARED)
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


def test_a_kernel_that_ends_its_process_was_verified_in_part_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "kits"))
    extent = Extent(quick=True)
    path, agenda = write_module(tmp_path, add_spec(), "crash"), agenda_of(add_plan(), extent)
    rows, columns = agenda.planned[agenda.turns[1]].sizes.values()
    path.write_text(path.read_text().replace("x.shape == (3, 16)", f"x.shape == ({rows}, {columns})"))
    (report,) = verify_all([Job(add_plan(), path, "verification_fakes:CpuExecutor", extent)])
    assert report.in_part and report.reason == "process ended"
    never = {agenda.planned[number].name for number in agenda.left_out}
    assert never and {case.name for case in report.cases if case.reason == "in part"} == never


def test_what_is_left_by_a_check_that_raised_is_not_left_by_a_failure() -> None:
    agenda = agenda_of(add_plan())
    part = Part(named=[("x", "a check that raises", True)], error="the host checks could not go on: no reason")
    report = report_of(agenda, "m.py", "cpu", part, 1.0)
    assert not report.ok and not report.stopped
    assert [check.message for check in report.host_checks] == [part.error]
