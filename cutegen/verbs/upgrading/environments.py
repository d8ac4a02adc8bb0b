"""Environments with other packages beside this one: made once for what names one thing, and for each use otherwise.

They stand in the folder of caches, by a digest of what they were asked for and of what is here, since they link to it.
One that was not made to its end has no `complete.json`, and is made anew. Whoever makes one keeps others out of it;
whoever uses one keeps it from being removed.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
import platform
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from cutegen.cache_folder import cache_folder
from cutegen.verbs.upgrading.beside import (
    Package,
    installed,
    make_view,
    packages_here,
    remove_stubs,
    replaced,
    write_stubs,
)
from cutegen.verbs.upgrading.installing import InstallError, install, make_empty, python_of, site_of
from cutegen.verbs.upgrading.requirements import Requirement

KEPT = 6  # environments, of which each may have some hundred megabytes
_COMPLETE = "complete.json"
_ONCE = ".once-"  # what the names of those begin with that are for one use
_OLD = 86400.0  # seconds after which one of them was left by a process that was killed
_FORM = 1  # of what is written below; another one is another environment
_BEHIND = "zz_cutegen_beside.pth"  # read after those of the packages themselves

Tell = Callable[[str], None]


@dataclass(frozen=True)
class Environment:
    """An environment beside this one: its interpreter, and the versions of the packages that it has instead of these.

    `hidden` are the packages of this environment that it does not see and has no other version of; `installer` is what
    made it, `uv` or `pip`.
    """

    python: Path
    own: dict[str, str]
    hidden: tuple[str, ...]
    installer: str


@contextlib.contextmanager
def environment_with(requirements: Sequence[Requirement], *, pre: bool, tell: Tell) -> Iterator[Environment]:
    """Gives an environment with these packages, while it is in use.

    `tell` gets a line for what takes time. Raises InstallError where it cannot be made, and OSError for what the disk
    refuses; what was begun is removed then.
    """
    root = cache_folder() / "environments"
    root.mkdir(parents=True, exist_ok=True)
    packages = packages_here()
    _prune(root)
    if any(requirement.content is None for requirement in requirements):
        # Which version a range means, or what a URL leads to, is another tomorrow
        with tempfile.TemporaryDirectory(prefix=_ONCE, dir=root, ignore_cleanup_errors=True) as once:
            yield _made(Path(once, "made"), packages, requirements, pre, tell)
        return
    key = _key(packages, requirements, pre)
    folder = root / key
    with open(root / f"{key}.lock", "a") as lock:
        _lock(lock, fcntl.LOCK_SH, tell)
        while (environment := _read(folder)) is None:  # again, since between two locks it may be removed
            _lock(lock, fcntl.LOCK_EX, tell)
            if _read(folder) is None:
                shutil.rmtree(folder, ignore_errors=True)
                try:
                    _made(folder, packages, requirements, pre, tell)
                except BaseException:
                    shutil.rmtree(folder, ignore_errors=True)
                    raise
            _lock(lock, fcntl.LOCK_SH, tell)
        os.utime(folder)
        yield environment


def _key(packages: Sequence[Package], requirements: Sequence[Requirement], pre: bool) -> str:
    parts = {
        "form": _FORM,
        "requirements": sorted((one.text, one.content) for one in requirements),
        "pre": pre,
        "python": [sys.version, sys.executable, sys.base_prefix, platform.machine()],
        "here": [(package.name, package.version, str(package.folder)) for package in packages],
    }
    return hashlib.sha256(json.dumps(parts).encode()).hexdigest()[:20]


def _made(
    folder: Path, packages: Sequence[Package], requirements: Sequence[Requirement], pre: bool, tell: Tell
) -> Environment:
    """Makes an environment in a folder that is not there yet."""
    texts = ", ".join(requirement.text for requirement in requirements)
    tell(f"making an environment with {texts}")
    make_empty(folder)
    site = site_of(folder)
    direct = {requirement.name for requirement in requirements if requirement.is_direct}
    write_stubs((package for package in packages if package.name not in direct), site)
    installer = install(folder, requirements, pre=pre)
    remove_stubs(site)
    own = installed(site)
    if not own and "" in direct:
        help = "write `NAME @ URL`, so that it is taken for another one of that version"
        raise InstallError(f"{installer} installed nothing for {texts}: that version is here", help)
    gone = replaced(packages, own)
    views = make_view(packages, gone, folder / "beside")
    lines = [f"import site; site.addsitedir({str(view)!r})\n" for view in views]
    (site / _BEHIND).write_text("".join(lines), encoding="utf-8")
    hidden = tuple(package.name for package in gone if package.name not in own)
    data = {"own": own, "hidden": hidden, "installer": installer}
    (folder / _COMPLETE).write_text(json.dumps(data), encoding="utf-8")
    tell(
        f"{installer} installed {', '.join(f'{name} {version}' for name, version in sorted(own.items())) or 'nothing'}"
    )
    return Environment(python_of(folder), own, hidden, installer)


def _read(folder: Path) -> Environment | None:
    """The environment in a folder, or None where it was not made to its end or lost its interpreter."""
    try:
        data = json.loads((folder / _COMPLETE).read_text(encoding="utf-8"))
        environment = Environment(python_of(folder), dict(data["own"]), tuple(data["hidden"]), data["installer"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return environment if os.access(environment.python, os.X_OK) else None


def _lock(file: TextIO, kind: int, tell: Tell) -> None:
    """Locks an environment, to make it or to use it: the second process waits, with a message."""
    try:
        fcntl.flock(file, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        tell("waiting for another cutegen, which makes or uses the same environment")
        fcntl.flock(file, kind)


def _prune(root: Path) -> None:
    """Removes the environments that were not used for longest, until one less than `KEPT` are left, and what processes
    that were killed left behind. None that is in use is removed.
    """
    with contextlib.suppress(OSError):
        folders = {path: path.stat().st_mtime for path in root.iterdir() if path.is_dir()}
        abandoned = [path for path, at in folders.items() if path.name.startswith(_ONCE) and time.time() - at > _OLD]
        kept = sorted((p for p in folders if not p.name.startswith(_ONCE)), key=lambda p: folders[p], reverse=True)
        for folder in [*abandoned, *kept[KEPT - 1 :]]:
            with open(root / f"{folder.name}.lock", "a") as file, contextlib.suppress(BlockingIOError):
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(folder, ignore_errors=True)
