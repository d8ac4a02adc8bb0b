"""This environment's packages, as another one finds them behind its own.

The other environment must not take a second torch, and must not see the packages that it replaces: the compiler's
wheels share one folder, `nvidia_cutlass_dsl`, in which two versions would mix. So it gets a view of this one: folders
of links to all files but those of the packages that it has itself.

Before that the installer has to know what is here. A stub stands for each package: its name, version and needs, and no
file, so that what is replaced leaves nothing of this environment changed.
"""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path

from cutegen.verbs.upgrading.requirements import normalised

COMPILER = "nvidia-cutlass-dsl"
"""The prefix of the names of all of the compiler's wheels, which are of one version and belong together."""
_INSTALLER = "cutegen"  # what the stubs say that they were installed by
_OWN = "cutegen"


@dataclass(frozen=True)
class Package:
    """A package that is installed, and the folder that it is in."""

    name: str
    version: str
    folder: Path
    distribution: metadata.Distribution

    def files(self) -> list[str]:
        """The absolute paths of its files and of the folder that tells of it; at a guess where nothing lists them."""
        told = getattr(self.distribution, "_path", None)  # which has files that no list names
        listed = [str(file) for file in self.distribution.files or ()]
        if not listed:
            tops = (self.distribution.read_text("top_level.txt") or self.name.replace("-", "_")).split()
            listed = [name for top in tops for name in (top, f"{top}.py")]
        paths = [os.path.normpath(os.path.join(self.folder, file)) for file in listed]
        return [*paths, os.path.abspath(told)] if told is not None else paths


def packages_here() -> tuple[Package, ...]:
    """The packages that this process can import, in the order of their names, without cutegen."""
    found: dict[str, Package] = {}
    for distribution in metadata.distributions():
        package = _package(distribution)
        if package.name not in ("", _OWN):  # the first on sys.path is the one that is imported
            found.setdefault(package.name, package)
    return tuple(found[name] for name in sorted(found))


def _own_package() -> list[Package]:
    """This cutegen, where it is installed: the other environment has it from elsewhere."""
    return [_package(distribution) for distribution in metadata.distributions(name=_OWN)]


def _package(distribution: metadata.Distribution) -> Package:
    name = normalised(str(distribution.metadata["Name"] or ""))
    folder = Path(os.path.abspath(str(distribution.locate_file(""))))
    return Package(name, distribution.version, folder, distribution)


def write_stubs(packages: Iterable[Package], site: Path) -> None:
    """Writes to the folder of another environment's packages what an installer asks about each of this one's."""
    for package in packages:
        text = package.distribution.read_text("METADATA") or package.distribution.read_text("PKG-INFO")
        stub = site / f"{package.name.replace('-', '_')}-{package.version}.dist-info"
        stub.mkdir(exist_ok=True)
        short = (text or f"Metadata-Version: 2.1\nName: {package.name}\nVersion: {package.version}\n").split("\n\n")[0]
        (stub / "METADATA").write_text(f"{short}\n", encoding="utf-8")
        (stub / "INSTALLER").write_text(f"{_INSTALLER}\n", encoding="utf-8")
        record = "".join(f"{stub.name}/{name},,\n" for name in ("METADATA", "INSTALLER", "RECORD"))
        (stub / "RECORD").write_text(record, encoding="utf-8")


def remove_stubs(site: Path) -> None:
    """Removes the stubs that no installed package has taken the place of."""
    for stub in site.glob("*.dist-info"):
        installer = stub / "INSTALLER"
        if installer.is_file() and installer.read_text(encoding="utf-8").strip() == _INSTALLER:
            shutil.rmtree(stub)


def installed(site: Path) -> dict[str, str]:
    """The versions of the packages that an environment has itself, by name."""
    found = metadata.distributions(path=[str(site)])
    return {normalised(str(one.metadata["Name"])): one.version for one in found}


def replaced(packages: Iterable[Package], own: Iterable[str]) -> tuple[Package, ...]:
    """The packages of this environment that another one must not see, as it has others of that name.

    The compiler's wheels go together: where it has one of them, it sees none of these.
    """
    names = set(own)
    compiler = any(name.startswith(COMPILER) for name in names)
    return tuple(p for p in packages if p.name in names or compiler and p.name.startswith(COMPILER))


def make_view(packages: Sequence[Package], hidden: Sequence[Package], view: Path) -> list[Path]:
    """Makes folders of links to all that this environment's packages are in, but the hidden ones; gives the folders.

    One goes for each folder on this process's path that has packages, in that order; what stands in PYTHONPATH is left
    out, since a process in the other environment inherits that.
    """
    inherited = {os.path.abspath(entry) for entry in os.environ.get("PYTHONPATH", "").split(os.pathsep) if entry}
    having = {str(package.folder) for package in packages} - inherited
    folders = [entry for entry in dict.fromkeys(os.path.abspath(p) for p in sys.path if p) if entry in having]
    gone = {path for package in (*hidden, *_own_package()) for path in package.files()}
    touched = {str(parent) for path in gone for parent in Path(path).parents}
    made = []
    for number, folder in enumerate(folders):
        _link(Path(folder), view / str(number), gone, touched)
        made.append(view / str(number))
    return made


def _link(source: Path, target: Path, gone: set[str], touched: set[str]) -> None:
    """Links what is in a folder, without what is gone. An incomplete folder is made anew."""
    target.mkdir(parents=True)
    for entry in os.scandir(source):
        if entry.path in gone or entry.name == "__pycache__" or entry.name.startswith("~"):
            continue
        if entry.is_dir() and entry.path in touched:
            _link(Path(entry.path), target / entry.name, gone, touched)
            if not any((target / entry.name).iterdir()):
                (target / entry.name).rmdir()
        else:
            os.symlink(entry.path, target / entry.name)
