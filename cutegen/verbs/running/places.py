"""Things that are named by a file and a name in it, as `FILE.py:NAME`, or by a module, as `package.module:NAME`."""

from __future__ import annotations

import difflib
import importlib
import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.compiling.loading import load
from cutegen.errors import CutegenError

_SHOWN = 8  # names, where one is not found


class NoSuchPlace(CutegenError):
    """There is no file or module of that name, or nothing of that name in it."""


def find(place: str, loaded: dict[Path, ModuleType]) -> Any:
    """Returns the object that a place names. Files are imported once, and are found in `loaded` from then on.

    The name may have dots: `FILE.py:gemm.run`. Raises NoSuchPlace, and exceptions of the import.
    """
    where, _, names = split(place)
    module = _file(Path(where), loaded) if where.endswith(".py") else _module(where)
    found: Any = module
    for name in names.split("."):
        if not hasattr(found, name):
            raise NoSuchPlace(f"there is no `{name}` in {where}", _near(name, found))
        found = getattr(found, name)
    return found


def split(place: str) -> tuple[str, str, str]:
    """The file or module, the colon and the name. Raises NoSuchPlace for what is not written like that."""
    where, colon, name = place.rpartition(":")
    if not where or not name:
        help = f"name what is in it: {place}:FUNCTION" if place.endswith(".py") else None
        raise NoSuchPlace(f"`{place}` is not FILE.py:FUNCTION or module:FUNCTION", help)
    return where, colon, name


def _file(path: Path, loaded: dict[Path, ModuleType]) -> ModuleType:
    path = path.absolute()
    if path not in loaded:
        if not path.is_file():
            raise NoSuchPlace(f"there is no file {path}")
        folder = str(path.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)  # so that it finds what lies beside it, as a program does
        loaded[path] = load(path, _name(path))
    return loaded[path]


def _name(path: Path) -> str:
    """The name to import a file by: its own, with which files beside it import it, unless that is another module's."""
    name = path.stem
    if name in sys.modules or not name.isidentifier():
        return f"_cutegen_run_{name}"
    try:
        spec = importlib.util.find_spec(name)
    except (ImportError, ValueError):
        spec = None
    same = spec is not None and spec.origin is not None and Path(spec.origin).absolute() == path
    return name if same else f"_cutegen_run_{name}"


def _module(name: str) -> ModuleType:
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{name}.".startswith(f"{error.name}."):
            raise
        file = Path(f"{name}.py")
        help = f"did you mean {file}:...?" if file.is_file() else "a file's name ends in .py"
        raise NoSuchPlace(f"there is no module {error.name}", help) from None


def _near(name: str, holder: Any) -> str | None:
    known = [n for n, value in vars(holder).items() if not n.startswith("_") and callable(value)]
    close = difflib.get_close_matches(name, known, n=1)
    if close:
        return f"did you mean `{close[0]}`?"
    own = [n for n in known if getattr(getattr(holder, n), "__module__", None) == getattr(holder, "__name__", "")]
    return f"there are {', '.join((own or known)[:_SHOWN])}" if own or known else None
