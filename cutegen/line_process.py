"""A child process that is asked in lines and answers in lines: start, ask, read the answer within a time, kill."""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, TextIO


class Died(Exception):
    """The process ended without an answer."""


class TimedOut(Exception):
    """The process gave no answer in time."""


def served() -> tuple[TextIO, TextIO]:
    """In the process that is asked: the lines that it is asked in, and where its answers go.

    From then on its standard input is empty, and what it prints goes to standard error: libraries print, too.
    """
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers


class LineProcess:
    """A running process. Used by one thread; `kill` may come from any."""

    def __init__(self, command: Sequence[str], folder: Path, environment: Mapping[str, str], log: IO[bytes]) -> None:
        """Runs `command` in `folder`; what it writes to its standard error goes to `log`."""
        self._buffer = b""
        self._closed = False
        self.process = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=log,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,  # so that Ctrl-C reaches the parent only, and a kill reaches its children too
        )

    def ask(self, line: str, timeout: float) -> str:
        """The answer to a line, within `timeout` seconds. Raises Died, TimedOut; then the process is of no use."""
        assert self.process.stdin is not None
        try:
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()
        except (BrokenPipeError, ValueError) as problem:
            raise Died from problem
        return self.read(timeout)

    def read(self, timeout: float) -> str:
        """The next line that the process writes, within `timeout` seconds. Raises Died, TimedOut."""
        assert self.process.stdout is not None
        descriptor = self.process.stdout.fileno()
        deadline = time.monotonic() + timeout
        poll = select.poll()  # unlike select.select, fine with descriptors above 1024
        poll.register(descriptor, select.POLLIN)
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise TimedOut
            chunk = os.read(descriptor, 1 << 20)
            if not chunk:
                raise Died
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        return line.decode()

    def end(self, patience: float) -> int:
        """Asks for no more, and ends the process by force after that many seconds; its exit code."""
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(patience)
        self.close()
        return self.process.returncode

    def kill(self) -> None:
        """Ends the process and its children at once: those too that outlived it."""
        if not self._closed:  # its number may be another's by then
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills the process if it still runs, and closes its pipes."""
        self.kill()
        self.process.wait()
        self._closed = True
        for stream in (self.process.stdin, self.process.stdout):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()


def exit_text(code: int) -> str:
    """How a process ended, from its return code: `exit status 1`, `signal SIGSEGV`."""
    if code >= 0:
        return f"exit status {code}"
    name = signal_name(-code)
    return name if name.startswith("signal") else f"signal {name}"


def signal_name(number: int) -> str:
    """SIGSEGV for 11; `signal 99` for a number that has no name."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
