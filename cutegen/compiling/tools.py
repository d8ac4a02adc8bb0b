"""The programs and packages that an artefact comes from: where they are and which versions they have.

Nothing here imports torch or cutlass: versions are read from the installed packages' metadata.
"""

from __future__ import annotations

import functools
import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from cutegen.errors import CutegenError, plain
from cutegen.version import __version__

ToolName = Literal["nvdisasm", "cuobjdump"]

TOOL_PACKAGES: Mapping[ToolName, str] = {"nvdisasm": "nvidia-cuda-nvdisasm", "cuobjdump": "nvidia-cuda-cuobjdump"}
_COMPILER_PREFIX = "nvidia-cutlass-dsl"
_OTHER_PACKAGES = ("torch", "apache-tvm-ffi")
_TOOL_SECONDS = 120


class ToolError(CutegenError):
    """A tool is missing, or it ran and failed. The message says which and what to do."""


@dataclass(frozen=True)
class Tool:
    """A program of the CUDA toolkit that is installed."""

    name: ToolName
    path: Path
    version: str  # of its package, or what `--version` says of one found on PATH

    def run(self, *arguments: str) -> str:
        """Runs the tool and returns its stdout. Raises `ToolError` when it fails or does not end."""
        try:
            done = subprocess.run(
                [str(self.path), *arguments],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_TOOL_SECONDS,
            )
        except (OSError, subprocess.TimeoutExpired) as problem:
            raise ToolError(f"{self.name} ({self.path}) did not run: {problem}") from problem
        if done.returncode != 0:
            said = plain(done.stderr or done.stdout).strip()[-500:]
            raise ToolError(f"{self.name} ({self.path}) ended with status {done.returncode}: {said}")
        return done.stdout


@functools.cache
def find_tool(name: ToolName) -> Tool:
    """The tool from its pip package, else from PATH. Raises `ToolError` when neither has it."""
    from importlib import metadata

    package = TOOL_PACKAGES[name]
    try:
        distribution = metadata.distribution(package)
    except metadata.PackageNotFoundError:
        pass
    else:
        for entry in distribution.files or ():
            if Path(entry.name).stem == name and entry.parent.name == "bin":
                path = Path(str(distribution.locate_file(entry))).resolve()
                if os.access(path, os.X_OK):
                    return Tool(name, path, f"{package} {distribution.version}")
    found = shutil.which(name)
    if found is None:
        raise ToolError(f"{name} was found neither in the package {package} nor on PATH; `pip install {package}`")
    unversioned = Tool(name, Path(found), "")
    return Tool(name, Path(found), unversioned.run("--version").strip())


def tool_version(name: ToolName) -> str:
    """Version of a tool, or `missing`: an artefact made without it must not be taken for one made with it."""
    try:
        return find_tool(name).version
    except ToolError:
        return "missing"


@functools.cache
def toolchain() -> Mapping[str, str]:
    """Everything installed that decides what a module compiles to, by name: versions, and a digest of this room."""
    from importlib import metadata

    chain: dict[str, str] = {}
    for distribution in metadata.distributions():
        name = str(distribution.metadata["Name"] or "").lower().replace("_", "-")
        if name in chain:  # the first on sys.path is the one that is imported
            continue
        if name.startswith(_COMPILER_PREFIX):
            chain[name] = f"{distribution.version} {_content(distribution.read_text('RECORD'))}"
        elif name in _OTHER_PACKAGES:
            chain[name] = distribution.version
    for name in (_COMPILER_PREFIX, *_OTHER_PACKAGES):
        chain.setdefault(name, "missing")
    chain["nvdisasm"] = tool_version("nvdisasm")
    chain["cuobjdump"] = tool_version("cuobjdump")
    chain["python"] = f"{sys.implementation.name} {'.'.join(map(str, sys.version_info))}"
    chain["cutegen"] = __version__
    chain["cutegen.compiling"] = source_digest(Path(__file__).parent)
    return dict(sorted(chain.items()))


def _content(record: str | None) -> str:
    """A digest of a package's files, by what its installer wrote of them: a build of one's own has its version from
    where it began.
    """
    lines = [line for line in (record or "").splitlines() if "sha256=" in line and ".dist-info/" not in line]
    files = sorted(line for line in lines if not line.startswith(".."))  # scripts hold the path of the environment
    return hashlib.sha256("\n".join(files).encode()).hexdigest()[:16]


def source_digest(folder: Path) -> str:
    """SHA-256 over the names and contents of a folder's Python files."""
    digest = hashlib.sha256()
    for path in sorted(folder.glob("*.py")):
        body = path.read_bytes()
        digest.update(f"{path.name} {len(body)}\n".encode())
        digest.update(body)
    return digest.hexdigest()
