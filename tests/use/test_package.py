"""The package as it is published: sdist and wheel have all of its files, and install into an empty environment where
`cutegen` works, far from any checkout.
"""

from __future__ import annotations

import os
import re
import shutil
import site
import subprocess
import sys
import tarfile
import venv
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("pyproject.toml", "README.md", "LICENSE")


def has_setuptools() -> bool:
    """Whether this environment has what pyproject.toml asks for to build, which else is installed for each build."""
    (least,) = re.findall(r'^requires = \["setuptools>=(\d+)"\]', (ROOT / "pyproject.toml").read_text(), re.MULTILINE)
    return find_spec("setuptools") is not None and int(version("setuptools").partition(".")[0]) >= int(least)


ISOLATION = ["--no-isolation"] if has_setuptools() else []


def tracked(folder: str) -> list[str]:
    """The files of a folder of this repository."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def published(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with the sdist, and with the wheel that was built from it."""
    folder = tmp_path_factory.mktemp("published")
    for name in (*FILES, *tracked("cutegen")):  # builds leave files where they are
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    command = [sys.executable, "-m", "build", *ISOLATION, "--outdir", "dist", "source"]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout + done.stderr
    return folder / "dist"


@pytest.fixture(scope="module")
def installed(published: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of an environment with the wheel and nothing else of its own; what that needs is found where it is in
    this one."""
    folder = tmp_path_factory.mktemp("environment") / "venv"
    venv.create(folder)
    (packages,) = folder.glob("lib/python3*/site-packages")
    (wheel,) = published.glob("*.whl")
    command = [
        sys.executable,
        "-m",
        "pip",
        f"--python={folder}",
        "install",
        "--quiet",
        "--no-deps",
        "--no-index",
        wheel,
    ]
    subprocess.run(command, check=True)
    others = "".join(f"import site; site.addsitedir({path!r})\n" for path in site.getsitepackages())
    (packages / "needed.pth").write_text(others)
    return folder


def test_every_file_of_the_package_is_published(published: Path, installed: Path) -> None:
    listed = tracked("cutegen")
    (packages,) = installed.glob("lib/python3*/site-packages")
    assert len(listed) > 500 and [name for name in listed if not (packages / name).is_file()] == []
    (archive,) = published.glob("*.tar.gz")
    with tarfile.open(archive) as file:
        names = {name.partition("/")[2] for name in file.getnames()}
    assert [name for name in (*FILES, *listed) if name not in names] == []
    (points,) = packages.glob("cutegen-*.dist-info/entry_points.txt")
    assert "[pytest11]\ncutegen = cutegen.pytest_plugin\n" in points.read_text()


def test_it_works_far_from_a_checkout(installed: Path, tmp_path: Path) -> None:
    """A project from nothing: a starter spec, its diagnostics, a module that is compiled and run, and `--check`."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    environment["CUTEGEN_CACHE_DIR"] = str(tmp_path / "cache")

    def run(*command: str) -> str:
        command = (str(installed / "bin" / command[0]), *command[1:])
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("python", "-c", "import cutegen; print(cutegen.__file__)").startswith(str(installed))
    run("cutegen", "init", "mine", "--op", "gemm", "--atom", "wgmma")
    assert "no diagnostics" in run("cutegen", "lint", "specs")
    assert "# proof of mine" in run("cutegen", "explain", "specs/mine.yaml")
    assert "written" in run("cutegen", "build", "--no-compile", "specs/mine.yaml")
    run("cutegen", "init", "seen", "--op", "probe")
    told = run("cutegen", "build", "specs/seen.yaml")
    assert "generated/seen.py written" in told and "exact" in told, told
    assert "current" in run("cutegen", "build", "--check", "specs")
    assert run("cutegen", "lint", "--explain", "CG312").startswith("# CG312")
