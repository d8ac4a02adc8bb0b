"""One worker process, seen from the process that asks: its folder, its environment, its lines, its end."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cutegen.errors import plain
from cutegen.workers.forked import Forked, fork_server

_LOG_BYTES = 1 << 20  # of a log that are read
_TRACE_SECONDS = 0.2  # for the answer to SIGUSR1


@dataclass(frozen=True)
class Setup:
    """How the workers of a crew are started, how long they may take, and how they are ended. Times are in seconds."""

    command: Sequence[str]
    environment: Callable[[Path], Mapping[str, str]]  # from the folder that the process runs in
    timeout: float  # for a job
    renewed: bool = False  # whether each event of a job starts its time anew
    start_timeout: float = 300.0  # until a process is ready
    patience: float = 0.0  # for a process to end by itself that is needed no more
    traced: bool = False  # whether SIGUSR1 makes a process print where it is, for the log of a timeout
    imports: Sequence[str] = ()  # modules that workers of this package need, which are forked where they are imported


def worker_command(module: str) -> tuple[str, ...]:
    """The command of a worker whose function `main` is in that module of this package."""
    return (sys.executable, "-m", "cutegen.workers", module)


def python_path(*more: str) -> str:
    """A PYTHONPATH with which a process finds the modules that this one does, and those in further folders."""
    return os.pathsep.join([*(path for path in sys.path if path), *more])


def prepare(setup: Setup) -> None:
    """Begins to import what workers need, while there is none to be started yet."""
    with contextlib.suppress(OSError):  # which the first worker tells
        fork_server(setup.imports, setup.environment(Path.cwd()))


def _forked(setup: Setup, folder: Path, log: int) -> Forked | None:
    """The process of a worker, forked where its modules are imported; None where that cannot be."""
    if tuple(setup.command) != worker_command(setup.command[-1]):
        return None
    environment = setup.environment(folder)
    with contextlib.suppress(OSError):
        if (server := fork_server(setup.imports, environment)) is not None:
            return server.start(setup.command[-1], folder, environment, log, setup.imports)
    return None


def _started(setup: Setup, folder: Path, log: int) -> subprocess.Popen[bytes]:
    """The process of a worker, which imports what it needs. Raises OSError."""
    return subprocess.Popen(
        list(setup.command),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=log,
        cwd=folder,
        env=dict(setup.environment(folder)),
        start_new_session=True,  # so that Ctrl-C reaches the parent only, and a kill reaches its children too
    )


class Worker:
    """A running process with a folder of its own for temporary files.

    It is used by one thread; `kill` may come from any.
    """

    def __init__(self, setup: Setup) -> None:
        """Starts the process. Raises OSError where that is impossible."""
        self._setup = setup
        self._buffer = b""
        self._closed = False
        self._log_start = 0
        self._process: Forked | subprocess.Popen[bytes]
        self._folder = tempfile.TemporaryDirectory(prefix="cutegen-worker-", ignore_cleanup_errors=True)
        try:
            self.folder = Path(self._folder.name).resolve()
            (work := self.folder / "work").mkdir()
            self._log = (self.folder / "log").open("a+b")
            self._process = _forked(setup, work, self._log.fileno()) or _started(setup, work, self._log.fileno())
        except BaseException:
            self._folder.cleanup()
            raise

    def fileno(self) -> int:
        """The descriptor to wait at for what the worker says."""
        assert self._process.stdout is not None
        return self._process.stdout.fileno()

    def send(self, job: object) -> None:
        """Gives the worker a job. If the process has ended, `hear` notices, not this."""
        assert self._process.stdin is not None
        self._log_start = self._log.seek(0, os.SEEK_END)
        with contextlib.suppress(BrokenPipeError, ValueError):
            self._process.stdin.write(base64.b64encode(pickle.dumps(job)) + b"\n")
            self._process.stdin.flush()

    def hear(self) -> list[tuple[str, Any]] | None:
        """Returns the events that the worker has sent since the last call, as pairs of kind and data; None at the end
        of its output. May block.
        """
        chunk = os.read(self.fileno(), 1 << 20)
        if not chunk:
            return None
        *lines, self._buffer = (self._buffer + chunk).split(b"\n")
        return [event for line in lines for event in json.loads(line).items()]

    @property
    def begun(self) -> bool:
        """Whether there has been a process, which is known of one that says no more."""
        return not isinstance(self._process, Forked) or self._process.begun

    def log(self) -> str:
        """Text that the process printed since it got its last job, or since its start; only the end of long text."""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(self._log_start, end - _LOG_BYTES))
        return plain(self._log.read().decode("utf-8", "replace"))

    def trace(self) -> None:
        """Lets the process print its stack, if it can."""
        if self._setup.traced:
            with contextlib.suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGUSR1)
                time.sleep(_TRACE_SECONDS)

    def end(self, patience: float) -> int:
        """Asks for no more, and ends the process by force after that many seconds; gives its return code."""
        with contextlib.suppress(OSError):
            assert self._process.stdin is not None
            self._process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(patience)
        self.kill()
        return self._process.wait()

    def kill(self) -> None:
        """Ends the process and its children at once, those included that outlived it."""
        if not self._closed:  # its number may be another's by then
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if isinstance(self._process, Forked):
                    self._process.kill_group()
                else:
                    os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Ends the process, and removes all that it left on disk."""
        if self._closed:
            return
        self.end(self._setup.patience)
        self._closed = True
        for stream in (self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._folder.cleanup()
