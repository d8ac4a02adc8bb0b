"""Tiny wheels, and among them one that passes for another release of the compiler."""

from __future__ import annotations

import zipfile
from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

_CHANGED = """
import os

__path__ = [{real!r}]
__file__ = os.path.join({real!r}, "__init__.py")
with open(__file__) as file:
    exec(compile(file.read(), __file__, "exec"))
{change}
"""


def write_wheel(
    folder: Path, name: str, version: str, files: Mapping[str, str], requires: tuple[str, ...] = ()
) -> Path:
    """Writes a wheel of these files, by their paths in it; gives its path."""
    about = f"{name}-{version}.dist-info"
    needs = "".join(f"Requires-Dist: {one}\n" for one in requires)
    texts = {
        **files,
        f"{about}/METADATA": f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n{needs}",
        f"{about}/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
    }
    texts[f"{about}/RECORD"] = "".join(f"{path},,\n" for path in [*texts, f"{about}/RECORD"])
    path = folder / f"{name}-{version}-py3-none-any.whl"
    folder.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w") as archive:
        for place, text in texts.items():
            archive.writestr(place, text)
    return path


def write_compiler(folder: Path, version: str, change: str) -> Path:
    """Writes a wheel that is the installed compiler but for a change, which runs once that is imported."""
    files = metadata.distribution("nvidia-cutlass-dsl-libs-core").files or ()
    (init,) = (file for file in files if file.parts[-2:] == ("cutlass", "__init__.py"))
    real = Path(str(init.locate())).resolve().parent
    shim = _CHANGED.format(real=str(real), change=change)
    first = "import sys, os; sys.path.insert(0, {})\n"
    paths = first.format(repr(str(real.parent))) + first.format("os.path.join(sitedir, 'changed_dsl')")
    files_of_it = {"changed_dsl/cutlass/__init__.py": shim, "changed_dsl.pth": paths}
    return write_wheel(folder, "nvidia_cutlass_dsl", version, files_of_it)


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A folder that is the only place where installers find packages; what they make is kept in another one."""
    folder = tmp_path / "wheels"
    folder.mkdir()
    for name, value in (("NO_INDEX", "1"), ("FIND_LINKS", str(folder))):
        monkeypatch.setenv(f"PIP_{name}", value)
        monkeypatch.setenv(f"UV_{name}", value)
    monkeypatch.delenv("PIP_CONSTRAINT", raising=False)
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("CUTEGEN_CACHE_DIR", str(tmp_path / "cache"))
    return folder
