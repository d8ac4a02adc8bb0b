"""The modules of `specs/`: well-formed, standalone, and what is committed in `generated/`."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import pytest
from building_kit import states_of
from specs_kit import ROOT, kernels_of_specs, modules_of_specs
from sweep_kit import sampled

from compiling_kit import Compiler
from cutegen.compiling import Compiled, Job
from cutegen.sass.expectations import check
from cutegen.codegen.formatting import WIDTH
from cutegen.language.model import Expect

KERNELS = kernels_of_specs()
ALLOWED = set(sys.stdlib_module_names) | {"torch", "cutlass", "cuda", "tvm_ffi"}


def test_there_are_specs() -> None:
    """The modules of these tests are those that are committed, which `build --check` holds to what `build` makes."""
    committed = {path.stem: path.read_text(encoding="utf-8") for path in (ROOT / "generated").glob("*.py")}
    assert committed == {kernel: module.text for kernel, module in modules_of_specs().items() if module.spec.has_module}
    assert list(modules_of_specs()) == KERNELS
    assert len(KERNELS) >= 19 and {"sgemm_mmajor", "copy_tv", "sgemm_mnm"} <= set(KERNELS)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_module_stands_alone(kernel: str) -> None:
    tree = ast.parse(modules_of_specs()[kernel].text)
    imported = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            imported |= {alias.name.partition(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0
            imported.add(str(node.module).partition(".")[0])
    assert imported <= ALLOWED, imported - ALLOWED
    defined = {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}
    assert {kernel, "reference", "make_inputs", "make_outputs", "compile_for"} <= defined


def test_modules_are_clean_and_formatted_by_ruff(tmp_path: Path) -> None:
    for module in modules_of_specs().values():
        (tmp_path / module.name).write_text(module.text, encoding="utf-8")
    for command in (("check",), ("format", "--check", "--diff")):
        options = ["--isolated", "--no-cache", "--config", f"line-length={WIDTH}"]
        arguments = [sys.executable, "-m", "ruff", *command, *options, "."]
        result = subprocess.run(arguments, cwd=tmp_path, capture_output=True, text=True)
        assert result.returncode == 0, result.stdout[-4000:] + result.stderr[-1000:]


def test_generated_is_what_the_specs_stand_for() -> None:
    states = states_of(ROOT / "specs")
    wrong = {name: f"{state.state}: {state.why}" for name, state in states.items() if state.state != "current"}
    assert not wrong, f"run `cutegen build specs/`: {wrong}"
    assert set(states) == {module.name for module in modules_of_specs().values() if module.spec.has_module}


@pytest.mark.parametrize("part", sampled(range(12), 12))
def test_expectations_are_met_on_every_target(part: int, compiler: Compiler) -> None:
    """That the others compile too is for `cutegen verify` to see."""
    specs = {kernel: module.spec for kernel, module in modules_of_specs().items() if module.spec.expect != Expect()}
    jobs = [Job(modules_of_specs()[kernel].text, kernel, target) for kernel, spec in specs.items() for target in spec.targets]
    assert len(jobs) > 20
    jobs = jobs[part::12]
    for job, outcome in zip(jobs, compiler(jobs), strict=True):
        assert isinstance(outcome, Compiled), f"{job.kernel} for {job.target}: {outcome}"
        assert f".target {job.target}" in outcome.artefact.ptx
        assert not check(modules_of_specs()[job.kernel].spec.expect, outcome.artefact)
