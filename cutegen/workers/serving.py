"""The worker's side: jobs are read and answered one after the other, until there are no more."""

from __future__ import annotations

import base64
import json
import os
import pickle
import select
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TextIO

Tell = Callable[[str, Any], None]  # writes an event: its kind, and data that JSON can hold


class Unusable(Exception):
    """Says that no process of this kind can do any job; `why` is data that JSON can hold."""

    def __init__(self, why: Any) -> None:
        super().__init__(why)
        self.why = why


class Refused(Exception):
    """Says that this process cannot do the job, for a reason that is not the job's: the error number `errno`."""

    def __init__(self, errno: int) -> None:
        super().__init__(os.strerror(errno))
        self.errno = errno


@dataclass(frozen=True)
class Last:
    """The result of a job after which the process takes no other one."""

    result: Any


@dataclass(frozen=True)
class Going:
    """The result of a job that continues after its report: step by step, for as long as no other job is there."""

    result: Any
    steps: Iterator[object]


def serve(start: Callable[[Tell], Callable[[Any], Any]]) -> None:
    """Serves jobs until the crew asks for no more, or a job's result is a `Last`.

    `start` prepares the process, and returns the function that does a job and returns its result, data that JSON can
    hold, in a `Last` or a `Going` if need be; with the `Tell` that it is given, both write events. It may raise
    Unusable, and the function Refused; any other exception ends the process.
    """
    jobs, answers = _streams()

    def tell(kind: str, data: Any) -> None:
        print(json.dumps({kind: data}), file=answers, flush=True)

    try:
        run = start(tell)
    except Unusable as problem:
        tell("unusable", problem.why)
        return
    tell("ready", None)
    for line in jobs:
        tell("taken", None)
        try:
            result = run(pickle.loads(base64.b64decode(line)))
        except Refused as problem:
            tell("refused", problem.errno)
            return
        sys.stdout.flush()  # so that what a job prints is in the log of no later one
        if isinstance(result, Last):
            tell("last", result.result)
            return
        if isinstance(result, Going):
            tell("result", result.result)
            for _ in result.steps:
                if _asked(jobs):
                    break
            continue
        tell("result", result)


def _asked(jobs: TextIO) -> bool:
    """Whether there is another job, or there will be none. The crew gives none before it has the last one's result."""
    poll = select.poll()
    poll.register(jobs.fileno(), select.POLLIN)
    return bool(poll.poll(0))


def _streams() -> tuple[TextIO, TextIO]:
    """The lines that come on standard input, and where answers go, which was standard output.

    From then on standard input is empty, and what is printed goes to standard error: libraries print, too.
    """
    asked = os.fdopen(os.dup(0), encoding="utf-8")
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)
    os.dup2(2, 1)
    return asked, answers
