"""Tells an allocation that failed because the machine has no more memory from what is wrong with a kernel."""

from __future__ import annotations

import errno
import re
from types import ModuleType, TracebackType

from cutegen.verification.executor import CannotRun

_UNITS = {"": 1, "k": 1 << 10, "m": 1 << 20, "g": 1 << 30, "t": 1 << 40, "p": 1 << 50, "e": 1 << 60}
_SIZE = re.compile(r"(?:allocate|needs) (\d[\d.]*) ?([kmgtpe]?)(?:i?b|bytes?)\b", re.IGNORECASE)
_SAID = ("can't allocate memory", "out of memory", "bad_alloc", "Cannot allocate memory")
_EMULATOR = "cutegen/emulator/host/emulated.py"  # what a module's function calls to run its kernels
_SLACK = 4  # what a call may allocate, over what its tensors and workspaces have


class NoMemory(CannotRun):
    """Raised for one case or check that needs memory which is not there; the message says how much, where known."""


def raise_no_memory(error: BaseException, module: ModuleType | None = None, bytes: int = 0) -> None:
    """Raises NoMemory if an exception says that memory is lacking; else returns.

    An allocation that `module` itself has asked for, in a call whose tensors and workspaces have so many `bytes`, must
    not be much larger than these: else it is the module that is wrong.
    """
    if isinstance(error, NoMemory):
        raise error
    if not _lacking(error):
        return
    size = _size(str(error))
    if module is not None and _asked_by(error.__traceback__, module) and (size is None or size > _SLACK * bytes):
        return
    need = "more memory than there is" if size is None else f"{size / 1e9:.1f} GB that are not there"
    raise NoMemory(f"needs {need}") from error


def _lacking(error: BaseException) -> bool:
    if isinstance(error, MemoryError) or type(error).__name__ == "OutOfMemoryError":
        return True
    if isinstance(error, OSError):
        return error.errno == errno.ENOMEM
    return isinstance(error, RuntimeError) and any(said in str(error) for said in _SAID)


def _size(text: str) -> float | None:
    """How many bytes could not be allocated, as numpy, torch and cutegen tell it."""
    found = _SIZE.search(text)
    return None if found is None else float(found[1]) * _UNITS[found[2].lower()]


def _asked_by(at: TracebackType | None, module: ModuleType) -> bool:
    """Whether an exception came out of a module's own code, not of a kernel that it ran."""
    inside = False
    while at is not None:
        file = at.tb_frame.f_code.co_filename.replace("\\", "/")
        if file == module.__file__:
            inside = True
        elif file.endswith(_EMULATOR):
            inside = False
        at = at.tb_next
    return inside
