"""The key `modules`: which kernels of a matrix have files, from the spec to the folder of modules."""

from __future__ import annotations

from pathlib import Path

import pytest
from building_kit import StandInCompiler, project, snapshot, spec_text, states_of, units_of
from receipts_kit import MACHINE, measured, put_receipt, result

from cutegen.codegen import generate
from cutegen.console import PlainProgress
from cutegen.language.diagnostics import SpecError
from cutegen.language.reader import read_specs
from cutegen.project.selection import select
from cutegen.receipts.beside_modules import receipt_states
from cutegen.receipts.write import record_measured
from cutegen.verbs.building.build import BuildReport, Options, build

MATRIX = spec_text("add_{t}", "matrix: {t: [f32, f16, bf16]}\n").replace("dtype: f32", 'dtype: "{t}"')
SOME = f"{MATRIX}modules: [add_f32, add_bf16]\n"


def write(folder: Path, text: str) -> Path:
    """A project with one spec, which has this text."""
    specs = project(folder)
    (specs / "add.yaml").write_text(text)
    return specs


def run(specs: Path) -> BuildReport:
    return build(select([specs]), Options(cache=False, verify=False), PlainProgress())


@pytest.fixture
def compiler(monkeypatch: pytest.MonkeyPatch) -> StandInCompiler:
    stand_in = StandInCompiler()
    monkeypatch.setattr("cutegen.verbs.building.compilation.compile_all", stand_in)
    return stand_in


def test_every_kernel_is_read_and_those_that_are_named_have_modules() -> None:
    assert [(s.kernel, s.has_module) for s in read_specs(SOME)] == [
        ("add_f32", True),
        ("add_f16", False),
        ("add_bf16", True),
    ]
    assert all(spec.has_module for spec in read_specs(MATRIX))
    marks = {module.spec.kernel: module.spec.has_module for module in generate(SOME, "specs/add.yaml").modules}
    assert marks == {"add_f32": True, "add_f16": False, "add_bf16": True}


def test_kernels_that_differ_in_name_only_keep_their_marks() -> None:
    alike = spec_text("add_{t}", "matrix: {t: [a, b]}\nmodules: [add_b]\n")
    assert [module.spec.has_module for module in generate(alike, "specs/add.yaml").modules] == [False, True]


def test_each_document_names_its_own_kernels() -> None:
    text = f"{spec_text('one')}modules: [one]\n---\n{spec_text('two')}"
    assert [spec.has_module for spec in read_specs(text)] == [True, True]
    with pytest.raises(SpecError, match="CG142"):
        read_specs(text.replace("modules: [one]", "modules: [two]"))


def test_names_are_not_judged_while_kernels_are_missing() -> None:
    with pytest.raises(SpecError) as caught:
        read_specs(SOME.replace("[f32, f16, bf16]", "[f33, f16, bf16]"))
    assert [d.code for d in caught.value.diagnostics] == ["CG104"] * 3, "`f33` for each tensor, and nothing else"


def test_only_what_has_a_module_is_built(tmp_path: Path, compiler: StandInCompiler) -> None:
    specs = write(tmp_path, MATRIX)
    run(specs)
    compiler.jobs.clear()
    (specs / "add.yaml").write_text(SOME)
    report = run(specs)
    assert report.exit_code == 0, report
    assert {job.kernel for job in compiler.jobs} == {"add_f32", "add_bf16"} == {k.unit.kernel for k in report.kernels}
    assert [path.name for path in report.removed] == ["add_f16.py"]
    assert set(snapshot(tmp_path / "generated")) == {"add_f32.py", "add_bf16.py"}
    assert [notice for notice in report.notices if "add_f16" in notice and "cutegen verify" in notice]


def test_a_module_that_is_left_out_is_orphaned_and_not_missing(tmp_path: Path, compiler: StandInCompiler) -> None:
    specs = write(tmp_path, SOME)
    assert {name: state.state for name, state in states_of(specs).items()} == {
        "add_f32.py": "missing",
        "add_bf16.py": "missing",
    }
    (specs / "add.yaml").write_text(MATRIX)
    run(specs)
    (specs / "add.yaml").write_text(SOME)
    state = states_of(specs)["add_f16.py"]
    assert (state.state, state.wanted) == ("orphaned", None)
    assert state.why == "`modules` of specs/add.yaml does not name it"


def test_its_receipt_goes_too_and_none_is_written(tmp_path: Path, compiler: StandInCompiler) -> None:
    specs = write(tmp_path, SOME)
    unit = next(unit for unit in units_of(specs) if unit.kernel == "add_f16")
    recorded = record_measured(MACHINE, [(unit, result(unit, measured({"M": 1, "N": 1})))])
    assert (recorded.written, recorded.problems) == ((), ())
    assert "add_f16: nothing was recorded" in recorded.notices[0]
    path = put_receipt(unit)
    (state,) = receipt_states(units_of(specs), select([specs]).scopes)
    assert (state.state, state.why) == ("orphaned", "`modules` of specs/add.yaml does not name it")
    report = run(specs)
    assert path in report.removed and not path.exists()
    assert not any("not of this code" in notice for notice in report.notices), report.notices


def test_a_gradient_without_a_module_is_refused() -> None:
    forward = spec_text("scale").replace("C = A + B", "C = A * B")
    forward += 'torch: {op: "mylib::scale", backward: scale_bwd_x}\n'
    tensors = "  dC: {shape: [M, N], dtype: f32, major: N, align: 16}\n"
    backward = spec_text("scale_bwd_{v}").replace("  C: {", f"{tensors}  dA: {{").replace("C = A + B", "dA = dC * B")
    backward = "\n".join(line for line in backward.splitlines() if not line.startswith("  A:")) + "\n"
    backward += 'matrix: {v: [x, y]}\ntorch: {op: "mylib::scale_bwd_{v}"}\n'
    generate(forward, "specs/scale.yaml", beside=read_specs(backward))
    with pytest.raises(SpecError, match="it has no module"):
        generate(forward, "specs/scale.yaml", beside=read_specs(f"{backward}modules: [scale_bwd_y]\n"))
