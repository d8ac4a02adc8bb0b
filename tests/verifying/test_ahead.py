"""Data that a worker prepares before a kernel is compiled are used for this kernel, and change nothing."""

from __future__ import annotations

import gc
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from weakref import ref

import pytest

torch = pytest.importorskip("torch")
pytest.importorskip("cutlass")

from building_kit import StandInCompiler, StandInVerifier, good, project, units_of  # noqa: E402
from verification_fakes import (  # noqa: E402
    ADD_TILE,
    CpuExecutor,
    add_plan,
    add_spec,
    less_spec,
    plan_of,
    write_module,
)
from workers_kit import count_workers  # noqa: E402

from cutegen.compiling import Failed  # noqa: E402
from cutegen.console import NoProgress  # noqa: E402
from cutegen.project.selection import select  # noqa: E402
from cutegen.verbs.building import ahead as meanwhile  # noqa: E402
from cutegen.verbs.building import build as building  # noqa: E402
from cutegen.verbs.building.ahead import Meanwhile  # noqa: E402
from cutegen.verbs.building.build import Options, build  # noqa: E402
from cutegen.verification import UNTIL_FAILURE, Extent, from_json, given  # noqa: E402
from cutegen.verification.agenda import agenda_of  # noqa: E402
from cutegen.verification.compare import bits_of  # noqa: E402
from cutegen.verification.executor import load_module  # noqa: E402
from cutegen.verification.given import give  # noqa: E402
from cutegen.verification.report import KernelReport  # noqa: E402
from cutegen.verification.runner import verify_case  # noqa: E402
from cutegen.verification.sharing import deal  # noqa: E402
from cutegen.verification.tensors import poisons  # noqa: E402
from cutegen.verifying import kernel, worker  # noqa: E402
from cutegen.verifying import prepared as preparing  # noqa: E402
from cutegen.verifying.ahead import Ahead  # noqa: E402
from cutegen.verifying.jobs import Job  # noqa: E402
from cutegen.verifying.pool import verify_all  # noqa: E402
from cutegen.verifying.worker import _Verifier  # noqa: E402
from cutegen.workers import Going, Last  # noqa: E402

KITS = str(Path(__file__).parents[1] / "kits")
FAKE = "verification_fakes:CpuExecutor"


def timeless(report: KernelReport) -> KernelReport:
    """A report without how long anything took."""
    return replace(report, seconds=0.0, cases=tuple(replace(case, seconds=0.0) for case in report.cases))


def verified(verifier: _Verifier, job: Job) -> KernelReport:
    found = verifier.verify(job)
    assert isinstance(found, (Going, Last))
    return timeless(from_json(found.result))


def prepared(verifier: _Verifier, job: Job) -> Iterator[object]:
    found = verifier.verify(replace(job, to_come=True))
    assert isinstance(found, Going) and found.result is None
    return found.steps


@pytest.fixture
def loads(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The modules that are loaded."""
    seen: list[Path] = []
    load = kernel.load_module
    monkeypatch.setattr(kernel, "load_module", lambda path: seen.append(path) or load(path))  # type: ignore[func-returns-value]
    return seen


@pytest.fixture(autouse=True)
def core(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has the C core be there."""
    monkeypatch.setattr(preparing, "is_lacking", lambda folder: False)


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """The sizes of the references that are evaluated."""
    seen: list[Any] = []
    evaluate = given.evaluate

    def noted(spec: Any, tensors: Any, *more: Any, **named: Any) -> Any:
        seen.append({name: tuple(tensor.shape) for name, tensor in tensors.items()})
        return evaluate(spec, tensors, *more, **named)

    monkeypatch.setattr(given, "evaluate", noted)
    return seen


@pytest.mark.parametrize("bug", ["", "tail"])
@pytest.mark.parametrize("steps", [0, 1, 2, 100])
def test_the_report_is_that_of_a_kernel_that_was_not_prepared(
    tmp_path: Path, loads: list[Path], bug: str, steps: int
) -> None:
    job = Job(add_plan(), write_module(tmp_path, add_spec(), bug), FAKE)
    wanted = verified(_Verifier(lambda kind, data: None), job)
    assert wanted.ok == (not bug)
    loads.clear()
    told: list[str] = []
    verifier = _Verifier(lambda kind, data: told.append(kind))
    for _ in zip(range(steps), prepared(verifier, job), strict=False):
        pass
    assert told == [] and loads == [job.module] * (steps > 1)
    assert verified(verifier, job) == wanted
    assert loads == [job.module], "a module is loaded once"


def test_what_was_prepared_is_used_once_and_for_its_job_only(tmp_path: Path, loads: list[Path]) -> None:
    (tmp_path / "other").mkdir()
    job = Job(add_plan(), write_module(tmp_path, add_spec()), FAKE)
    other = replace(job, module=write_module(tmp_path / "other", add_spec()))
    quick = replace(job, extent=Extent(quick=True))
    verifier = _Verifier(lambda kind, data: None)
    for unlike in (other, quick, job):
        list(prepared(verifier, job))
        loads.clear()
        found = verified(verifier, unlike)
        assert found.ok and found.in_part == unlike.extent.quick
        assert loads == [unlike.module] * (unlike is not job)
    verified(verifier, job)
    assert loads == [job.module]


def test_references_are_evaluated_ahead_and_once(tmp_path: Path, evaluated: list[Any]) -> None:
    job, verifier = Job(add_plan(), write_module(tmp_path, add_spec()), FAKE), _Verifier(lambda kind, data: None)
    list(prepared(verifier, job))
    cases = agenda_of(job.plan).turns
    assert len(evaluated) == len(cases)
    assert verified(verifier, job).ok and len(evaluated) == len(cases)
    assert verified(verifier, job).ok and len(evaluated) == 2 * len(cases), "what was made ahead is used once"


def test_an_output_that_is_run_with_two_poisons_has_one_reference(tmp_path: Path, evaluated: list[Any]) -> None:
    plan = plan_of(less_spec(), ADD_TILE)
    report = kernel.verify_kernel(plan, write_module(tmp_path, less_spec()), CpuExecutor())
    assert report.ok and poisons(plan.spec) == 2
    assert len(evaluated) == len(report.cases)


def test_what_is_made_ahead_has_a_limit_and_is_there_until_a_later_case_runs(evaluated: list[Any]) -> None:
    agenda = agenda_of(add_plan())
    whole = [give(agenda.plan, agenda.planned[number], "cpu").bytes for number in agenda.turns]
    evaluated.clear()
    most = sum(whole) // 2
    ahead = given.MadeAhead(most)
    assert list(ahead.make(agenda, "cpu"))
    places = sorted(ahead._made)
    assert 0 < len(places) == len(evaluated) < len(whole) and places[0] == 0
    kept = sum(ahead._made[place].bytes for place in places)
    assert kept == sum(whole[place] for place in places) < most + max(whole)
    made = ahead._made[places[2]]
    assert made.case == agenda.planned[agenda.turns[places[2]]]
    assert ahead.take(places[2]) is made and sorted(ahead._made) == places[3:]
    assert ahead.take(places[2]) is None and ahead.take(len(whole)) is None and not ahead._made


def test_what_runs_again_runs_on_tensors_that_nothing_has_run_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    agenda, module = agenda_of(add_plan()), load_module(write_module(tmp_path, add_spec()))
    case, seen = agenda.planned[0], []

    class Explaining(CpuExecutor):
        def explains(self) -> bool:
            return True

        def run(self, module: Any, spec: Any, args: Any, *more: Any) -> Any:
            seen.append(args[2].clone())
            args[2].fill_(7)
            raise ValueError("no")

    report = verify_case(agenda.plan, case, module, Explaining(), 1, give(agenda.plan, case, "cpu"))
    assert report.status == "failed" and len(seen) == 2 and torch.equal(*(bits_of(x) for x in seen))


def test_references_wait_for_the_compiler_of_the_core(
    tmp_path: Path, evaluated: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    lacking, slept = [True] * 3, []
    monkeypatch.setattr(preparing, "is_lacking", lambda folder: bool(lacking) and lacking.pop())
    monkeypatch.setattr(preparing.time, "sleep", slept.append)
    job, verifier = Job(add_plan(), write_module(tmp_path, add_spec()), FAKE), _Verifier(lambda kind, data: None)
    for _ in prepared(verifier, job):
        assert not (lacking and evaluated)
    assert len(slept) == 3 and evaluated


def test_nobody_waits_for_the_garbage_of_a_kernel(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def note(name: str, generation: int = 2) -> None:
        if generation:  # else of one case or check
            done.append(name)

    for name in ("collect", "freeze"):
        monkeypatch.setattr(worker.gc, name, partial(note, name))
    found = _Verifier(lambda kind, data: None).verify(Job(add_plan(), write_module(tmp_path, add_spec()), FAKE))
    assert isinstance(found, Going) and from_json(found.result).ok and not done
    assert len(list(found.steps)) == 1 and done == ["collect", "freeze"]


@pytest.mark.parametrize("text", ["raise ValueError('no')", "x = 1"])
def test_a_module_that_does_not_load_is_reported_as_ever(tmp_path: Path, text: str) -> None:
    (module := tmp_path / "add.py").write_text(text)
    job, verifier = Job(add_plan(), module, FAKE), _Verifier(lambda kind, data: None)
    list(prepared(verifier, job))
    found = verified(verifier, job)
    assert found.reason == "not loaded" and found == verified(_Verifier(lambda kind, data: None), job)


def test_the_worker_that_prepares_a_job_does_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", KITS)
    module, workers = write_module(tmp_path, add_spec()), count_workers(monkeypatch)
    module.write_text(f"{module.read_text()}\nwith open({str(tmp_path / 'loads')!r}, 'a') as f:\n    f.write('one ')\n")
    job = Job(add_plan(), module, FAKE)
    with Ahead(job, 2) as ahead:
        assert ahead.turns() == deal([job.plan], 2, shares=True)
        deadline = time.monotonic() + 60
        while not (tmp_path / "loads").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (found,) = verify_all([job], workers=2, ahead=ahead)
    assert len(workers.started) == 1 and not workers.alive
    assert found.ok and (tmp_path / "loads").read_text() == "one "


def test_a_worker_that_ended_early_is_replaced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", KITS)
    module, workers = write_module(tmp_path, add_spec()), count_workers(monkeypatch)
    module.write_text(
        f"{module.read_text()}\nimport os\nif not os.path.exists({str(tmp_path / 'ended')!r}):\n"
        f"    open({str(tmp_path / 'ended')!r}, 'w').close()\n    os._exit(3)\n"
    )
    with Ahead(Job(add_plan(), module, FAKE), 2) as ahead:
        ahead.turns()
        deadline = time.monotonic() + 60
        while not (tmp_path / "ended").exists() and time.monotonic() < deadline:
            time.sleep(0.01)
        (found,) = verify_all([ahead.job], workers=2, ahead=ahead)
    assert found.ok and len(workers.started) == 2 and not workers.alive


class Recorder:
    """Takes the place of `Ahead`."""

    def __init__(self, job: Job, workers: int) -> None:
        self.job, self.workers, self.open = job, workers, True

    def __enter__(self) -> Recorder:
        return self

    def __exit__(self, *_: object) -> None:
        self.open = False


@pytest.fixture
def emulated(monkeypatch: pytest.MonkeyPatch) -> None:
    """Has kernels run on the CPU emulator, and what prepares them do nothing."""
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr(meanwhile, "Ahead", Recorder)


@pytest.mark.usefixtures("emulated")
def test_a_kernel_is_prepared_where_it_is_the_only_one_and_a_process_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    units = units_of(project(tmp_path, "one", "other"))

    def begun(count: int, compiling: int, jobs: int | None) -> bool:
        with Meanwhile(units[:count], jobs, UNTIL_FAILURE) as beside:
            beside.begin(compiling)
            if beside.ahead is None:
                return False
            assert isinstance(beside.ahead, Recorder) and beside.ahead.open and beside.ahead.workers == jobs
            text = beside.ahead.job.module.read_text()
        assert text == units[0].module.text and not beside.ahead.open and not beside.ahead.job.module.exists()
        return True

    assert begun(1, 1, 2) and begun(1, 2, 3)
    assert not begun(1, 2, 2) and not begun(1, 1, 1) and not begun(2, 2, 4)
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: "no emulator in this test")
    assert not begun(1, 1, 2)
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: None)
    assert not begun(1, 1, 2)


@pytest.mark.usefixtures("emulated")
@pytest.mark.parametrize("fails", [False, True])
def test_a_build_has_what_it_prepared_verified_and_ends_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: bool
) -> None:
    seen: list[Any] = []
    open_while_compiled: list[bool] = []
    verifier = StandInVerifier()

    class Seen(Recorder):
        def __init__(self, job: Job, workers: int) -> None:
            super().__init__(job, workers)
            seen.append(self)

    def compiled(job: Any) -> Any:
        open_while_compiled.append(seen[0].open)
        return Failed("exception", "no") if fails else good(job)

    def verify(jobs: Sequence[Job], *, ahead: Any, **more: Any) -> list[KernelReport]:
        assert ahead is seen[0] and ahead.open and [job.module for job in jobs] == [ahead.job.module]
        return verifier(jobs, **more)

    monkeypatch.setattr(meanwhile, "Ahead", Seen)
    monkeypatch.setattr(building, "compile_beside", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", StandInCompiler(compiled))
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", verify)
    report = build(select([project(tmp_path, "one")]), Options(cache=False, jobs=4), NoProgress())
    assert report.exit_code == int(fails) and len(verifier.jobs) == int(not fails)
    assert open_while_compiled == [True, True] and len(seen) == 1 and not seen[0].open
    assert build(select([tmp_path]), Options(cache=False, jobs=4, verify=False), NoProgress()).exit_code == int(fails)
    assert len(seen) == 1


def test_what_a_case_leaves_in_circles_is_gone_before_the_next(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class Circle:
        def __init__(self) -> None:
            self.own = self

    left: list[ref[Circle]] = []
    kept: list[int] = []

    def leaving(*given: Any) -> Any:
        left.append(ref(Circle()))
        return verify_case(*given)

    def tell(kind: str, data: Any) -> None:
        kept.extend(place for place, circle in enumerate(left) if kind == "start" and circle() is not None)

    monkeypatch.setattr(kernel, "verify_case", leaving)
    gc.disable()  # as in a worker
    try:
        found = verified(_Verifier(tell), Job(add_plan(), write_module(tmp_path, add_spec()), FAKE))
    finally:
        gc.enable()
    assert found.ok and len(left) == len(found.cases) and kept == []
