"""The flow of a build, with stand-ins for the compiler and the GPU: what is said, and when nothing is written."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from building_kit import StandInCompiler, StandInVerifier, good, project, put, snapshot, spec_text, states_of, units_of

from cutegen.codegen.render import code_hash, marked
from cutegen.compiling import Artefact, Cache, Compiled, Failed, Job, Outcome, Resources
from cutegen.console import PlainProgress
from cutegen.project.paths import shown
from cutegen.project.selection import select
from cutegen.project.sources import gather
from cutegen.verbs.building import build as build_module
from cutegen.verbs.building import verification as checks
from cutegen.verbs.building.build import BuildReport, Options, build
from cutegen.verbs.building.output import build_json, print_build
from cutegen.verification import EVERYTHING, UNTIL_FAILURE, Case, CaseReport, Extent, HostCheck, KernelReport

Compiler = Callable[..., StandInCompiler]


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> Compiler:
    """Puts a stand-in compiler in place, and an emulator on which every kernel passes."""
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
    monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", StandInVerifier())

    def place(outcome: Callable[[Job], Outcome] = good) -> StandInCompiler:
        stand_in = StandInCompiler(outcome)
        monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", stand_in)
        return stand_in

    return place


Verifier = Callable[..., StandInVerifier]


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> Verifier:
    """Puts a GPU in place on which the cases of every kernel end with statuses."""

    def place(*statuses: str, **more: str) -> StandInVerifier:
        stand_in = StandInVerifier(*statuses, **more)
        monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: None)
        monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", stand_in)
        return stand_in

    return place


@pytest.fixture
def emulator(monkeypatch: pytest.MonkeyPatch) -> Verifier:
    """Puts an emulator in place, and no GPU."""

    def place(*statuses: str, **more: str) -> StandInVerifier:
        stand_in = StandInVerifier(*statuses, **more)
        monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
        monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: None)
        monkeypatch.setattr("cutegen.verbs.building.verification.verify_all", stand_in)
        return stand_in

    return place


def run(specs: Path, **options: Any) -> BuildReport:
    return build(select([specs]), Options(**{"cache": False, **options}), PlainProgress())


def test_everything_is_written_once(tmp_path: Path, compiler: Compiler) -> None:
    stand_in, specs = compiler(), project(tmp_path, "one", "two")
    report = run(specs)
    assert report.exit_code == 0 and [k.action for k in report.kernels] == ["written", "written"]
    jobs = [("one", "sm_80"), ("one", "sm_90a"), ("two", "sm_80"), ("two", "sm_90a")]
    assert [(job.kernel, job.target) for job in stand_in.jobs] == jobs
    before = snapshot(tmp_path / "generated")
    assert set(before) == {"one.py", "two.py"}
    again = run(specs)
    assert [k.action for k in again.kernels] == ["unchanged", "unchanged"]
    assert snapshot(tmp_path / "generated") == before, "a file that did not change was written"


def test_orphans_of_the_built_specs_are_removed(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "one", "two")
    put(specs)
    (specs / "two.yaml").unlink()
    (tmp_path / "generated" / "mine.py").write_text("mine = 1\n")
    report = run(specs)
    assert [path.name for path in report.removed] == ["two.py"]
    assert set(snapshot(tmp_path / "generated")) == {"one.py", "mine.py"}


def test_a_broken_spec_says_everything_and_stops_before_the_compiler(tmp_path: Path, compiler: Compiler) -> None:
    stand_in, specs = compiler(), project(tmp_path, "one", "two", "three")
    (specs / "one.yaml").write_text(spec_text("one").replace("dtype: f32", "dtype: f23", 1))
    (specs / "two.yaml").write_text(spec_text("two").replace("C = A + B", "C = A + X"))
    report = run(specs)
    assert report.exit_code == 2 and not stand_in.jobs and not (tmp_path / "generated").exists()
    assert {Path(d.path).name for d in report.diagnostics} == {"one.yaml", "two.yaml"}
    assert all(d.path in report.texts for d in report.diagnostics)


def test_two_specs_with_one_kernel_name_both_places(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "one", "two")
    (specs / "two.yaml").write_text("# a line\n" + spec_text("one"))
    report = run(specs)
    (found,) = report.diagnostics
    assert report.exit_code == 2 and found.code == "CG112"
    assert found.path.endswith("specs/two.yaml") and found.span.line == 3
    assert any("specs/one.yaml:2:9" in note for note in found.notes)


def test_an_expectation_fails_at_its_own_place(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "one")
    put(specs)
    text = spec_text("one", 'expect:\n  registers: "<= 20"\n  sass: {LDG.E.128: 1, STG: ">= 1"}\n')
    (specs / "one.yaml").write_text(text)
    before = snapshot(tmp_path)
    report = run(specs)
    assert report.exit_code == 1 and snapshot(tmp_path) == before
    places = {(d.code, d.span.line, d.span.column, d.message.split(": ")[0]) for d in report.diagnostics}
    column = text.splitlines()[-1].index('">= 1"') + 1
    assert places == {
        ("CG401", n, c, f"one on {target}")
        for target in ("sm_80", "sm_90a")
        for n, c in ((len(text.splitlines()) - 1, 14), (len(text.splitlines()), column))
    }
    registers, sass = (d for d in report.diagnostics if "sm_80" in d.message)
    assert "sm_80: registers: wanted <= 20, found 24 a thread" in registers.message
    assert "sm_80: sass['STG']: wanted >= 1, found 0" in sass.message
    assert {k.verification.why for k in report.kernels} == {"an expectation failed"}


def test_too_many_bank_clashes_have_a_way_out(tmp_path: Path, compiler: Compiler) -> None:
    sass = "        /*0000*/                   FFMA R4, R6, R8, R10 ;\n"

    def outcome(job: Job) -> Outcome:
        made = good(job)
        assert isinstance(made, Compiled)
        return replace(made, artefact=replace(made.artefact, sass=sass))

    compiler(outcome)
    specs = project(tmp_path)
    (specs / "one.yaml").write_text(spec_text("one", "expect: {bank_clashes: 0}\n"))
    found = run(specs).diagnostics
    assert [d.code for d in found] == ["CG401"] * 2 and all("layout of threads" in (d.help or "") for d in found)


@pytest.mark.parametrize("kind", ["exception", "crash", "timeout"])
def test_a_failed_compile_names_kernel_target_message_and_line(tmp_path: Path, compiler: Compiler, kind: Any) -> None:
    def outcome(job: Job) -> Outcome:
        if job.target == "sm_80":
            return good(job)
        trace = ((90, "    launch()"), (42, "    bad(x)"))
        return Failed(kind, "no such thing", 42, "    bad(x)", trace=trace, log="the last words")

    compiler(outcome)
    report = run(project(tmp_path, "one"))
    assert report.exit_code == 1 and not (tmp_path / "generated").exists()
    (found,) = report.diagnostics
    assert found.code == "CG402" and found.message == "one does not compile for sm_90a: no such thing"
    assert (found.span.line, found.span.column) == (2, 9), "no key of the line's region is written: the kernel's name"
    assert any(note.endswith("one.py:42: bad(x)") for note in found.notes) and "the last words" in found.notes
    assert report.kernels[0].action == "not written"


def test_what_nothing_ran_is_neither_green_nor_written(
    tmp_path: Path, compiler: Compiler, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler()
    monkeypatch.setattr("cutegen.verbs.building.verification.emulator_missing", lambda: "no emulator in this test")
    specs, why = project(tmp_path, "one"), "there is no GPU here (none in this test), and no emulator in this test"
    report = run(specs)
    print_build(report)
    text = capsys.readouterr()
    assert report.exit_code == 1 and not (tmp_path / "generated").exists()
    assert f"not executed ({why})" in text.out and f"one: not verified: {why}" in text.err
    assert "--no-verify" in text.err and "nothing was written" in text.err
    assert not any(word in text.out + text.err for word in ("passed", "ok", "success"))
    verification = build_json(report)["kernels"][0]["verification"]
    assert verification == {"verdict": "not executed", "why": why, "report": None}
    assert run(specs, verify=False).kernels[0].action == "written", "it was asked for"
    assert run(specs).exit_code == 0, "there is nothing to write"
    written = tmp_path / "generated" / "one.py"
    written.write_text(marked(written.read_text()))
    assert run(specs, extent=Extent(quick=True)).exit_code == 0, "nor is there then: it says itself what it is"
    assert run(specs).exit_code == 1, "the mark would go"
    assert run(project(tmp_path, "two"), compile=False).exit_code == 0, "nor is what was not compiled to be run"


def test_a_gpu_is_used_where_there_is_one(
    tmp_path: Path, compiler: Compiler, gpu: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    jobs = gpu("passed").jobs
    report = run(project(tmp_path, "one"))
    print_build(report)
    assert report.exit_code == 0 and [job.plan.spec.kernel for job in jobs] == ["one"]
    assert dict(jobs[0].plan.tile) == dict(report.kernels[0].unit.module.plan.tile)
    assert (
        "passed on gpu (Test): 1 case, 1 host check, all within bounds (largest error 0.25 of its bound)"
        in capsys.readouterr().out
    )


@pytest.mark.parametrize("status", ["failed", "not run"])
def test_a_wrong_kernel_is_not_written(tmp_path: Path, compiler: Compiler, gpu: Verifier, status: str) -> None:
    compiler()
    gpu(status)
    report = run(project(tmp_path, "one"))
    assert report.exit_code == 1 and not (tmp_path / "generated").exists()
    (found,) = report.diagnostics
    assert found.code == "CG403" and (found.span.line, found.span.column) == (2, 9)
    expected = "case tile (M 3, N 5): C[0, 1] is wrong" if status == "failed" else "not one case ran"
    assert found.notes == (expected,)


@pytest.mark.parametrize("extent", [UNTIL_FAILURE, EVERYTHING])
def test_what_the_first_failure_left_out_is_said(
    tmp_path: Path, compiler: Compiler, gpu: Verifier, extent: Extent
) -> None:
    compiler()
    jobs = gpu("failed", "not run", reason="stopped").jobs
    report = run(project(tmp_path, "one"), extent=extent)
    assert report.exit_code == 1 and [job.extent for job in jobs] == [extent]
    (found,) = report.diagnostics
    assert found.notes[1:] == ("1 case was left out after it: `--all` runs all",)
    data = build_json(report)["kernels"][0]["verification"]["report"]
    assert data["stopped"] and [case["reason"] for case in data["cases"]] == [None, "stopped"]


def test_a_module_that_was_verified_in_part_says_so_until_all_of_it_is(
    tmp_path: Path, compiler: Compiler, gpu: Verifier
) -> None:
    compiler()
    jobs, specs, quick = gpu("passed").jobs, project(tmp_path, "one", "two"), Extent(quick=True)
    (unit, _), folder = units_of(specs), tmp_path / "generated"
    first = run(specs, extent=quick)
    assert first.exit_code == 0 and {job.extent for job in jobs} == {quick}
    text = (folder / "one.py").read_text()
    assert text == marked(unit.module.text) and text.splitlines()[0].endswith("not this. Verified in part (--quick).")
    assert code_hash(text) == code_hash(unit.module.text) and text.count("\n") == unit.module.text.count("\n")
    assert first.notices == (
        f"verified in part, and marked so: one, two; `cutegen build {specs}/one.yaml {specs}/two.yaml` "
        "verifies all of it".replace(str(specs), shown(specs)),
    )
    assert {name: state.state for name, state in states_of(specs).items()} == {"one.py": "partial", "two.py": "partial"}
    for options in ({"extent": quick}, {"verify": False}, {"compile": False}):
        report = run(specs, **options)
        assert [kernel.action for kernel in report.kernels] == ["unchanged"] * 2 and report.notices == first.notices
    assert [kernel.action for kernel in run(specs).kernels] == ["written"] * 2
    assert (folder / "one.py").read_text() == unit.module.text
    report = run(specs, extent=quick)
    assert [kernel.action for kernel in report.kernels] == ["unchanged"] * 2 and not report.notices
    (specs / "one.yaml").write_text(spec_text("one").replace("A + B", "A * B"))
    report = run(specs, extent=quick)
    assert [kernel.action for kernel in report.kernels] == ["written", "unchanged"]
    (specs / "one.yaml").write_text(spec_text("one"))
    assert states_of(specs)["one.py"].state == "stale", "not edited by hand"


def test_a_part_is_called_one(
    tmp_path: Path, compiler: Compiler, gpu: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    gpu("passed", "passed", "not run", reason="in part")
    report = run(project(tmp_path, "one"), extent=Extent(quick=True))
    print_build(report)
    assert "passed in part on gpu (Test): 2 of 3 cases, 1 of 1 host check, all within bounds" in capsys.readouterr().out
    found = build_json(report)["kernels"][0]["verification"]["report"]
    assert found["in_part"] and found["ok"] and not found["complete"]


def test_flags_leave_parts_out_and_the_table_says_so(
    tmp_path: Path, compiler: Compiler, gpu: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    stand_in, jobs = compiler(), gpu("passed").jobs
    report = run(project(tmp_path, "one"), compile=False, verify=False)
    print_build(report)
    assert report.exit_code == 0 and not stand_in.jobs and not jobs
    row = capsys.readouterr().out.splitlines()[1].split("  ")
    assert [cell.strip() for cell in row if cell.strip()][1:6] == ["no", "?", "?", "?", "not executed (--no-verify)"]


def test_hand_edits_are_kept_unless_forced(tmp_path: Path, compiler: Compiler) -> None:
    stand_in, specs = compiler(), project(tmp_path, "one", "two")
    path = put(specs) / "one.py"
    path.write_text(path.read_text() + "# mine\n")
    (specs / "two.yaml").write_text(spec_text("two").replace("A + B", "A * B"))
    before = snapshot(tmp_path)
    report = run(specs)
    assert report.exit_code == 1 and snapshot(tmp_path) == before and not stand_in.jobs
    (problem,) = report.problems
    assert problem.message.endswith("one.py: it was edited by hand")
    assert problem.help and "--diff" in problem.help and "--force" in problem.help
    assert run(specs, force=True).exit_code == 0
    assert "# mine" not in path.read_text()


def test_a_foreign_file_is_not_overwritten_even_if_forced(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "one", "two")
    (tmp_path / "generated").mkdir()
    (tmp_path / "generated" / "one.py").write_text("mine = 1\n")
    before = snapshot(tmp_path)
    assert run(specs, force=True).exit_code == 1 and snapshot(tmp_path) == before


def test_what_appears_during_the_compile_is_not_overwritten(tmp_path: Path, compiler: Compiler) -> None:
    specs = project(tmp_path, "one")

    def outcome(job: Job) -> Outcome:
        (tmp_path / "generated").mkdir(exist_ok=True)
        (tmp_path / "generated" / "one.py").write_text("mine = 1\n")
        return good(job)

    compiler(outcome)
    assert run(specs).exit_code == 1
    assert (tmp_path / "generated" / "one.py").read_text() == "mine = 1\n"


def test_a_disk_that_fails_midway_leaves_everything_as_it_was(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    compiler()
    specs = project(tmp_path, "one", "two", "three")
    put(specs)
    for name in ("one", "two", "three"):
        (specs / f"{name}.yaml").write_text(spec_text(name).replace("A + B", "A * B"))
    before, calls = snapshot(tmp_path), 0
    real = build_module.write_all.__globals__["os"].replace

    def full(*args: Any) -> None:
        nonlocal calls
        calls += 1
        if calls == 2:
            raise OSError(28, "No space left on device", str(args[1]))
        real(*args)

    with monkeypatch.context() as patch:
        patch.setattr("os.replace", full)
        report = run(specs)
    assert report.exit_code == 2 and "No space left" in report.problems[0].message and snapshot(tmp_path) == before
    assert {k.action for k in report.kernels} == {"not written"}


def test_a_folder_that_cannot_be_written_is_refused_before_the_compile(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    stand_in, specs = compiler(), project(tmp_path, "one")
    (tmp_path / "generated").mkdir()
    monkeypatch.setattr("os.access", lambda path, mode: not str(path).endswith("generated"))
    report = run(specs)
    assert report.exit_code == 2 and not stand_in.jobs and "cannot be written to" in report.problems[0].message


def test_a_file_where_the_folder_should_be(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "one")
    (tmp_path / "generated").write_text("")
    report = run(specs)
    assert report.exit_code == 2 and "generated is not a folder" in report.problems[0].message


def test_no_compiler_process_at_all(tmp_path: Path, compiler: Compiler) -> None:
    def outcome(job: Job) -> Outcome:
        raise OSError(12, "Cannot allocate memory")

    compiler(outcome)
    report = run(project(tmp_path, "one"))
    assert report.exit_code == 1 and "Cannot allocate memory" in report.problems[0].message
    assert not (tmp_path / "generated").exists()


def test_a_matrix_writes_all_or_none(tmp_path: Path, compiler: Compiler) -> None:
    specs = project(tmp_path)
    text = spec_text("add_{d}", "matrix:\n  d: [f32, f16]\n").replace("dtype: f32", 'dtype: "{d}"')
    (specs / "add.yaml").write_text(text)
    compiler(lambda job: good(job) if job.kernel == "add_f32" else Failed("crash", "gone"))
    assert run(specs).exit_code == 1 and not (tmp_path / "generated").exists()
    compiler()
    assert run(specs).exit_code == 0
    assert set(snapshot(tmp_path / "generated")) == {"add_f32.py", "add_f16.py"}


def test_without_a_gpu_kernels_run_on_the_emulator(
    tmp_path: Path, compiler: Compiler, emulator: Verifier, capsys: pytest.CaptureFixture[str]
) -> None:
    compiler()
    stand_in = emulator("passed", "passed", "not run", message="9000000 elements", reason="too large")
    report = run(project(tmp_path, "one", "two"))
    print_build(report)
    text = capsys.readouterr()
    assert report.exit_code == 0 and [job.on for job in stand_in.jobs] == ["cpu", "cpu"]
    assert stand_in.workers == [len(os.sched_getaffinity(0))]
    assert (
        "passed on cpu (emulator): 2 cases (1 in 3 orders), 1 host check, "
        "all within bounds (largest error 0.25 of its bound), 1 too large" in text.out
    )
    assert "there is no GPU here (none in this test): kernels run on the CPU emulator" in text.err
    assert text.err.count("on cpu (emulator), 2/3 cases (1 in 3 orders)") == 2, "a line as each kernel ends"
    run(tmp_path / "specs", jobs=7)
    assert stand_in.workers[-1] == 7


def test_a_wrong_result_on_the_emulator_stops_the_build(tmp_path: Path, compiler: Compiler, emulator: Verifier) -> None:
    compiler()
    emulator("passed", "failed")
    report = run(project(tmp_path, "one"))
    assert report.exit_code == 1 and not (tmp_path / "generated").exists()
    assert [d.code for d in report.diagnostics] == ["CG403"] and "cpu (emulator)" in report.diagnostics[0].message


@pytest.mark.parametrize(
    ("statuses", "more", "why"),
    [
        (("not run", "not run"), {"error": "PTX line 3: x is not emulated", "reason": "cannot run"},
         "PTX line 3: x is not emulated"),
        (("not run",), {"message": "9000000 elements", "reason": "too large"},
         "every case is too large: 9000000 elements"),
        (("not run",), {"error": "no executor: ImportError: no numpy", "reason": "no executor"},
         "no executor: ImportError: no numpy"),
    ],
    ids=["instruction", "size", "executor"],
)  # fmt: skip
def test_what_the_emulator_cannot_run_is_neither_right_nor_wrong(
    tmp_path: Path,
    compiler: Compiler,
    emulator: Verifier,
    capsys: pytest.CaptureFixture[str],
    statuses: tuple[str, ...],
    more: dict[str, str],
    why: str,
) -> None:
    compiler()
    emulator(*statuses, **more)
    report = run(project(tmp_path, "one"))
    print_build(report)
    text = capsys.readouterr()
    assert report.exit_code == 1 and report.kernels[0].verification.verdict == "not executed"
    assert not (tmp_path / "generated").exists() and f"one: not verified: {why}" in text.err
    assert f"not executed ({why}" in text.out and f"one was not executed: {why}" in text.err
    assert "not executed: one on cpu" in text.err and "ok one" not in text.err


@pytest.mark.parametrize("status", ["passed", "failed"])
def test_what_cannot_run_hides_nothing_that_did(
    tmp_path: Path, compiler: Compiler, emulator: Verifier, status: str
) -> None:
    compiler()
    emulator(status, "not run", error="PTX line 3: x is not emulated", reason="cannot run")
    report = run(project(tmp_path, "one"))
    assert report.exit_code == 1 and "PTX line 3: x is not emulated" in report.diagnostics[0].notes


def test_a_report_says_nothing_only_if_nothing_in_it_does() -> None:
    case = Case("a", "why", {})
    large = CaseReport.of(case, "not run", "100 elements", "too large")
    report = KernelReport("one", "one.py", "cpu (emulator)", (large, large))
    assert checks.why_unexecuted(report) == "every case is too large: 100 elements"
    accepted = HostCheck("a", "is refused", "failed", "it was taken")
    refused = replace(accepted, status="passed")
    assert checks.why_unexecuted(replace(report, host_checks=(refused,)))
    for more in (
        {"host_checks": (accepted,)},
        {"cases": (large, CaseReport.of(case, "passed"))},
        {"cases": (large, CaseReport.of(case, "failed", "C[0] is 1"))},
        {"error": "the device stopped answering", "reason": "device lost"},
        {"error": "exit status 1", "reason": "process ended"},
        {"cases": (), "error": "it does not load", "reason": "not loaded"},
        {"cases": ()},
    ):
        assert checks.why_unexecuted(replace(report, **more)) == ""  # type: ignore[arg-type]


@pytest.mark.parametrize("lacking", ["torch", "cutlass", "numpy"])
def test_the_emulator_is_here_and_says_what_it_lacks(lacking: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert checks.emulator_missing() is None
    monkeypatch.setitem(sys.modules, lacking, None)  # type: ignore[arg-type]
    assert checks.emulator_missing() == f"the package {lacking} is not installed"


def test_a_build_imports_no_emulator_to_see_that_it_is_here() -> None:
    code = (
        "import sys; from cutegen.verbs.building import build, verification as v; assert v.emulator_missing() is None; "
    )
    code += "print(sorted({'numpy', 'torch', 'cutegen.emulator.host.modules'} & sys.modules.keys()))"
    found = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert found.stdout == "[]\n"


def test_the_core_is_compiled_once_the_specs_are_read_beside_the_kernels(
    tmp_path: Path, compiler: Compiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs, begun = project(tmp_path, "fine"), []
    monkeypatch.setattr(build_module, "gather", lambda *a, **more: begun.append("specs") or gather(*a, **more))
    monkeypatch.setattr(build_module, "compile_beside", lambda: begun.append("core"))
    compiler(lambda job: begun.append("kernel") or good(job))  # type: ignore[func-returns-value]
    assert run(specs).exit_code == 0
    assert begun == ["specs", "core", "kernel", "kernel"]  # for two targets


def test_each_kernel_says_what_stopped_it(tmp_path: Path, compiler: Compiler) -> None:
    specs = project(tmp_path, "expects", "fine", "fails")
    (specs / "expects.yaml").write_text(spec_text("expects", "expect: {registers: 1}\n"))
    compiler(lambda job: Failed("crash", "gone") if job.kernel == "fails" else good(job))
    whys = {k.unit.kernel: k.verification.why for k in run(specs).kernels}
    assert whys == {
        "expects": "an expectation failed",
        "fine": "the build stopped before",
        "fails": "the compile failed",
    }


def test_spills_are_shown_and_named_where_they_are_not_wanted(
    tmp_path: Path, compiler: Compiler, capsys: pytest.CaptureFixture[str]
) -> None:
    def outcome(job: Job) -> Outcome:
        spilt = (8, 8) if job.target == "sm_80" else (0, 0)
        return Compiled(Artefact(job.kernel, job.target, "", b"", "", Resources(24, *spilt, 0, 0)), 0.1, cached=False)

    compiler(outcome)
    specs = project(tmp_path, "one")
    report = run(specs)
    print_build(report)
    head, row = capsys.readouterr().out.splitlines()
    assert row[head.index("spills") :].startswith("16 B ") and build_json(report)["kernels"][0]["spills"] == 16
    (specs / "one.yaml").write_text(spec_text("one", "expect: {spills: 0}\n"))
    (found,) = run(specs).diagnostics
    assert "one on sm_80: spills: wanted 0, found 16 bytes a thread" in found.message


def test_only_what_is_compiled_is_counted(
    tmp_path: Path, compiler: Compiler, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))
    specs = project(tmp_path, "one", "two")
    first = Job(units_of(specs)[0].module.text, "one", "sm_80")
    made = good(first)
    assert isinstance(made, Compiled) and Cache().put(first, made.artefact)
    stand_in = compiler()
    report = run(specs, cache=True)
    assert "compiling: 3\n" in capsys.readouterr().err
    assert [(j.kernel, j.target) for j in stand_in.jobs] == [("one", "sm_90a"), ("two", "sm_80"), ("two", "sm_90a")]
    cached = {(k.unit.kernel, t): getattr(o, "cached", None) for k in report.kernels for t, o in k.outcomes.items()}
    assert [key for key, hit in cached.items() if hit] == [("one", "sm_80")] and len(cached) == 4
    for job in stand_in.jobs:
        made = good(job)
        assert isinstance(made, Compiled) and Cache().put(job, made.artefact)
    run(specs, cache=True)
    assert "compiling" not in capsys.readouterr().err and len(stand_in.jobs) == 3


def test_names_that_differ_only_in_case_are_refused(tmp_path: Path, compiler: Compiler) -> None:
    compiler()
    specs = project(tmp_path, "p1")
    (specs / "other.yaml").write_text(spec_text("P1"))
    report = run(specs)
    (found,) = report.diagnostics
    assert report.exit_code == 2 and found.code == "CG112" and not (tmp_path / "generated").exists()
    assert "only in case" in found.message and any("disks that ignore case" in note for note in found.notes)
