"""The package as pip installs it: all of its files are there, and it works where there is no checkout."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def tracked(folder: str) -> list[str]:
    """The files of a folder of this repository."""
    listed = subprocess.run(["git", "ls-files", folder], cwd=ROOT, check=True, capture_output=True, text=True)
    return listed.stdout.splitlines()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder that a wheel of the package was unpacked to."""
    folder = tmp_path_factory.mktemp("wheel")
    for name in ("pyproject.toml", "README.md", "LICENSE", *tracked("cutegen")):  # builds leave files where they are
        (folder / "source" / name).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy(ROOT / name, folder / "source" / name)
    command = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", ".", "./source"]
    subprocess.run(command, check=True, cwd=folder)
    (wheel,) = folder.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        archive.extractall(folder / "site")
    return folder / "site"


def test_every_file_of_the_package_is_in_the_wheel(installed: Path) -> None:
    listed = tracked("cutegen")
    assert len(listed) > 500 and [name for name in listed if not (installed / name).is_file()] == []


def test_it_works_outside_of_a_checkout(installed: Path, tmp_path: Path) -> None:
    """A project from nothing: a starter spec, its diagnostics, its module, and what `--check` says of that."""

    def cutegen(*arguments: str) -> str:
        environment = {**os.environ, "PYTHONPATH": str(installed)}
        command = [sys.executable, "-m", "cutegen", *arguments]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    code = "import cutegen; print(cutegen.__file__)"
    environment = {**os.environ, "PYTHONPATH": str(installed)}
    found = subprocess.run([sys.executable, "-c", code], cwd=tmp_path, capture_output=True, text=True, env=environment)
    assert found.stdout.startswith(str(installed))
    cutegen("init", "mine", "--op", "gemm", "--atom", "wgmma")
    assert "no diagnostics" in cutegen("lint", "specs")
    assert "# proof of mine" in cutegen("explain", "specs/mine.yaml")
    assert "written" in cutegen("build", "--no-compile", "specs")
    assert "current" in cutegen("build", "--check", "specs")
    assert cutegen("lint", "--explain", "CG312").startswith("# CG312")
