"""A kernel's cases and host checks in several processes that are forked once it is compiled."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NoReturn

from cutegen.verification.parts import Part
from cutegen.verification.sharing import Share, Turns
from cutegen.workers import Tell

_PR_SET_PDEATHSIG = 1

Verify = Callable[[Share, Tell], Part]


@dataclass
class _Child:
    """A process, and what it has said: whole lines were told on."""

    number: int
    pipe: int
    deadline: float  # by `time.monotonic`
    rest: bytes = b""
    part: Part | None = None


def verify_in_forks(verify: Verify, tell: Tell, processes: int, timeout: float) -> list[Part] | None:
    """The results of so many processes that share a kernel's cases and checks; None if one of them did not come to its
    end, or was silent for `timeout` seconds.

    `verify` does a share, in a fork of this process, which must have no threads and no GPU. Its events go to `tell`.
    """
    queues = [Turns.queue(), Turns.queue()]
    children: list[_Child] = []
    running: dict[int, _Child] = {}
    try:
        for _ in range(processes):
            child = _begin(verify, queues, running, time.monotonic() + timeout)
            children.append(child)
            running[child.pipe] = child
        while running:
            poll = select.poll()
            for pipe in running:
                poll.register(pipe, select.POLLIN)
            left = min(child.deadline for child in running.values()) - time.monotonic()
            if left <= 0:
                return None
            for pipe, _ in poll.poll(left * 1000):
                running[pipe].deadline = time.monotonic() + timeout
                if not _heed(running[pipe], tell):
                    child = running.pop(pipe)
                    os.close(pipe)
                    os.waitpid(child.number, 0)
                    if child.part is None:
                        return None
    except OSError:  # no more processes, or no more descriptors
        return None
    finally:
        for child in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.number, signal.SIGKILL)
            os.waitpid(child.number, 0)
            os.close(child.pipe)
        for queue in queues:
            os.close(queue)
    return [child.part for child in children if child.part]


def _begin(verify: Verify, queues: Sequence[int], others: Iterable[int], deadline: float) -> _Child:
    """A process that does a share."""
    reading, writing = os.pipe()
    parent, number = os.getpid(), os.fork()
    if number == 0:
        for pipe in (reading, *others):
            os.close(pipe)
        _end_with(parent)
        _work(verify, Turns(queues), writing)
    os.close(writing)
    return _Child(number, reading, deadline)


def _end_with(parent: int) -> None:
    """Has this process killed as soon as its parent ends (prctl, PR_SET_PDEATHSIG of Linux)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


def _work(verify: Verify, turns: Turns, pipe: int) -> NoReturn:
    """Does a share, writes what comes of it to the pipe, and ends this process."""
    gc.freeze()  # what is there by now is not looked through after each case, and its pages stay shared
    try:
        with os.fdopen(pipe, "w", encoding="utf-8") as told:

            def tell(kind: str, data: Any) -> None:
                print(json.dumps({kind: data}), file=told, flush=True)

            tell("part", verify(turns, tell).as_json())
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):
                stream.flush()
        os._exit(0)


def _heed(child: _Child, tell: Tell) -> bool:
    """Takes what a child says, and tells it on; whether it may say more."""
    chunk = os.read(child.pipe, 1 << 20)
    *lines, child.rest = (child.rest + chunk).split(b"\n")
    for line in lines:
        for kind, data in json.loads(line).items():
            if kind == "part":
                child.part = Part.from_json(data)
            else:
                tell(kind, data)
    return bool(chunk)
