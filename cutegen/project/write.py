"""Writes and removes several files, all of them or none."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from types import FrameType

STAGE = ".cutegen-"
_ABANDONED = 3600.0  # seconds after which a stage was left by a process that was killed


def write_all(changes: Mapping[Path, bytes | None]) -> None:
    """Gives every path its bytes, or removes it where they are None. The folders must exist.

    New files are complete and on disk before the first one is moved into place, so a reader never sees half a file. On
    any exception, KeyboardInterrupt included, the previous files are restored with their times and modes, and the
    exception propagates. Ctrl-C and SIGTERM wait until the files are whole again.
    """
    with _signals_wait() as arrived:
        undo: list[Callable[[], None]] = []
        stages: dict[Path, Path] = {}
        try:
            for folder in sorted({path.parent for path in changes}):
                _sweep(folder)
                stages[folder] = _new_stage(folder)
            new = {path: _stage(stages[path.parent], path, data) for path, data in changes.items() if data is not None}
            if arrived:  # nothing was touched so far
                number = arrived.pop()
                raise KeyboardInterrupt if number == signal.SIGINT else SystemExit(128 + number)
            for path in changes:
                _swap(path, new.get(path), stages[path.parent] / f"old-{path.name}", undo)
            for folder in stages:
                _sync(folder)
        except BaseException:
            for action in reversed(undo):
                with contextlib.suppress(OSError):  # the rest is put back all the same
                    action()
            raise
        finally:
            for stage in stages.values():
                shutil.rmtree(stage, ignore_errors=True)


@contextlib.contextmanager
def locked(folders: Iterable[Path]) -> Iterator[None]:
    """Creates the folders and keeps other builds out of them. What it created and is still empty, it removes again.

    Raises OSError where a folder cannot be made or opened.
    """
    with contextlib.ExitStack() as stack:
        for folder in sorted(set(folders)):  # one order for all processes, or two could wait for each other
            _lock(folder, stack)
        yield


def _lock(folder: Path, stack: contextlib.ExitStack) -> None:
    """Creates a folder and locks it, until the stack is unwound."""
    import fcntl

    while True:
        created = _make(folder)
        for made in created:  # outermost first, so that it is removed last
            stack.callback(_remove_empty, made)
        try:
            handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        except FileNotFoundError:  # another process that had made it removed it again
            continue
        with contextlib.suppress(OSError):  # some network disks have no locks; each file is still replaced whole
            fcntl.flock(handle, fcntl.LOCK_EX)
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(handle), os.stat(folder)):
                stack.callback(os.close, handle)
                return
        os.close(handle)


def _make(folder: Path) -> list[Path]:
    """Creates a folder and those above it; gives those that had to be created, outermost first."""
    missing = [folder] if not folder.is_dir() else []
    while missing and not missing[-1].parent.is_dir():
        missing.append(missing[-1].parent)
    created = []
    for path in reversed(missing):
        try:
            path.mkdir()
            created.append(path)
        except FileExistsError:
            if not path.is_dir():
                raise
    return created


def _remove_empty(folder: Path) -> None:
    """Removes a folder if nothing is in it."""
    with contextlib.suppress(OSError):
        folder.rmdir()


def _new_stage(folder: Path) -> Path:
    """Makes a folder for files that are to be moved into `folder`. Raises OSError that names `folder`."""
    try:
        return Path(tempfile.mkdtemp(prefix=STAGE, dir=folder))
    except OSError as error:
        error.filename = str(folder)  # what the caller asked for; nobody knows the name of the stage
        raise


def _stage(stage: Path, path: Path, data: bytes) -> Path:
    """Writes the file that is to be moved to `path`, with the mode of what is there; gives the written file's path."""
    new = stage / f"new-{path.name}"
    with open(new, "xb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    with contextlib.suppress(FileNotFoundError):
        os.chmod(new, stat.S_IMODE(os.stat(path).st_mode))
    return new


def _swap(path: Path, new: Path | None, old: Path, undo: list[Callable[[], None]]) -> None:
    """Moves `new` to `path`, or removes what is there where `new` is None.

    What was there goes to `old`; `undo` gets the way back.
    """
    if os.path.lexists(path):

        def put_back() -> None:
            if os.path.lexists(old):
                os.replace(old, path)

        undo.append(put_back)
        if new is None:
            os.replace(path, old)
            return
        # A second name for the old file, so that there is no moment without one of the two.
        try:
            os.link(path, old, follow_symlinks=False)
        except OSError:  # a disk without hard links
            shutil.copy2(path, old, follow_symlinks=False)
    elif new is not None:

        def take_away() -> None:
            if not new.exists():  # it was moved into place
                path.unlink()

        undo.append(take_away)
    if new is not None:
        os.replace(new, path)


def _sync(folder: Path) -> None:
    """Waits until the entries of a folder are on disk."""
    with contextlib.suppress(OSError):  # not every file system syncs folders
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _sweep(folder: Path) -> None:
    """Removes what processes that were killed in the middle of writing left behind in a folder."""
    for left in folder.glob(f"{STAGE}*"):
        with contextlib.suppress(OSError):
            if left.is_dir() and time.time() - left.stat().st_mtime > _ABANDONED:
                shutil.rmtree(left)


@contextlib.contextmanager
def _signals_wait() -> Iterator[list[int]]:
    """Holds back SIGINT and SIGTERM, and yields the list of those that have arrived.

    What is left in the list is delivered at the end.
    """
    arrived: list[int] = []
    if threading.current_thread() is not threading.main_thread():
        yield arrived  # signals reach the main thread only
        return

    def note(number: int, frame: FrameType | None) -> None:
        arrived.append(number)

    heeded = [number for number in (signal.SIGINT, signal.SIGTERM) if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, note) for number in heeded}
    try:
        yield arrived
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        for late in arrived:
            signal.raise_signal(late)
