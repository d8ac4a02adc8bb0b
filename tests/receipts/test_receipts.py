"""Receipts on disk: which still belong to the code, what a build does about the others, and recording new ones."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from building_kit import StandInCompiler, project, put, snapshot, spec_text, units_of
from receipts_kit import MACHINE, measured, put_receipt, receipt, result

from cutegen.console import PlainProgress
from cutegen.measuring.model import Failure
from cutegen.project.selection import select
from cutegen.project.sources import gather
from cutegen.project.state import RECEIPT_ADVICE, FileState, advice
from cutegen.receipts.beside_modules import compare_all, units_by_file
from cutegen.receipts.receipt_text import parse, text
from cutegen.receipts.write import record_measured, record_verified
from cutegen.verbs.building.build import BuildReport, Options, build
from cutegen.verification import Case, CaseReport, KernelReport

CHANGED = ("C = A + B", "C = A - B")
ONE = "generated/receipts/nvidia-test-9/one.json"


def states_of(*specs: Path, out: Path | None = None) -> dict[str, FileState]:
    """Those of receipts, by path from the folder of the modules."""
    selection = select(specs, out)
    states = compare_all(gather(selection).units, selection.scopes)
    return {"/".join(s.path.parts[-2:]): s for s in states if s.kind == "receipt"}


def edit(path: Path, old: str = '"us": 10', new: str = '"us": 9') -> None:
    assert old in path.read_text()
    path.write_text(path.read_text().replace(old, new, 1))


def change(specs: Path, name: str = "one") -> None:
    (specs / f"{name}.yaml").write_text(spec_text(name).replace(*CHANGED))


def built(folder: Path, *names: str) -> tuple[Path, dict[str, Path]]:
    """A project with modules and a receipt of each. Returns the folder of the specs, and the receipts."""
    specs = project(folder, *names)
    put(specs)
    return specs, {unit.kernel: put_receipt(unit) for unit in units_of(specs)}


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", StandInCompiler())


def run(specs: Path, *, force: bool = False) -> BuildReport:
    return build(select([specs]), Options(cache=False, verify=False, force=force), PlainProgress())


def test_what_was_just_recorded_is_current_and_stays_so_if_only_reformatted(tmp_path: Path) -> None:
    specs, paths = built(tmp_path, "one")
    assert states_of(specs)["nvidia-test-9/one.json"].state == "current"
    paths["one"].write_text(json.dumps(json.loads(paths["one"].read_text()), indent=8, sort_keys=True))
    assert states_of(specs)["nvidia-test-9/one.json"].state == "current"


def test_current_while_only_the_python_around_the_kernel_changes(tmp_path: Path) -> None:
    specs, _ = built(tmp_path, "one")
    before = units_of(specs)[0].module.text
    (specs / "one.yaml").write_text(spec_text("one") + 'torch: {op: "mine::one"}\n')
    assert units_of(specs)[0].module.text != before
    assert states_of(specs)["nvidia-test-9/one.json"].state == "current"


def test_stale_when_the_code_changed_and_not_for_a_comment(tmp_path: Path) -> None:
    specs, _ = built(tmp_path, "one")
    (specs / "one.yaml").write_text("# a comment\n" + spec_text("one"))
    assert states_of(specs)["nvidia-test-9/one.json"].state == "current"
    change(specs)
    found = states_of(specs)["nvidia-test-9/one.json"]
    assert (found.state, found.wanted) == ("stale", None)


def test_a_receipt_of_each_gpu_has_a_state_of_its_own(tmp_path: Path) -> None:
    specs, _ = built(tmp_path, "one")
    (unit,) = units_of(specs)
    change(specs)
    (changed,) = units_of(specs)
    put_receipt(changed, receipt(changed, machine=replace(MACHINE, gpu="NVIDIA Other")))
    found = {name: state.state for name, state in states_of(specs).items()}
    assert found == {"nvidia-other/one.json": "current", "nvidia-test-9/one.json": "stale"}
    assert unit.kernel == changed.kernel


def test_orphaned_when_the_spec_or_the_kernel_is_gone(tmp_path: Path) -> None:
    specs, _ = built(tmp_path, "one", "two", "three")
    (specs / "one.yaml").unlink()
    (specs / "two.yaml").write_text(spec_text("renamed"))
    found = states_of(specs)
    assert {name: (s.state, s.why) for name, s in found.items() if s.state != "current"} == {
        "nvidia-test-9/one.json": ("orphaned", "specs/one.yaml is gone"),
        "nvidia-test-9/two.json": ("orphaned", "specs/two.yaml makes no such kernel"),
    }


def test_receipts_outside_of_what_was_asked_for_are_not_looked_at(tmp_path: Path) -> None:
    specs, paths = built(tmp_path, "one", "two", "three")
    (specs / "two.yaml").unlink()
    edit(paths["three"])
    assert list(states_of(specs / "one.yaml")) == ["nvidia-test-9/one.json"]
    found = {name[14:]: state.state for name, state in states_of(specs).items()}
    assert found == {"one.json": "current", "three.json": "edited", "two.json": "orphaned"}
    assert not states_of(specs, out=tmp_path / "elsewhere")


def test_edited_wins_over_stale_and_orphaned(tmp_path: Path) -> None:
    specs, paths = built(tmp_path, "one", "two")
    edit(paths["one"])
    edit(paths["two"])
    change(specs)
    (specs / "two.yaml").unlink()
    assert {state.state for state in states_of(specs).values()} == {"edited"}


@pytest.mark.parametrize(
    "how", ["conflict", "cut", "emptied", "zeros", "all but cut", "schema", "newer", "elsewhere", "renamed"]
)
def test_invalid(tmp_path: Path, how: str) -> None:
    specs, paths = built(tmp_path, "one", "two")
    path = paths["one"]
    name = "nvidia-test-9/one.json"
    if how == "conflict":
        edit(path, '  "kernel"', '<<<<<<< HEAD\n  "kernel"')
    elif how == "cut":
        path.write_text(path.read_text()[:-100])
    elif how in ("emptied", "zeros", "all but cut"):
        path.write_text({"emptied": "", "zeros": "\0" * 4096, "all but cut": path.read_text()[:12]}[how])
    elif how == "schema":
        edit(path, '"us": 10', '"us": -10')
    elif how == "newer":
        edit(path, '"cutegen_receipt": 2', '"cutegen_receipt": 99')
    elif how == "elsewhere":
        (path.parent.parent / "other").mkdir()
        shutil.copy(path, path.parent.parent / "other/one.json")
        name = "other/one.json"
    else:
        shutil.copy(paths["two"], path)
    found = states_of(specs)
    assert {n: s.state for n, s in found.items() if s.state != "current"} == {name: "invalid"}


def test_other_files_are_nobodys_business(tmp_path: Path, compiler: None) -> None:
    specs, paths = built(tmp_path, "one")
    folder = paths["one"].parent
    (folder / "notes.txt").write_text(paths["one"].read_text())
    (folder / "two.json").write_text('{"kernel": "two"}')
    (folder.parent / "index.json").write_text(paths["one"].read_text())
    (folder.parent / ".other").mkdir()
    (folder.parent / ".other/one.json").write_text('{"kernel": "one"}')
    (folder / "bytes.json").write_bytes(b"\xff\xfe")
    (folder / "empty.json").write_bytes(b"")
    (folder / "folder.json").mkdir()
    assert list(states_of(specs)) == ["nvidia-test-9/one.json"]
    change(specs)
    before = snapshot(folder.parent)
    assert run(specs).exit_code == 0
    after = snapshot(folder.parent)
    assert set(before) - set(after) == {"nvidia-test-9/one.json"} and after == {n: before[n] for n in after}


@pytest.mark.parametrize("how", ["other", "folder", "link"])
def test_something_else_in_the_place_of_a_receipt_is_named_and_never_removed(
    tmp_path: Path, compiler: None, how: str
) -> None:
    specs, paths = built(tmp_path, "one")
    path = paths["one"]
    path.unlink()
    if how == "other":
        path.write_text('{"kernel": "one"}')
    elif how == "folder":
        path.mkdir()
    else:
        path.symlink_to("nowhere")
    (found,) = states_of(specs).values()
    assert found.state == "foreign"
    change(specs)
    for force in (False, True):
        report = run(specs, force=force)
        (problem,) = report.problems
        assert report.exit_code == 1 and problem.path == str(path) and problem.help is not None
        assert "move it away" in problem.help
    assert os.path.lexists(path) and "A + B" in (tmp_path / "generated/one.py").read_text()


def test_a_build_removes_what_speaks_of_other_code_and_says_how_it_comes_back(tmp_path: Path, compiler: None) -> None:
    specs, paths = built(tmp_path, "one", "two", "three")
    change(specs)
    (specs / "two.yaml").unlink()
    report = run(specs)
    assert report.exit_code == 0 and set(report.removed) == {tmp_path / "generated/two.py", paths["one"], paths["two"]}
    (notice,) = [line for line in report.notices if "receipts" in line]
    assert "one.json" in notice and f"`cutegen bench {specs / 'one.yaml'} --receipts`" in notice
    assert "two" not in notice and list(paths["one"].parent.iterdir()) == [paths["three"]]
    assert {state.state for state in states_of(specs).values()} == {"current"}


def test_a_build_of_what_is_current_touches_no_receipt(tmp_path: Path, compiler: None) -> None:
    specs, _ = built(tmp_path, "one")
    before = snapshot(tmp_path)
    report = run(specs)
    assert report.exit_code == 0 and not report.removed and snapshot(tmp_path) == before


def test_no_empty_folder_is_left(tmp_path: Path, compiler: None) -> None:
    specs, _ = built(tmp_path, "one")
    change(specs)
    assert run(specs).exit_code == 0
    assert sorted(p.name for p in (tmp_path / "generated").iterdir()) == ["one.py"]


def test_a_renamed_spec_keeps_its_figures(tmp_path: Path, compiler: None) -> None:
    specs, paths = built(tmp_path, "one")
    (specs / "one.yaml").rename(specs / "other.yaml")
    found = states_of(specs)["nvidia-test-9/one.json"]
    assert found.state == "stale" and found.wanted is not None and "specs/other.yaml" in found.why
    old = parse(paths["one"].read_bytes())
    assert run(specs).exit_code == 0
    assert parse(paths["one"].read_bytes()) == replace(old, spec="specs/other.yaml")
    assert states_of(specs)["nvidia-test-9/one.json"].state == "current"


@pytest.mark.parametrize("how", ["edited", "invalid", "emptied"])
def test_what_somebody_changed_stops_a_build_unless_forced(tmp_path: Path, compiler: None, how: str) -> None:
    specs, paths = built(tmp_path, "one")
    if how == "emptied":
        paths["one"].write_text("")
    else:
        edit(paths["one"], '"us": 10', '"us": 9' if how == "edited" else '"us": ')
    change(specs)
    before = snapshot(tmp_path)
    report = run(specs)
    (problem,) = report.problems
    assert report.exit_code == 1 and snapshot(tmp_path) == before and problem.path == str(paths["one"])
    assert problem.help is not None and "--force" in problem.help and "bench" in problem.help
    assert run(specs, force=True).exit_code == 0 and not paths["one"].exists()


def test_a_disk_that_fails_midway_leaves_modules_and_receipts_as_they_were(
    tmp_path: Path, compiler: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs, _ = built(tmp_path, "one", "two")
    change(specs)
    change(specs, "two")
    before = snapshot(tmp_path)
    real, calls = os.replace, 0

    def fails(source: str, target: str) -> None:
        nonlocal calls
        calls += 1
        if calls == 4:
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr("os.replace", fails)
    assert run(specs).exit_code == 2 and calls > 4
    monkeypatch.setattr("os.replace", real)
    assert snapshot(tmp_path) == before


def test_a_failed_build_removes_no_receipt(tmp_path: Path, compiler: None) -> None:
    specs, paths = built(tmp_path, "one", "two")
    change(specs)
    (specs / "two.yaml").write_text(spec_text("two", "expect: {registers: 1}"))
    assert run(specs).exit_code == 1 and paths["one"].exists()


def test_every_state_has_advice_that_names_the_spec_if_it_is_there(tmp_path: Path) -> None:
    specs, paths = built(tmp_path, "one", "two")
    assert set(RECEIPT_ADVICE) == {"stale", "orphaned", "edited", "invalid", "foreign"}
    edit(paths["one"])
    edit(paths["two"])
    (specs / "two.yaml").unlink()
    selection = select([specs])
    gathered = gather(selection)
    states = [s for s in compare_all(gathered.units, selection.scopes) if s.kind == "receipt"]
    made = units_by_file(states, gathered.units)
    said = {state.path.stem: advice(state, made.get(state.path)) for state in states}
    assert f"cutegen build --force {specs / 'one.yaml'}" in said["one"] and "bench" in said["one"]
    assert "two.yaml" not in said["two"] and "--force" in said["two"]


# recording


def record(specs: Path, *shapes: object, **more: object) -> Path:
    (unit,) = units_of(specs)
    recorded = record_measured(replace(MACHINE, **more), [(unit, result(unit, *shapes))])  # type: ignore[arg-type]
    assert not recorded.problems
    return recorded.written[0]


def shapes(path: Path) -> list[tuple[int, float]]:
    return [(m.shape["M"], m.timing.us) for m in parse(path.read_bytes()).measured]


def test_recording_adds_and_replaces(tmp_path: Path) -> None:
    specs = project(tmp_path, "one")
    path = record(specs, measured({"M": 1, "N": 1}, 5), measured({"M": 2, "N": 1}, 6))
    assert path == tmp_path / ONE and states_of(specs)["nvidia-test-9/one.json"].state == "current"
    first = path.read_bytes()
    record(specs, measured({"M": 3, "N": 1}, 8), measured({"M": 2, "N": 1}, 7))
    assert shapes(path) == [(1, 5), (2, 7), (3, 8)]
    record(specs, measured({"M": 1, "N": 1}, 5), driver="1.3")
    assert shapes(path) == [(1, 5)]
    path.unlink()
    assert record(specs, measured({"M": 2, "N": 1}, 6), measured({"M": 1, "N": 1}, 5)).read_bytes() == first


@pytest.mark.parametrize("what", ["code", "driver", "edited", "broken", "emptied", "sms"])
def test_what_is_dropped_is_said(tmp_path: Path, what: str) -> None:
    specs = project(tmp_path, "one")
    path = record(specs, measured({"M": 1, "N": 1}))
    if what == "code":
        change(specs)
    elif what == "edited":
        edit(path)
    elif what == "broken":
        path.write_text(path.read_text()[:-9])
    elif what == "emptied":
        path.write_text("")
    (unit,) = units_of(specs)
    machine = replace(MACHINE, driver="9" if what == "driver" else "1.2", sms=7 if what == "sms" else 12)
    recorded = record_measured(machine, [(unit, result(unit, measured({"M": 2, "N": 1})))])
    (notice,) = recorded.notices
    reasons = {
        "code": "another kernel",
        "driver": "driver changed",
        "edited": "edited since it was written",
        "broken": "JSON",
        "emptied": "JSON",
        "sms": "GPU",
    }
    assert reasons[what] in notice and [m for m, _ in shapes(path)] == [2]


def test_a_file_of_others_is_left_alone_and_named(tmp_path: Path) -> None:
    specs = project(tmp_path, "one", "two")
    (tmp_path / ONE).parent.mkdir(parents=True)
    (tmp_path / ONE).write_text("mine")
    recorded = record_measured(MACHINE, [(unit, result(unit)) for unit in units_of(specs)])
    assert (tmp_path / ONE).read_text() == "mine" and [path.name for path in recorded.written] == ["two.json"]
    (problem,) = recorded.problems
    assert "one.json" in problem and "move it away" in problem
    (tmp_path / ONE).unlink()
    (tmp_path / ONE).mkdir()
    (problem,) = record_measured(MACHINE, [(unit, result(unit)) for unit in units_of(specs)]).problems
    assert "one.json" in problem and (tmp_path / ONE).is_dir()


@pytest.mark.parametrize(
    ("kind", "what", "kept"), [("wrong", "one", 0), ("spread", "one", 1), ("crashed", "torch.add", 1)]
)
def test_a_kernel_that_was_wrong_gets_no_figures(tmp_path: Path, kind: str, what: str, kept: int) -> None:
    (unit,) = units_of(project(tmp_path, "one"))
    failure = Failure(kind, what, {"M": 2, "N": 2}, "message")  # type: ignore[arg-type]
    recorded = record_measured(MACHINE, [(unit, result(unit, failures=(failure,)))])
    assert len(recorded.written) == kept == (tmp_path / ONE).exists()
    assert kept or not (tmp_path / "generated").exists()


def report(status: str) -> KernelReport:
    case = CaseReport.of(Case("tile", "why", {"M": 3, "N": 5}), status)  # type: ignore[arg-type]
    return KernelReport("one", "one.py", "gpu (NVIDIA Test 9)", (case,))


def test_verification_and_measurement_share_a_receipt(tmp_path: Path) -> None:
    (unit,) = units_of(project(tmp_path, "one"))
    record_measured(MACHINE, [(unit, result(unit))])
    record_verified(MACHINE, [(unit, report("passed"))])
    both = parse((tmp_path / ONE).read_bytes())
    assert len(both.measured) == 1 and both.verified is not None and both.verified.cases[0].shape == {"M": 3, "N": 5}
    record_measured(MACHINE, [(unit, result(unit))])
    assert parse((tmp_path / ONE).read_bytes()) == both
    assert not record_verified(MACHINE, [(unit, report("failed"))]).written


def test_receipts_are_written_all_or_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    specs, paths = built(tmp_path, "one", "two")
    before = snapshot(tmp_path)
    real, done = os.replace, []

    def fails(source: str, target: str) -> None:
        done.append(target)
        if len(done) == 2:
            raise OSError(28, "No space left on device", str(target))
        real(source, target)

    monkeypatch.setattr("os.replace", fails)
    new: Sequence[object] = [(unit, result(unit, measured(us=3))) for unit in units_of(specs)]
    recorded = record_measured(MACHINE, new)  # type: ignore[arg-type]
    (problem,) = recorded.problems
    assert not recorded.written and "No space" in problem and "as they were" in problem
    assert snapshot(tmp_path) == before and text(parse(paths["one"].read_bytes())) == paths["one"].read_text()


def test_a_figure_that_no_receipt_can_hold_is_named(tmp_path: Path) -> None:
    one, two = units_of(project(tmp_path, "one", "two"))
    results = [(one, result(one, measured(bound=float("inf")))), (two, result(two))]
    recorded = record_measured(MACHINE, results)
    (problem,) = recorded.problems
    assert "one.json" in problem and "infinite" in problem and [path.name for path in recorded.written] == ["two.json"]
