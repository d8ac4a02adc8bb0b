"""Compiles the C core with the system's compiler, once for each source, compiler and kind of processor.

The library lies where Python keeps the package's bytecode, or in cutegen's folder of caches where that cannot be
written. Several processes may use it: one of them compiles, aside, and renames the library into place, while the others
wait, or do without.
"""

from __future__ import annotations

import contextlib
import functools
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from cutegen.cache_folder import cache_folder

SOURCES = ("core.c", "functions.h", "operations.h")
COMPILER_VARIABLE = "CC"
SWITCH = "CUTEGEN_NATIVE"
"""The environment variable that turns the core off where it is `0`."""
_OPTIONS = (
    *("-O3", "-std=gnu11", "-fPIC", "-shared"),
    # Bits are those of IEEE 754, and of numpy: nothing is fused or taken to be finite
    *("-ffp-contract=off", "-fno-math-errno", "-fno-trapping-math"),
)
_FAST = {"avx2": "-mavx2", "fma": "-mfma", "bmi2": "-mbmi2", "popcnt": "-mpopcnt"}  # of x86: flag -> option
_PATIENCE = 120.0  # seconds for the compiler


class NotBuiltError(Exception):
    """There is no compiled core; the message says why."""


def is_off() -> bool:
    """Whether the environment turns the core off."""
    return os.environ.get(SWITCH, "1") == "0"


def core_folder() -> Path:
    """The folder that the library lies in, or is compiled into."""
    own = Path(__file__).parent / "__pycache__"
    writable = own if own.exists() else own.parent
    return cache_folder() if sys.dont_write_bytecode or not os.access(writable, os.W_OK) else own


def is_there(folder: Path) -> bool:
    """Whether the library is in a folder."""
    path = _expected(folder, os.environ.get(COMPILER_VARIABLE))
    return path is not None and path.exists()


def begin() -> None:
    """Has another process compile the library for later calls, if it is wanted, can be made, and is not there."""
    folder = core_folder()
    if not is_off() and _expected(folder, os.environ.get(COMPILER_VARIABLE)) and not is_there(folder):
        _begin()


@functools.cache
def _expected(folder: Path, compiler: str | None) -> Path | None:
    """The path of the library in a folder by a compiler, None where there is none."""
    try:
        return _library(folder, _command())
    except NotBuiltError:
        return None


@functools.cache
def _begin() -> None:
    """Compiles the library in a process that nobody waits for."""
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-m", __package__],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def built(folder: Path) -> Path:
    """The library in a folder, compiled if it is not there. Raises NotBuiltError."""
    command = _command()
    path = _library(folder, command)
    if path.exists():
        return path
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if not path.exists():
                _compile(command, Path(__file__).parent / SOURCES[0], path)
    except OSError as problem:
        raise NotBuiltError(f"{path.parent} cannot be written: {problem}") from problem
    return path


def _command() -> list[str]:
    """The command that compiles the library. Raises NotBuiltError where there is no compiler."""
    found = compiler()
    if found is None:
        raise NotBuiltError(f"there is no C compiler {os.environ.get(COMPILER_VARIABLE) or 'cc'!r}")
    return [*found, *_OPTIONS, *_for_processor()]


def _library(folder: Path, command: list[str]) -> Path:
    """The path of the library in a folder."""
    texts = [(Path(__file__).parent / name).read_bytes() for name in SOURCES]
    return folder / "native" / f"core-{_key(command, texts)}.so"


def compiler() -> list[str] | None:
    """The command of the C compiler, `cc` unless `$CC` names another one, or None if there is none."""
    words = shlex.split(os.environ.get(COMPILER_VARIABLE) or "cc")
    found = shutil.which(words[0]) if words else None
    return None if found is None else [found, *words[1:]]


def _key(command: list[str], texts: list[bytes]) -> str:
    """A digest of all that decides the library: sources, command, the compiler's file, and the kind of machine."""
    compiler = os.stat(command[0])
    parts = [*command, compiler.st_size, compiler.st_mtime_ns, platform.machine(), platform.system(), *texts]
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def _for_processor() -> list[str]:
    """Options for instructions that this processor has. They make loops faster, and change no bit of what they give."""
    if platform.machine() not in ("x86_64", "AMD64"):
        return []
    flags: set[str] = set()
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="ascii", errors="replace") as lines:
        flags = next((set(line.split()) for line in lines if line.startswith("flags")), flags)
    return list(_FAST.values()) if flags.issuperset(_FAST) else []


@contextlib.contextmanager
def _alone(lock: Path) -> Iterator[None]:
    """Lets one process at a time in, where this system has such locks."""
    try:
        import fcntl
    except ImportError:
        yield
        return
    with open(lock, "w", encoding="ascii") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _compile(command: list[str], source: Path, path: Path) -> None:
    """Compiles the source to the path, which has all of it or is not there. Raises NotBuiltError."""
    handle, aside = tempfile.mkstemp(dir=path.parent, suffix=".so")
    os.close(handle)
    try:
        done = subprocess.run(
            [*command, "-o", aside, str(source), "-lm"],
            capture_output=True,
            text=True,
            errors="replace",
            timeout=_PATIENCE,
            check=False,
        )
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
            raise NotBuiltError(f"{command[0]} fails with code {done.returncode}: {last}")
        os.replace(aside, path)
    except subprocess.TimeoutExpired as problem:
        raise NotBuiltError(f"{command[0]} takes more than {_PATIENCE:.0f} s") from problem
    finally:
        with contextlib.suppress(OSError):
            os.unlink(aside)
