"""Puts packages into a new environment: with uv where there is one, else with pip."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Mapping, Sequence
from importlib import metadata
from pathlib import Path

from cutegen.errors import CutegenError, plain
from cutegen.verbs.upgrading.requirements import Requirement

_SAID_LINES = 30
# What would send packages elsewhere than to the environment, or have pip run in another one
_DROPPED = ("PIP_TARGET", "PIP_PREFIX", "PIP_ROOT", "PIP_USER", "PIP_PYTHON", "PIP_REQUIRE_VIRTUALENV", "PYTHONPATH",
            "PYTHONHOME", "VIRTUAL_ENV", "UV_PYTHON", "UV_SYSTEM_PYTHON", "CONDA_PREFIX", "PIP_DRY_RUN")  # fmt: skip


class InstallError(CutegenError):
    """Says that an environment cannot be made; `help` has the last words of the installer, if there was one."""


def make_empty(folder: Path) -> None:
    """Makes a virtual environment without packages, of the Python that this process runs. Raises InstallError."""
    try:
        venv.EnvBuilder(symlinks=True).create(folder)
    except (OSError, subprocess.SubprocessError) as error:
        raise InstallError(f"no virtual environment can be made: {error}") from error


def python_of(folder: Path) -> Path:
    """The interpreter of a virtual environment."""
    return folder / "bin" / "python"


def site_of(folder: Path) -> Path:
    """The folder that a virtual environment has its packages in."""
    return Path(sysconfig.get_path("purelib", "venv" if "venv" in sysconfig.get_scheme_names() else "posix_prefix",
                                   vars={"base": str(folder), "platbase": str(folder)}))  # fmt: skip


def find_uv() -> str | None:
    """Where uv is: on PATH, or in this environment."""
    return shutil.which("uv") or shutil.which("uv", path=str(Path(sys.executable).parent))


def install(folder: Path, requirements: Sequence[Requirement], *, pre: bool) -> str:
    """Installs requirements into an environment, with what they need that is not there in a version that fits.

    What is named and is no exact version is taken as new as there is; `pre` takes pre-releases. Gives the installer's
    name. Raises InstallError with what the installer said.
    """
    uv = find_uv()
    command = _uv_command(uv, folder, requirements, pre) if uv else _pip_command(folder, pre)
    texts = [requirement.text for requirement in requirements]
    done = subprocess.run(
        [*command, *texts],
        capture_output=True,
        text=True,
        errors="replace",
        env=_environment(),
        stdin=subprocess.DEVNULL,
    )
    name = "uv" if uv else "pip"
    if done.returncode:
        raise InstallError(f"{name} cannot install {' and '.join(texts)}", _said(done.stderr or done.stdout))
    return name


def _uv_command(uv: str, folder: Path, requirements: Sequence[Requirement], pre: bool) -> list[str]:
    newest = [flag for one in requirements if one.name for flag in ("--upgrade-package", one.name)]
    early = ["--prerelease", "allow"] if pre else []
    return [uv, "pip", "install", "--python", str(python_of(folder)), "--no-progress", *newest, *early, "--"]


def _pip_command(folder: Path, pre: bool) -> list[str]:
    """The command of this environment's pip for another one, or where it is too old or missing, of that one's own."""
    python = str(python_of(folder))
    options = ["--no-input", "--disable-pip-version-check", "--no-user", "--no-warn-conflicts"]
    options += ["--upgrade", "--upgrade-strategy", "only-if-needed", *(["--pre"] if pre else []), "--"]
    if _pip_version() >= (22, 3):  # the first that knows --python
        return [sys.executable, "-m", "pip", "--python", python, "install", *options]
    done = subprocess.run([python, "-m", "ensurepip"], capture_output=True, text=True, env=_environment())
    if done.returncode:
        help = "install one of them here: `python -m pip install uv`, or python3-venv where Debian has Python from"
        raise InstallError("there is neither uv nor pip to install packages with", help)
    return [python, "-m", "pip", "install", *options]


def _pip_version() -> tuple[int, ...]:
    """The version of this environment's pip, empty where there is none."""
    try:
        parts = metadata.version("pip").split(".")
    except metadata.PackageNotFoundError:
        return ()
    return tuple(int(part) for part in parts[:2] if part.isdigit())


def _environment() -> Mapping[str, str]:
    return {name: value for name, value in os.environ.items() if name not in _DROPPED}


def _said(text: str) -> str:
    """The last lines of what an installer said, without its progress."""
    lines = [line.rstrip() for line in plain(text).splitlines() if line.strip()]
    own = [line for line in lines if not line.startswith(("WARNING: Location", "[notice]", "Using Python "))]
    return "\n    ".join(own[-_SAID_LINES:]) or "it said nothing"
