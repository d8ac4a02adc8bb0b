"""`cutegen verify --with`, from a spec to the table, with a wheel that passes for another release of the compiler."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from wheels import offline, write_compiler, write_wheel

from cutegen.cli import cli
from cutegen.verbs.upgrading import remote

__all__ = ["offline"]
SPEC = """cutegen: 1
kernel: {name}
op: elementwise
tensors:
  X: {{shape: [N], dtype: f32}}
  Y: {{shape: [N], dtype: f32, role: out}}
compute: Y = {value}
schedule: {{threads: 32}}
targets: [sm_80]
"""
CHANGE = """
import cutlass.cute.math
real = cutlass.cute.math.sqrt
cutlass.cute.math.sqrt = lambda x: real(x) + x
"""


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "specs").mkdir()
    for name, value in (("twice", "X + X"), ("root", "sqrt(X)")):
        (tmp_path / "specs" / f"{name}.yaml").write_text(SPEC.format(name=name, value=value))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def verify(*arguments: str) -> Result:
    return CliRunner().invoke(cli, ["verify", "specs", "--on", "cpu", *arguments])


def test_what_another_compiler_breaks_is_told(project: Path, offline: Path) -> None:
    write_compiler(offline, "99.0", CHANGE)
    found = verify("--with", "nvidia-cutlass-dsl==99.0", "--format", "json")
    assert found.exit_code == 1, found.output
    data = json.loads(found.stdout)
    assert data["with"]["versions"]["nvidia-cutlass-dsl"][1] == "99.0" and data["exit_code"] == 1
    root, twice = data["kernels"]
    assert [root["result"], twice["result"]] == ["wrong", "same code"]
    assert root["here"]["verdict"] == "passed" and root["there"]["verdict"] == "failed" and twice["here"] is None
    assert not root["targets"]["sm_80"]["same"] and twice["targets"]["sm_80"]["same"]
    assert root["targets"]["sm_80"]["diff"]["kinds"]
    (error,) = data["diagnostics"]
    assert (error["code"], error["path"]) == ("CG403", "specs/root.yaml")
    assert "compiling: 2" in found.stderr and "CG403" not in found.stderr


def test_a_compiler_that_cannot_be_imported(project: Path, offline: Path) -> None:
    files = {"nvidia_cutlass_dsl/dsl_packages/cutlass/__init__.py": "raise ImportError('no libfoo.so')"}
    files |= {"changed.pth": "nvidia_cutlass_dsl/dsl_packages\n"}
    wheel = write_wheel(offline, "nvidia_cutlass_dsl", "98.0", files)
    found = verify("--with", str(wheel))
    assert found.exit_code == 1 and "2 not compiled" in found.stdout
    assert "no libfoo.so" in found.stderr and "CG402" in found.stderr


def test_what_is_here_already_is_not_compared_with_itself(project: Path, offline: Path) -> None:
    version = metadata.version("nvidia-cutlass-dsl")
    found = verify("--with", f"nvidia-cutlass-dsl=={version}")
    assert found.exit_code == 0 and "there is nothing to compare" in found.stdout and "compiling" not in found.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--with", "nvidia-cutlass-dsl==0.0.1"), "cannot install nvidia-cutlass-dsl==0.0.1"),
        (("--with", "-r requirements.txt"), "is not a requirement"),
        (("--pre",), "--pre goes with --with"),
        (("--with", "a==1", "--on", "gpu", "--receipts"), "--receipts cannot go with --with"),
    ],
)
def test_what_cannot_be_is_wrong_use(project: Path, offline: Path, arguments: tuple[str, ...], said: str) -> None:
    found = verify(*arguments)
    assert found.exit_code == 2 and said in found.stderr and not found.stdout


def test_an_interrupt_while_it_imports_is_none_of_its_errors(tmp_path: Path) -> None:
    package = tmp_path / "cutegen" / "verbs" / "upgrading"
    package.mkdir(parents=True)
    (package / "remote.py").write_text("raise KeyboardInterrupt")
    done = subprocess.run([sys.executable, "-c", remote._START], cwd=tmp_path, env={}, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (130, "")
