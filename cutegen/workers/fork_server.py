"""The process that has imported what workers need, and forks them: `python -m cutegen.workers.fork_server MODULE...`.

Importing torch and the compiler takes seconds, a fork of the process that has them milliseconds. Standard input is the
Unix socket on which `forked.ForkServer` asks for workers: the length of a request in 4 bytes, with the descriptors of
the worker's standard input, output and error and of the pipe that reports its end, then the request in JSON: `{module,
folder, environment, imports}`. To the pipe goes a `STATUS` with the worker's process number, and at its end one with
its return code; or one with an error number where it cannot be forked. A worker is forked once the modules that it
needs, `imports`, were imported; one that cannot be imported is left to the workers, which tell of it.

A process that has threads or a driver of CUDA cannot be forked: a fork copies neither threads nor the driver's state.
Where an import has brought either, workers import what they need themselves.
"""

from __future__ import annotations

import contextlib
import errno
import gc
import importlib
import json
import os
import select
import shutil
import signal
import socket
import struct
import sys
import tempfile
import traceback
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

NUMBER = struct.Struct("!i")
STATUS = struct.Struct("!ci")
BEGUN, ENDED, REFUSED = b"b", b"e", b"r"
DESCRIPTORS = 4


def may_fork() -> bool:
    """Whether a fork of this process can go on as this one would: on Linux, without threads and a driver of CUDA."""
    if sys.platform != "linux":
        return False
    return len(os.listdir("/proc/self/task")) == 1 and b"libcuda.so" not in Path("/proc/self/maps").read_bytes()


def main() -> None:
    """Forks workers until nobody can ask for one any more, and all of them have ended. Then its folder is removed.

    A worker that needs some of the modules only is forked once these are imported, while the others are to come.
    """
    gc.disable()  # imports make much that stays, and collections would look through all of it again and again
    left = deque(sys.argv[1:])
    asked = socket.socket(fileno=os.dup(0))
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    server = _Server(asked, (woken, waker))
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    poll.register(woken, select.POLLIN)
    asking = True
    waiting: list[_Request] = []
    while asking or server.running or waiting:
        imports = bool(left) and (asking or bool(waiting))
        ready = {descriptor for descriptor, _ in poll.poll(0 if imports or waiting else None)}
        if woken in ready:
            os.read(woken, 1 << 10)
            _tell_ends(server.running)
        if asking and asked.fileno() in ready:
            request = _request(asked)
            if request is None:
                asking = False
                poll.unregister(asked)
            elif len(request.given) == DESCRIPTORS:
                waiting.append(request)
            else:  # there is no room for them, and who asked finds the pipes closed
                for descriptor in request.given:
                    os.close(descriptor)
        for request in [one for one in waiting if not {*one.text["imports"]} & {*left}]:
            waiting.remove(request)
            server.fork(request, [descriptor for other in waiting for descriptor in other.given])
        if imports:
            with contextlib.suppress(Exception):
                importlib.import_module(left[0])
            left.popleft()
            if not left:
                gc.collect()
    shutil.rmtree(Path.cwd(), ignore_errors=True)


@dataclass
class _Request:
    """A request for a worker: its text, and the descriptors that came with it."""

    text: dict[str, Any]
    given: list[int]


class _Server:
    """Forks workers. `running` has the pipe that reports each one's end, by the number of its process.

    `own` are descriptors that no worker keeps, as it keeps none of `asked`.
    """

    def __init__(self, asked: socket.socket, own: Sequence[int]) -> None:
        self._asked, self._own = asked, own
        self.running: dict[int, int] = {}

    def fork(self, request: _Request, others: Sequence[int]) -> None:
        """Forks a worker, and tells of it. It closes `others`, the descriptors of those that are still to be forked."""
        stdin, stdout, log, status = request.given
        fresh = not may_fork()
        gc.freeze()  # what is there by now is never garbage: collections leave these pages shared
        try:
            number = os.fork()
        except OSError as error:
            number = -(error.errno or errno.EAGAIN)
        if number == 0:
            signal.set_wakeup_fd(-1)
            gc.enable()
            for descriptor in (*self._own, self._asked.detach(), *self.running.values(), *others, status):
                os.close(descriptor)
            _work(request.text, stdin, stdout, log, fresh)
        for descriptor in (stdin, stdout, log):
            os.close(descriptor)
        try:
            os.write(status, STATUS.pack(BEGUN, number) if number > 0 else STATUS.pack(REFUSED, -number))
        except BrokenPipeError:  # nobody wants it any more
            if number > 0:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(number, signal.SIGKILL)
        if number > 0:
            self.running[number] = status
        else:
            os.close(status)


def _request(asked: socket.socket) -> _Request | None:
    """The next request; None where there is none any more."""
    header, given, _, _ = socket.recv_fds(asked, NUMBER.size, DESCRIPTORS)
    while header and len(header) < NUMBER.size:
        header += asked.recv(NUMBER.size - len(header))
    text = b""
    while header and len(text) < NUMBER.unpack(header)[0]:
        if not (more := asked.recv(NUMBER.unpack(header)[0] - len(text))):
            return None
        text += more
    return _Request(json.loads(text), given) if header else None


def _tell_ends(running: dict[int, int]) -> None:
    """Tells of the workers that have ended."""
    while running:
        number, how = os.waitpid(-1, os.WNOHANG)
        if not number:
            return
        status = running.pop(number, None)
        if status is not None:  # else it is none of the workers
            with contextlib.suppress(BrokenPipeError):
                os.write(status, STATUS.pack(ENDED, os.waitstatus_to_exitcode(how)))
            os.close(status)


def _work(request: dict[str, Any], stdin: int, stdout: int, log: int, fresh: bool) -> NoReturn:
    """Becomes a worker, in a session of its own, and runs the function `main` of its module: in a `fresh` process that
    has imported nothing, or in this one.
    """
    code = 1
    try:
        os.setsid()
        for place, descriptor in enumerate((stdin, stdout, log)):
            os.dup2(descriptor, place)
            os.close(descriptor)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        os.chdir(request["folder"])
        if fresh:
            command = [sys.executable, "-m", "cutegen.workers", request["module"]]
            os.execve(sys.executable, command, request["environment"])
        os.environ.clear()
        os.environ.update(request["environment"])
        tempfile.tempdir = None  # which was that of this environment
        paths = [path for path in os.environ.get("PYTHONPATH", "").split(os.pathsep) if path]
        sys.path[:] = dict.fromkeys([*paths, *sys.path])
        sys.argv[:] = [sys.argv[0], request["module"]]
        importlib.import_module(request["module"]).main()
        code = 0
    except SystemExit as end:
        code = end.code if isinstance(end.code, int) else int(end.code is not None)
    except BaseException:
        traceback.print_exc()
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(code & 0xFF)


if __name__ == "__main__":
    main()
