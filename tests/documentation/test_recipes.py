"""The recipes: their specs are good, their commands print what is shown, and their Python gives what torch gives.

Each run of the tests generates all specs and runs the commands that compile nothing. The sweep runs the other commands,
verifies every spec, and runs the Python on the emulator.
"""

from __future__ import annotations

import ast
import builtins
import json
import re
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from making.blocks import Block, blocks_of
from making.recipes import FOLDER, PAGES
from pages_kit import assert_prints, commands, write_file

from cutegen.cli import cli
from cutegen.codegen import generate
from cutegen.differentiation import buildable
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs

COMPILING = re.compile(r"^\$ cutegen (?!build (?:--check|.*--no-compile))(build|verify|inspect|run|export|tune) ", re.M)
OF_THE_SWEEP = "linear_any"  # a gemm without a schedule, which takes two seconds; other tests read such specs
FAULTY = {"specs/mistakes.yaml", "specs/slow.yaml"}  # to show what is said of them
NOT_EMULATED = ("CUDAGraph", '"cuda:1"')
SAID = re.compile(r"  # (torch:|gives|raises) (.+)$")


def pages() -> Iterator[Path]:
    return (FOLDER / f"{page}.md" for page in PAGES)


def all_blocks() -> list[Block]:
    return [block for page in pages() for block in blocks_of(page.read_text(encoding="utf-8"))]


def specs() -> list[Block]:
    return [block for block in all_blocks() if block.title.endswith(".yaml") and block.title not in FAULTY]


def recipes() -> dict[str, str]:
    """The text of each recipe by its question."""
    parts = [part for page in pages() for part in re.split("^## ", page.read_text(encoding="utf-8"), flags=re.M)[1:]]
    return {part.partition("\n")[0]: part.partition("\n")[2] for part in parts}


def python() -> list[Any]:
    """The code of each recipe that the emulator runs."""
    found = []
    for question, text in recipes().items():
        for block in blocks_of(text):
            left_out = block.title or any(word in block.text for word in NOT_EMULATED)
            if block.language == "python" and not left_out:
                found.append(pytest.param(block.text, id=question))
    return found


def beside(spec: Block) -> tuple[KernelSpec, ...]:
    """The specs of the gradient that a spec names: the one that a recipe shows, or those that its command writes."""
    names = read_specs(spec.text)[0].torch.backward
    if not names:
        return ()
    shown = [pair for block in all_blocks() if block.language == "console" for pair in commands(block.text)]
    if len(names) == 1:
        (found,) = ("\n".join(lines) for _, lines in shown if f"kernel: {names[0]}" in lines)
        return read_specs(found)
    (command,) = (command for command, _ in shown if command.startswith(f"cutegen grad {spec.title} "))
    of_outputs = re.findall(r" --of (\w+)", command)
    return buildable(read_specs(spec.text)[0], of_outputs=of_outputs).made.specs


def run_commands(folder: Path, sweep: bool) -> int:
    """Runs the blocks of commands in order, those of the sweep or all others. Returns how many commands ran."""
    count = 0
    for block in all_blocks():
        if block.title:
            write_file(block, folder)
            continue
        late = OF_THE_SWEEP in block.text or COMPILING.search(block.text) is not None
        if block.language == "console" and late == sweep:
            for command, lines in commands(block.text):
                assert_prints(command, lines, folder)
                count += 1
    return count


def test_recipes_answer_questions_in_a_few_lines() -> None:
    found = recipes()
    assert len(found) >= 40
    for question, text in found.items():
        prose = re.sub(r"^```.*?^```$|^\|[^\n]*$", "", text, flags=re.MULTILINE | re.DOTALL)
        assert re.fullmatch(r"(How|Why) .+\?", question) and len(prose.split()) < 140, question
    names = [block.title for block in all_blocks() if block.title]
    assert len(names) == len(set(names)) > 35


@pytest.mark.parametrize("spec", [s for s in specs() if OF_THE_SWEEP not in s.title], ids=lambda spec: spec.title)
def test_a_spec_is_good_and_gets_no_advice(spec: Block) -> None:
    generated = generate(spec.text, spec.title, performance=True, beside=beside(spec))
    assert generated.modules and not generated.warnings


def test_python_is_compared_with_torch() -> None:
    """Every example says what comes of at least one line, and names kernels that recipes have."""
    kernels = {line.removeprefix("kernel: ") for spec in specs() for line in spec.text.splitlines()}
    kernels |= {"scaled_bf16", "scaled_f32", "swiglu_halves_bwd"}  # of a matrix, and written by `cutegen grad`
    codes = [parameter.values[0] for parameter in python()]
    assert len(codes) > 35
    for code in codes:
        assert any(SAID.search(line) for line in code.splitlines()), code
        imported = re.findall(r"^(?:from|import) (\w+)", code, re.M)
        assert set(imported) - {"cutegen"} <= kernels, code


def test_commands_that_compile_nothing_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert run_commands(tmp_path, sweep=False) > 8


@pytest.mark.sweep
def test_commands_that_compile_print_what_is_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("cutlass")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / ".cutegen-cache"))
    monkeypatch.setattr("cutegen.verification.gpu_missing", lambda: "none in this test")
    assert run_commands(tmp_path, sweep=True) > 8


@pytest.fixture(scope="module")
def project(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with all specs, those that `cutegen grad` writes too, and their modules, none of them compiled."""
    folder = tmp_path_factory.mktemp("recipes")
    (folder / "pyproject.toml").touch()
    for spec in specs():
        write_file(spec, folder)
    with pytest.MonkeyPatch.context() as patch:
        patch.chdir(folder)
        for block in all_blocks():
            for command, _ in commands(block.text) if block.language == "console" else ():
                if command.startswith("cutegen grad") and "-o" in command:
                    assert CliRunner().invoke(cli, command.split()[1:]).exit_code == 0
        assert CliRunner().invoke(cli, ["build", "specs", "--no-compile"]).exit_code == 0
    return folder


@pytest.mark.sweep
def test_every_spec_passes_verification(project: Path) -> None:
    pytest.importorskip("cutlass")
    done = CliRunner().invoke(cli, ["verify", str(project / "specs"), "--on", "cpu", "--format", "json"])
    verdicts = {one["kernel"]: one["verification"]["verdict"] for one in json.loads(done.stdout)["kernels"]}
    assert done.exit_code == 0 and len(verdicts) > 40 and set(verdicts.values()) == {"passed"}


@pytest.mark.sweep
@pytest.mark.parametrize("code", python())
def test_python_gives_what_torch_gives(code: str, project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    torch = pytest.importorskip("torch")
    pytest.importorskip("cutlass")
    from cutegen import emulator

    monkeypatch.syspath_prepend(project / "generated")
    kernels = {file.stem for file in (project / "generated").glob("*.py")}
    names: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    ops = "torch.ops" in code  # which take tensors of the CPU, where the emulator is installed
    code = code.replace(', device="cuda"', "") if ops else code
    with nullcontext() if ops or "emulator.install" in code else emulator.emulating("sm_90a") as emulation:
        torch.manual_seed(0)
        for node in ast.parse(code).body:
            said = SAID.search(code.splitlines()[(node.end_lineno or 0) - 1])
            run_statement(node, names, *(said.groups() if said else ("", "")))
            for kernel in kernels & {*sys.modules} if ops and isinstance(node, ast.Import) else ():
                emulator.install(sys.modules[kernel], kernel)
    assert emulation is None or not emulation.faults
    for kernel in kernels & {*sys.modules}:
        del sys.modules[kernel]


def run_statement(node: ast.stmt, names: dict[str, Any], kind: str, wanted: str) -> None:
    """Runs a statement, of which the comment behind it says what it gives, or with which error it ends."""
    if kind == "raises":
        error, _, message = wanted.partition(": ")
        with pytest.raises(getattr(builtins, error), match=re.escape(message)):
            run_statement(node, names, "", "")
    elif isinstance(node, ast.Expr):
        holds(eval(compile(ast.Expression(node.value), "recipe", "eval"), names), names, kind, wanted)
    else:
        exec(compile(ast.Module([node], []), "recipe", "exec"), names)
        if kind:
            assert isinstance(node, ast.Assign)
            target = node.targets[0].elts[-1] if isinstance(node.targets[0], ast.Tuple) else node.targets[0]
            holds(names[ast.unparse(target)], names, kind, wanted)


def holds(got: Any, names: dict[str, Any], kind: str, wanted: str) -> None:
    """Asserts that a value is what a comment says."""
    torch = names["torch"]
    if kind == "gives":
        assert repr(got) == wanted
    elif kind == "torch:":
        expected = eval(wanted, names)
        assert got.shape == expected.shape and got.is_floating_point() == expected.is_floating_point()
        torch.testing.assert_close(got.cpu().double(), expected.cpu().double(), rtol=0.02, atol=0.02)
