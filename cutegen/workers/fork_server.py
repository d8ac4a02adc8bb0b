"""The process that has imported what workers need, and forks them: `python -m cutegen.workers.fork_server MODULE...`.

Importing torch and the compiler takes seconds, a fork of the process that has them milliseconds. Standard input is the
Unix socket on which `forked.ForkServer` asks for workers: the length of a request in 4 bytes, with the descriptors of
the worker's standard input, output and error and of the pipe on which its end is told, then the request in JSON:
`{module, folder, environment}`. To the pipe goes a `STATUS` with the worker's process number, and at its end one with
its return code; or one with an error number where it cannot be forked. The modules are imported before the first
request is read; one that cannot be imported is left to the workers, which tell of it.

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
    """Forks workers until nobody can ask for one any more, and all of them have ended. Then its folder is removed."""
    gc.disable()  # imports make much that stays, and collections would look through all of it again and again
    for name in sys.argv[1:]:
        with contextlib.suppress(Exception):
            importlib.import_module(name)
    fresh = not may_fork()
    gc.collect()
    gc.freeze()  # what is there by now is never garbage: collections leave these pages shared
    gc.enable()
    asked = socket.socket(fileno=os.dup(0))
    woken, waker = os.pipe()
    os.set_blocking(waker, False)
    signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    running: dict[int, int] = {}  # process -> the pipe on which its end is told
    poll = select.poll()
    poll.register(asked, select.POLLIN)
    poll.register(woken, select.POLLIN)
    asking = True
    while asking or running:
        ready = {descriptor for descriptor, _ in poll.poll()}
        if woken in ready:
            os.read(woken, 1 << 10)
            _tell_ends(running)
        if asking and asked.fileno() in ready:
            request, given = _request(asked)
            if request is None:
                asking = False
                poll.unregister(asked)
                continue
            if len(given) != DESCRIPTORS:  # there is no room for them, and who asked finds the pipes closed
                for descriptor in given:
                    os.close(descriptor)
                continue
            stdin, stdout, log, status = given
            try:
                number = os.fork()
            except OSError as error:
                number = -(error.errno or errno.EAGAIN)
            if number == 0:
                signal.set_wakeup_fd(-1)
                for descriptor in (woken, waker, asked.detach(), *running.values(), status):
                    os.close(descriptor)
                _work(request, stdin, stdout, log, fresh)
            for descriptor in (stdin, stdout, log):
                os.close(descriptor)
            try:
                os.write(status, STATUS.pack(BEGUN, number) if number > 0 else STATUS.pack(REFUSED, -number))
            except BrokenPipeError:  # nobody wants it any more
                if number > 0:
                    with contextlib.suppress(ProcessLookupError):
                        os.kill(number, signal.SIGKILL)
            if number > 0:
                running[number] = status
            else:
                os.close(status)
    shutil.rmtree(Path.cwd(), ignore_errors=True)


def _request(asked: socket.socket) -> tuple[dict[str, Any] | None, list[int]]:
    """The next request, with its descriptors; None where there is none any more."""
    header, given, _, _ = socket.recv_fds(asked, NUMBER.size, DESCRIPTORS)
    while header and len(header) < NUMBER.size:
        header += asked.recv(NUMBER.size - len(header))
    text = b""
    while header and len(text) < NUMBER.unpack(header)[0]:
        if not (more := asked.recv(NUMBER.unpack(header)[0] - len(text))):
            return None, given
        text += more
    return (json.loads(text), given) if header else (None, given)


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
