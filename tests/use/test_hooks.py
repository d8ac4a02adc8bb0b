"""The pre-commit hooks and the action for GitHub, run as their tools would in another repository; and completion."""

from __future__ import annotations

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from click.testing import CliRunner

from cutegen.cli import cli
from cutegen.project.starter import starter_text

ROOT = Path(__file__).parents[2]
GOOD, BAD = starter_text("add", "elementwise", None), "cutegen: 1\nkernel: broken\nop: elementwise\n"


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Another project, with a spec and the module that a build without a compiler writes for it."""
    folder = tmp_path_factory.mktemp("built")
    (folder / ".git").mkdir()
    (folder / "specs").mkdir()
    (folder / "specs" / "add.yaml").write_text(GOOD)
    assert run(folder, [*CUTEGEN, "build", "--no-compile", "specs"]).returncode == 0
    return folder


@pytest.fixture
def repository(built: Path, tmp_path: Path) -> Path:
    """A copy of that project, which a test may change."""
    shutil.copytree(built, tmp_path, dirs_exist_ok=True)
    return tmp_path


CUTEGEN = [sys.executable, "-m", "cutegen"]


def run(folder: Path, command: list[str], **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **more})


def hook(folder: Path, name: str) -> subprocess.CompletedProcess[str]:
    """A hook, called with the files that it asks for, as pre-commit does."""
    (found,) = (one for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text()) if one["id"] == name)
    command = shlex.split(found["entry"])
    assert command[0] == "cutegen" and found["language"] == ("system" if name.endswith("-system") else "python")
    files = sorted(p.relative_to(folder).as_posix() for p in folder.rglob("*") if p.is_file() and ".git/" not in str(p))
    files = [file for file in files if re.search(found["files"], file)]
    assert files
    return run(
        folder, [*CUTEGEN, *command[1:], *found.get("args", []), *(files if found.get("pass_filenames", True) else [])]
    )


@pytest.mark.parametrize("where", ["", "-system"])
def test_hooks_pass_and_find(repository: Path, where: str) -> None:
    assert [hook(repository, f"{name}{where}").returncode for name in ("cutegen-lint", "cutegen-check")] == [0, 0]
    (repository / "generated" / "add.py").write_text("# by hand\n")
    found = hook(repository, f"cutegen-check{where}")
    assert found.returncode == 1 and "generated/add.py" in found.stdout + found.stderr
    (repository / "specs" / "broken.yaml").write_text(BAD)
    found = hook(repository, f"cutegen-lint{where}")
    assert found.returncode == 2 and "specs/broken.yaml" in found.stdout


def action(folder: Path, **inputs: str) -> list[subprocess.CompletedProcess[str]]:
    """The steps of the action, as a runner would run them; the first that fails is the last."""
    data: dict[str, Any] = yaml.safe_load((ROOT / "action.yml").read_text())
    given = {name: one["default"] for name, one in data["inputs"].items()} | inputs
    (folder / "bin").mkdir(exist_ok=True)
    (folder / "bin" / "cutegen").write_text(f'#!/bin/sh\nexec {shlex.join(CUTEGEN)} "$@"\n')
    (folder / "bin" / "cutegen").chmod(0o755)
    done = []
    for step in data["runs"]["steps"]:
        name, _, value = step.get("if", "").partition(" ")
        operator, wanted = value[:2], value[4:-1]
        if name and (given[name.removeprefix("inputs.")] == wanted) != (operator == "=="):
            continue
        known = {f"inputs.{key}": value for key, value in given.items()} | {"github.action_path": str(ROOT)}
        env = {key: known[text.removeprefix("${{ ").removesuffix(" }}")] for key, text in step["env"].items()}
        path = f"{folder / 'bin'}:{os.environ['PATH']}"
        done.append(run(folder, ["bash", "-eo", "pipefail", "-c", step["run"]], **env, PATH=path))
        if done[-1].returncode:
            break
    return done


def test_the_action_passes_and_finds(repository: Path) -> None:
    assert [step.returncode for step in action(repository, version="none")] == [0, 0]
    (repository / "specs" / "broken.yaml").write_text(BAD)
    (found,) = action(repository, version="none", sarif="found.sarif", strict="true")
    assert found.returncode == 2 and found.stdout.startswith("::error file=specs/broken.yaml,line=1,")
    log = json.loads((repository / "found.sarif").read_text())
    assert {one["level"] for one in log["runs"][0]["results"]} == {"error"}
    (repository / "specs" / "broken.yaml").unlink()
    (repository / "generated" / "add.py").write_text("# by hand\n")
    assert [step.returncode for step in action(repository, version="none")] == [0, 1]
    assert [step.returncode for step in action(repository, version="none", check="false")] == [0]


@pytest.mark.parametrize(("version", "installed"), [("", str(ROOT)), ("cutegen==0.1.0", "cutegen==0.1.0")])
def test_the_action_installs_its_own_version_or_another(repository: Path, version: str, installed: str) -> None:
    (repository / "bin").mkdir()
    (repository / "bin" / "python").write_text('#!/bin/sh\necho "$@"\nexit 3\n')  # in the place of a network
    (repository / "bin" / "python").chmod(0o755)
    (found,) = action(repository, version=version)
    assert (found.returncode, found.stdout) == (3, f"-m pip install {installed}\n")


def test_the_page_has_the_hooks_and_inputs_that_there_are() -> None:
    page = (ROOT / "docs" / "ci.md").read_text()
    hooks = {one["id"] for one in yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text())}
    assert hooks == {
        name for name in re.findall(r"[`:] ?(cutegen-[a-z-]+)", page) if name in page and name != "cutegen-"
    }
    inputs = yaml.safe_load((ROOT / "action.yml").read_text())["inputs"]
    rows = re.findall(r"^\| `(\w+)` \| .+ \| (.+) \|$", page, re.MULTILINE)
    assert {name for name, _ in rows} == set(inputs)
    assert all(default.strip('`"') == inputs[name]["default"] for name, default in rows if default.startswith("`"))
    for text in re.findall(
        r"^```yaml title=\"\.github/workflows/\w+\.yaml\"\n(.*?)^```$", page, re.MULTILINE | re.DOTALL
    ):
        (job,) = yaml.safe_load(text)["jobs"].values()
        assert all(set(step["with"]) <= set(inputs) for step in job["steps"] if "cutegen@" in step.get("uses", ""))


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_shells_are_told_how_to_complete(shell: str) -> None:
    found = CliRunner().invoke(cli, ["completion", shell])
    assert found.exit_code == 0 and f"_CUTEGEN_COMPLETE={shell}_complete" in found.output


def completed(folder: Path, words: str) -> list[str]:
    """The completions for words whose last one is incomplete, a type and a value each."""
    env = {"_CUTEGEN_COMPLETE": "bash_complete", "COMP_WORDS": words, "COMP_CWORD": str(words.count(" "))}
    env["PYTHONPATH"] = str(ROOT)
    code = "import sys; sys.argv = ['cutegen']; from cutegen.cli import main; main()"
    return run(folder, [sys.executable, "-c", code], **env).stdout.split()


def test_verbs_flags_and_specs_complete(repository: Path) -> None:
    assert "plain,inspect" in completed(repository, "cutegen ins")
    assert "plain,--format" in completed(repository, "cutegen lint --form")
    (repository / "specs" / "NOTES.md").touch()
    (repository / "specs" / ".cutegen.schema.json").touch()
    for verb in ("lint", "verify --on cpu", "explain"):
        assert completed(repository, f"cutegen {verb} specs/") == ["plain,specs/add.yaml"]
    (repository / "specs" / "more").mkdir()  # behind which a shell goes on itself
    for words in ("specs/", "sp"):
        assert completed(repository, f"cutegen lint {words}") == [f"file,{words}"]
