"""Which spec files a command names, what each is called in headers, and where its modules go."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

from cutegen.errors import CutegenError
from cutegen.project.paths import shown

MARKERS = ("pyproject.toml", ".git")
SUFFIXES = (".yaml", ".yml")
SPECS = "specs"
GENERATED = "generated"


class SelectionError(CutegenError):
    """Says that the paths that were named hold no specs that could be built."""


@dataclass(frozen=True)
class SpecFile:
    """A spec on disk. `name` is its path from `root`, in posix form: the same from every current folder."""

    file: Path  # absolute
    root: Path  # of the project; the folder of its modules where that lies outside of it
    name: str
    out: Path  # folder of its modules

    @property
    def shown(self) -> str:
        """The path as people who stand in the current folder see it."""
        return shown(self.file)


@dataclass(frozen=True)
class Scope:
    """The extent of a command: one spec, or everything under a folder.

    `name` is as headers of the modules in `out` have it, `""` for the root.
    """

    out: Path
    root: Path
    name: str
    folder: bool

    def holds(self, name: str) -> bool:
        """Whether the spec of that name was asked for."""
        if not self.folder:
            return name == self.name
        return not self.name or PurePosixPath(self.name) in PurePosixPath(name).parents


@dataclass(frozen=True)
class Selection:
    """The specs that a command asked for, and in which scopes."""

    files: tuple[SpecFile, ...]  # each once, in the order of their names
    scopes: tuple[Scope, ...]


def select(arguments: Iterable[Path], out: Path | None = None) -> Selection:
    """Finds the specs that files and folders stand for. Folders are searched through, without hidden entries.

    Raises SelectionError for a path that is not there or that is neither file nor folder, and for a folder that cannot
    be read or that holds no spec.
    """
    files: dict[Path, SpecFile] = {}
    scopes: dict[Scope, None] = {}
    for argument in arguments:
        path = Path(os.path.abspath(argument))
        if path.is_dir():
            found = [_spec_file(file, out) for file in _search(path)]
            if not found:
                raise SelectionError(f"no specs in {shown(path)}", "a spec ends in .yaml; `cutegen init` writes one")
            for root in dict.fromkeys([_base(project_root(path, folder=True), out), *(spec.root for spec in found)]):
                name = "" if root.is_relative_to(path) else _name(path, root)
                scopes[Scope(_out(root, out), root, name, folder=True)] = None
        elif path.exists():
            _refuse_odd(path)
            found = [_spec_file(path, out)]
            scopes[Scope(found[0].out, found[0].root, found[0].name, folder=False)] = None
        else:
            raise SelectionError(f"{shown(path)} does not exist", _near(path))
        files.update((spec.file, spec) for spec in found)
    chosen = sorted(files.values(), key=lambda spec: (spec.root.as_posix(), spec.name))
    return Selection(tuple(chosen), tuple(scopes))


def project_root(path: Path, *, folder: bool = False) -> Path:
    """The folder of the project that a spec, or a `folder` of specs, belongs to.

    It is the nearest folder above that holds a project's marker; else the parent of a folder called `specs`; else the
    spec's own folder. A `folder` of specs itself counts as above.
    """
    above: Sequence[Path] = [path, *path.parents] if folder else path.parents
    for ancestor in above:
        if any((ancestor / marker).exists() for marker in MARKERS):
            return ancestor
    for ancestor in above:
        if ancestor.name == SPECS:
            return ancestor.parent
    return above[0]


def _spec_file(file: Path, out: Path | None) -> SpecFile:
    """The spec at an absolute path, with its name in its project."""
    root = _base(project_root(file), out)
    return SpecFile(file, root, _name(file, root), _out(root, out))


def _base(root: Path, out: Path | None) -> Path:
    """The folder that the names of a project's specs are relative to: its root.

    It is the folder of the modules where that lies outside of the project: specs of several may go there, and their
    paths from their own roots would not tell them apart.
    """
    folder = _out(root, out)
    return root if folder.is_relative_to(root) else folder


def _name(path: Path, root: Path) -> str:
    """A path from a project's base in posix form, independent of the locale.

    Raises SelectionError for one that no header could hold.
    """
    try:
        name = os.fsencode(Path(os.path.relpath(path, root)).as_posix()).decode("utf-8")
    except UnicodeDecodeError:
        raise SelectionError(f"the path {str(path)!r} is not UTF-8", "rename it") from None
    # The name stands in a comment of the generated file: it must stay one line.
    if not name.isprintable():
        raise SelectionError(f"the path {name!r} has a character that cannot be printed", "rename it")
    return name


def on_disk(root: Path, name: str) -> Path:
    """The path of the file that a header calls `name`, in the project at `root`."""
    return root / os.fsdecode(name.encode("utf-8"))


def _out(root: Path, out: Path | None) -> Path:
    """The folder of a project's modules."""
    return root / GENERATED if out is None else Path(os.path.abspath(out))


def _search(folder: Path) -> list[Path]:
    """All specs in a folder and the folders in it. Raises SelectionError for what cannot be read."""

    def refuse(error: OSError) -> None:
        raise SelectionError(f"{shown(Path(error.filename))} cannot be read: {error.strerror}") from error

    found = []
    for where, folders, files in os.walk(folder, onerror=refuse):
        folders[:] = [name for name in folders if not name.startswith(".")]
        found += [Path(where, name) for name in files if name.endswith(SUFFIXES) and not name.startswith(".")]
    for path in found:
        if path.exists():
            _refuse_odd(path)
    return sorted(found)


def _refuse_odd(path: Path) -> None:
    """Raises SelectionError for pipes and devices: reading one may never end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "something else")
        raise SelectionError(f"{shown(path)} is {kind}, not a file", "write the spec to a file first")


def _near(path: Path) -> str:
    """A help for a path that is not there: the entry of its folder with the most similar name."""
    from difflib import get_close_matches

    try:
        names = os.listdir(path.parent)
    except OSError:
        names = []
    close = get_close_matches(path.name, names, 1)
    return f"did you mean {shown(path.parent / close[0])}?" if close else "name spec files, or folders of them"
