"""A kernel's cases and host checks in several processes that are forked once it is compiled."""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn

from cutegen.planning.plan import Plan
from cutegen.verification.report import KernelReport, as_json, from_json
from cutegen.verification.sharing import SHARES, Share, together
from cutegen.workers import Tell

Verify = Callable[[Share, Tell], KernelReport]


@dataclass
class _Child:
    """A process that does a share, and what it has said: whole lines were told on."""

    share: int
    number: int
    pipe: int
    rest: bytes = b""
    report: KernelReport | None = field(default=None)


def verify_in_forks(plan: Plan, verify: Verify, tell: Tell, processes: int) -> KernelReport | None:
    """The report of a kernel whose shares so many processes do at a time, a process each; None where one of them did
    not come to its end.

    `verify` does a share, in a fork of this process, which must have no threads and no GPU. Its events are told here.
    """
    start = time.perf_counter()
    waiting = list(reversed(range(SHARES)))
    running: dict[int, _Child] = {}
    reports: dict[int, KernelReport | None] = {}
    try:
        while waiting or running:
            while waiting and len(running) < processes:
                child = _begin(waiting.pop(), verify, running)
                running[child.pipe] = child
            poll = select.poll()
            for pipe in running:
                poll.register(pipe, select.POLLIN)
            for pipe, _ in poll.poll():
                if not _heed(running[pipe], tell):
                    child = running.pop(pipe)
                    os.close(pipe)
                    os.waitpid(child.number, 0)
                    if child.report is None:
                        return None
                    reports[child.share] = child.report
    finally:
        for child in running.values():
            with contextlib.suppress(ProcessLookupError):
                os.kill(child.number, signal.SIGKILL)
            os.waitpid(child.number, 0)
            os.close(child.pipe)
    return together(plan, [reports[number] for number in range(SHARES)], time.perf_counter() - start)


def _begin(share: int, verify: Verify, others: dict[int, _Child]) -> _Child:
    """A process that does a share."""
    reading, writing = os.pipe()
    number = os.fork()
    if number == 0:
        os.close(reading)
        for pipe in others:
            os.close(pipe)
        _work(share, verify, writing)
    os.close(writing)
    return _Child(share, number, reading)


def _work(share: int, verify: Verify, pipe: int) -> NoReturn:
    """Does a share, writes what comes of it to the pipe, and ends this process."""
    try:
        with os.fdopen(pipe, "w", encoding="utf-8") as told:

            def tell(kind: str, data: Any) -> None:
                print(json.dumps({kind: data}), file=told, flush=True)

            tell("report", as_json(verify(Share(share, SHARES), tell)))
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
            if kind == "report":
                child.report = from_json(data)
            else:
                tell(kind, data)
    return bool(chunk)
