"""Workers that are forked from a process which has imported what they need, seen from the process that asks.

It differs from `multiprocessing`'s fork server in two ways: a worker is not given the main module of this process,
which may be any program that calls cutegen and may not tolerate a second import; and its standard input and output, its
folder and its environment are its own, as those of `subprocess.Popen` are.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import IO

from cutegen.cache_folder import FOLDER_VARIABLE
from cutegen.workers.fork_server import BEGUN, NUMBER, REFUSED, STATUS

# Variables of which each worker has its own: no import reads them
_OWN = ("PYTHONPATH", "TMPDIR", FOLDER_VARIABLE, "PYTEST_CURRENT_TEST")
_MOST = 2  # fork servers at a time
_SOON = 1.0  # seconds


class Forked:
    """A process that was forked, or is about to be, with what workers use of `subprocess.Popen`.

    `stdin` and `stdout` are this process's ends of pipes, `status` is the pipe on which the fork server, the process
    `server`, tells of it. Threads may share it.
    """

    def __init__(self, server: subprocess.Popen[bytes], stdin: int, stdout: int, status: int) -> None:
        self._server = server
        self.stdin: IO[bytes] = os.fdopen(stdin, "wb")
        self.stdout: IO[bytes] = os.fdopen(stdout, "rb", buffering=0)
        self._status = status
        self._number: int | None = None
        self._code: int | None = None
        self._reading = threading.RLock()

    @property
    def begun(self) -> bool:
        """Whether it runs or has run."""
        self._hear()
        return self._number is not None

    def send_signal(self, number: int) -> None:
        """Sends it a signal. Raises ProcessLookupError where it does not run, or not yet."""
        self._hear()
        if self._number is None or self._code is not None:
            raise ProcessLookupError("no such process")
        os.kill(self._number, number)

    def kill_group(self) -> None:
        """Ends it at once, and its children, those included that have outlived it. Raises ProcessLookupError where
        there are none.
        """
        self._hear()
        if self._number is None:
            self._end(-signal.SIGKILL)  # the fork server, which cannot tell of it, kills it
            return
        try:
            os.killpg(self._number, signal.SIGKILL)
        except ProcessLookupError:
            if self._code is None:  # it has no group of its own yet
                os.kill(self._number, signal.SIGKILL)

    def wait(self, timeout: float | None = None) -> int:
        """Its return code. Raises subprocess.TimeoutExpired where it runs on for so many seconds."""
        while self._code is None:
            if not _readable(self._status, timeout):
                raise subprocess.TimeoutExpired("a worker", timeout or 0.0)
            self._hear()
        return self._code

    def _hear(self) -> None:
        """Takes what the fork server has told of it so far."""
        with self._reading:
            while self._code is None and _readable(self._status, 0.0):
                told = os.read(self._status, STATUS.size)
                if len(told) < STATUS.size:
                    self._lose()
                    return
                kind, number = STATUS.unpack(told)
                if kind == BEGUN:
                    self._number = number
                else:
                    self._end(-signal.SIGKILL if kind == REFUSED else number)

    def _lose(self) -> None:
        """Notes its end where the fork server has ended and tells no more: how that did, or that it was killed, which
        it is here.
        """
        if self._number is not None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._number, signal.SIGKILL)
            self._end(-signal.SIGKILL)
            return
        try:
            self._end(self._server.wait(_SOON))
        except subprocess.TimeoutExpired:
            self._end(-signal.SIGKILL)

    def _end(self, code: int) -> None:
        with self._reading:
            if self._code is None:
                self._code = code
                os.close(self._status)


def _readable(descriptor: int, timeout: float | None) -> bool:
    """Whether something can be read, or will be within a time."""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    return bool(poll.poll(None if timeout is None else timeout * 1000))


class ForkServer:
    """A running fork server, whose process has imported some modules in an environment."""

    def __init__(self, modules: Sequence[str], environment: Mapping[str, str]) -> None:
        """Starts it; nobody waits for its imports. Raises OSError where no process can be started."""
        self._folder = folder = tempfile.mkdtemp(prefix="cutegen-worker-")  # which it removes as it ends
        self._asking = threading.Lock()  # crews of several threads ask
        self._broken = False
        self._socket, theirs = socket.socketpair()
        with contextlib.ExitStack() as failing, theirs:
            failing.callback(shutil.rmtree, folder, ignore_errors=True)
            failing.callback(self._socket.close)
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cutegen.workers.fork_server", *modules],
                stdin=theirs.fileno(),
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=folder,
                env={**environment, "TMPDIR": folder},
                start_new_session=True,
            )
            failing.pop_all()

    def start(
        self, module: str, folder: Path, environment: Mapping[str, str], log: int, imports: Sequence[str]
    ) -> Forked:
        """Asks for a worker with these, whose standard error is the descriptor `log`, and which needs `imports`.

        Raises OSError.
        """
        asked = {"module": module, "folder": str(folder), "environment": dict(environment), "imports": [*imports]}
        request = json.dumps(asked).encode()
        ours: list[int] = []
        theirs: list[int] = []
        try:
            for incoming in (True, False, False):
                reading, writing = os.pipe()
                ours.append(writing if incoming else reading)
                theirs.append(reading if incoming else writing)
            stdin, stdout, status = theirs
            with self._asking:
                socket.send_fds(self._socket, [NUMBER.pack(len(request))], [stdin, stdout, log, status])
                self._socket.sendall(request)
        except BaseException:  # a half of a request may be there
            self._broken = True
            for descriptor in ours:
                os.close(descriptor)
            raise
        finally:
            for descriptor in theirs:
                os.close(descriptor)
        return Forked(self._process, *ours)

    @property
    def ended(self) -> bool:
        """Whether it takes no more requests."""
        return self._broken or self._process.poll() is not None

    def close(self) -> None:
        """Has it end once its workers have."""
        self._socket.close()

    def kill(self) -> None:
        """Ends it at once, but not its workers, whose end is no longer reported."""
        self._socket.close()
        self._process.kill()
        self._process.wait()
        shutil.rmtree(self._folder, ignore_errors=True)


_Key = tuple[int, str, tuple[tuple[str, str], ...]]
_servers: dict[_Key, ForkServer] = {}
_busy = threading.Lock()


def fork_server(modules: Sequence[str], environment: Mapping[str, str]) -> ForkServer | None:
    """The fork server of this process for workers in an environment, begun now, with these modules, or before.

    None where what they import could not be forked, as where there is a driver of CUDA. Raises OSError where no process
    can be started.
    """
    if not modules or sys.platform != "linux" or _has_driver():
        return None
    own = tuple(sorted((name, value) for name, value in environment.items() if name not in _OWN))
    key = os.getpid(), sys.executable, own
    with _busy:
        if key in _servers and _servers[key].ended:
            _servers.pop(key).kill()
        if key not in _servers:
            atexit.unregister(end_fork_servers)
            atexit.register(end_fork_servers)
            while len(_servers) >= _MOST:
                _servers.pop(next(iter(_servers))).close()
            _servers[key] = ForkServer(modules, environment)
        return _servers[key]


@cache
def _has_driver() -> bool:
    """Whether torch finds a driver of CUDA."""
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return True


def end_fork_servers() -> None:
    """Ends the fork servers of this process, whose crews are closed, and removes their folders."""
    with _busy:
        for key in [key for key in _servers if key[0] == os.getpid()]:
            _servers.pop(key).kill()
