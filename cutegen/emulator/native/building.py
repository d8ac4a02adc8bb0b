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

from cutegen.cache_folder import cache_folder, is_trusted

SOURCES = (
    "core.c",
    "accesses.h",
    "agents.h",
    "block_barriers.h",
    "boxes.h",
    "first_writes.h",
    "functions.h",
    "global_accesses.h",
    "known_rows.h",
    "matrices.h",
    "mbarriers.h",
    "operations.h",
    "products.h",
    "shared_loads.h",
    "shared_races.h",
    "shared_stores.h",
    "shuffles.h",
    "warpgroups.h",
)
COMPILER_VARIABLE = "CC"
SWITCH = "CUTEGEN_NATIVE"
"""The environment variable that turns the core off where it is `0`."""
_OPTIONS = (
    *("-O2", "-std=gnu11", "-fPIC", "-shared"),
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
    return path is not None and is_trusted(path)


def compile_beside() -> None:
    """Has another process compile the library for later calls, if it is wanted, can be made, and is not there."""
    if is_lacking(folder := core_folder()):
        _begin(folder)


def is_lacking(folder: Path) -> bool:
    """Whether the library is wanted, may be made, and is not in a folder yet."""
    path = None if is_off() else _expected(folder, os.environ.get(COMPILER_VARIABLE))
    return path is not None and not is_trusted(path) and not _failed(path).exists()


@functools.cache
def _expected(folder: Path, compiler: str | None) -> Path | None:
    """The path of the library in a folder by a compiler, None where there is none."""
    try:
        return _library(folder, _command())
    except (NotBuiltError, OSError):
        return None


@functools.cache
def _begin(folder: Path) -> None:
    """Compiles the library in a process that nobody waits for, and that looks for modules where this one does."""
    paths = [path for path in sys.path if path]
    code = f"import sys; sys.path[:] = {paths!r}; from {__name__} import attempt; attempt({str(folder)!r})"
    with contextlib.suppress(OSError):
        subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )


def attempt(folder: str) -> None:
    """Compiles the library into a folder, unless another process does, and notes it there if that fails: only `built`
    tries again then.
    """
    with contextlib.suppress(NotBuiltError, OSError):
        path = _library(Path(folder), _command())
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        try:
            with _alone(path.with_suffix(".lock"), wait=False) as alone:
                if alone and not is_trusted(path):
                    _compile(_command(), path)
        except NotBuiltError as problem:
            _failed(path).write_text(f"{problem}\n", encoding="utf-8")


def _failed(path: Path) -> Path:
    """The file that says that a library cannot be compiled."""
    return path.with_suffix(".failed")


def built(folder: Path) -> Path:
    """The library in a folder, compiled if it is not there. Raises NotBuiltError."""
    command = _command()
    path = _library(folder, command)
    if is_trusted(path):
        return path
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.with_suffix(".lock")):
            if not is_trusted(path):
                _compile(command, path)
    except OSError as problem:
        raise NotBuiltError(f"{path.parent} cannot be written: {problem}") from problem
    if not is_trusted(path):
        raise NotBuiltError(f"others can write to {path.parent}")
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
    try:
        words = shlex.split(os.environ.get(COMPILER_VARIABLE) or "cc")
    except ValueError:  # a quote that does not end
        return None
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
def _alone(lock: Path, *, wait: bool = True) -> Iterator[bool]:
    """Lets one process at a time in, where this system has such locks; others wait, or learn of it."""
    try:
        import fcntl
    except ImportError:
        yield True
        return
    with open(lock, "w", encoding="ascii") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            yield False
            return
        yield True


def _compile(command: list[str], path: Path) -> None:
    """Compiles the source to the path, which has all of it or is not there. Raises NotBuiltError."""
    with tempfile.TemporaryDirectory(dir=path.parent, prefix=".") as aside:
        made = Path(aside, path.name)
        try:
            done = subprocess.run(
                [*command, "-o", str(made), str(Path(__file__).parent / SOURCES[0]), "-lm"],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=_PATIENCE,
                check=False,
                env={**os.environ, "TMPDIR": aside},  # which this process's own may not outlive
            )
        except subprocess.TimeoutExpired as problem:
            raise NotBuiltError(f"{command[0]} takes more than {_PATIENCE:.0f} s") from problem
        if done.returncode:
            last = (done.stderr.strip().splitlines() or ["it says nothing"])[0]
            raise NotBuiltError(f"{command[0]} fails with code {done.returncode}: {last}")
        made.chmod(0o700)
        os.replace(made, path)
        _failed(path).unlink(missing_ok=True)
