"""Which spec files a command names, what each is called in headers, and where its modules go."""

from __future__ import annotations

import os
import shlex
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

MARKERS = ("pyproject.toml", ".git")
SUFFIXES = (".yaml", ".yml")
SPECS = "specs"
GENERATED = "generated"


class SelectionError(Exception):
    """What was named cannot be built; `help` says what would work."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help


@dataclass(frozen=True)
class SpecFile:
    """A spec on disk. `name` is its path from the project's root, in posix form: the same from every cwd."""

    file: Path  # absolute
    root: Path
    name: str
    out: Path  # folder of its modules

    @property
    def shown(self) -> str:
        """The path for people who stand in the current folder."""
        return shown(self.file)


@dataclass(frozen=True)
class Scope:
    """What was asked for, as headers in `out` name it: one spec, or everything under a folder (`""`: the root)."""

    out: Path
    root: Path
    name: str
    folder: bool

    def holds(self, name: str) -> bool:
        if not self.folder:
            return name == self.name
        return not self.name or PurePosixPath(self.name) in PurePosixPath(name).parents


@dataclass(frozen=True)
class Selection:
    files: tuple[SpecFile, ...]  # each once, in the order of their names
    scopes: tuple[Scope, ...]


def select(arguments: Iterable[Path], out: Path | None = None) -> Selection:
    """The specs that files and folders (searched through, hidden entries left out) stand for.

    Raises `SelectionError` for a path that is not there or that is neither file nor folder, for a folder that cannot be
    read or that holds no spec.
    """
    files: dict[Path, SpecFile] = {}
    scopes: dict[Scope, None] = {}
    for argument in arguments:
        path = Path(os.path.abspath(argument))
        if path.is_dir():
            found = [_spec_file(file, out) for file in _search(path)]
            if not found:
                raise SelectionError(f"no specs in {shown(path)}", "a spec ends in .yaml; `cutegen init` writes one")
            for root in dict.fromkeys([project_root(path, folder=True), *(spec.root for spec in found)]):
                name = _name(path, root) if path != root and path.is_relative_to(root) else ""
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
    """The nearest folder above a spec that holds a project's marker; else the parent of a folder called `specs`;
    else the spec's own folder. For a `folder` of specs, itself counts as above."""
    above: Sequence[Path] = [path, *path.parents] if folder else path.parents
    for ancestor in above:
        if any((ancestor / marker).exists() for marker in MARKERS):
            return ancestor
    for ancestor in above:
        if ancestor.name == SPECS:
            return ancestor.parent
    return above[0]


def shown(path: Path) -> str:
    """Relative to the current folder where it lies under it, else absolute. Bytes that are no text show as `\\xff`."""
    try:
        here = Path.cwd()
    except OSError:  # the current folder was removed
        return readable(str(path))
    return readable(path.relative_to(here).as_posix() or "." if path.is_relative_to(here) else str(path))


def readable(text: str) -> str:
    """`text` without the lone surrogates that stand for bytes of a path that are not UTF-8: no output can hold them."""
    try:
        return os.fsencode(text).decode("utf-8", errors="backslashreplace")
    except UnicodeEncodeError:  # surrogates that stand for no byte
        return text.encode("utf-8", errors="backslashreplace").decode("utf-8")


def quoted(path: Path | str) -> str:
    """A path as a suggested command names it: in quotes where a shell would take it apart."""
    return shlex.quote(shown(path) if isinstance(path, Path) else readable(path))


def _spec_file(file: Path, out: Path | None) -> SpecFile:
    root = project_root(file)
    return SpecFile(file, root, _name(file, root), _out(root, out))


def _name(path: Path, root: Path) -> str:
    """The path from the root in posix form, whatever the locale takes file names to be."""
    try:
        name = os.fsencode(path.relative_to(root).as_posix()).decode("utf-8")
    except UnicodeDecodeError:
        raise SelectionError(f"the path {str(path)!r} is not UTF-8", "rename it") from None
    # The name stands in a comment of the generated file: it must stay one line.
    if not name.isprintable():
        raise SelectionError(f"the path {name!r} has a character that cannot be printed", "rename it")
    return name


def on_disk(root: Path, name: str) -> Path:
    """The inverse: the path of what a header names."""
    return root / os.fsdecode(name.encode("utf-8"))


def _out(root: Path, out: Path | None) -> Path:
    return root / GENERATED if out is None else Path(os.path.abspath(out))


def _search(folder: Path) -> list[Path]:
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
    """Pipes and devices: reading one may never end."""
    mode = path.stat().st_mode
    if not stat.S_ISREG(mode):
        kinds = {stat.S_IFIFO: "a pipe", stat.S_IFCHR: "a device", stat.S_IFBLK: "a device", stat.S_IFSOCK: "a socket"}
        kind = kinds.get(stat.S_IFMT(mode), "something else")
        raise SelectionError(f"{shown(path)} is {kind}, not a file", "write the spec to a file first")


def _near(path: Path) -> str:
    from difflib import get_close_matches

    try:
        names = os.listdir(path.parent)
    except OSError:
        names = []
    close = get_close_matches(path.name, names, 1)
    return f"did you mean {shown(path.parent / close[0])}?" if close else "name spec files, or folders of them"
