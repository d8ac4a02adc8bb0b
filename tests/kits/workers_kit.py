"""Stand-ins for worker processes: small scripts that speak the protocol, and a count of the processes there are."""

from __future__ import annotations

import sys
from typing import ClassVar

import pytest

from cutegen.workers.worker import Setup, Worker


def script(run: str, before: str = "", more: str = "") -> tuple[str, ...]:
    """The command of a worker. `run` are the lines of the function that does a `job`, which may `tell` events, and
    `before` those that prepare the process; both may raise and return what `serve` knows, and use what `more` imports.
    """

    def indented(lines: str) -> str:
        return "".join(f"        {line}\n" for line in lines.splitlines())

    text = (
        f"import os, signal, sys, time\nfrom cutegen.workers import Last, Refused, Unusable, serve\n{more}\n"
        f"def start(tell):\n    if True:\n{indented(before or 'pass')}"
        f"    def run(job):\n{indented(run)}    return run\n"
        "serve(start)\n"
    )
    return (sys.executable, "-c", text)


class Counted(Worker):
    """Workers that are counted: all that were started, those that were not closed, and the most at a time."""

    started: ClassVar[list[Counted]] = []
    alive: ClassVar[set[Counted]] = set()
    most = 0

    def __init__(self, setup: Setup) -> None:
        super().__init__(setup)
        self.started.append(self)
        self.alive.add(self)
        Counted.most = max(self.most, len(self.alive))

    def close(self) -> None:
        super().close()
        self.alive.discard(self)


def count_workers(patch: pytest.MonkeyPatch) -> type[Counted]:
    """Lets all crews have workers that are counted, from 0."""
    patch.setattr("cutegen.workers.crew.Worker", Counted)
    Counted.started.clear()
    Counted.alive.clear()
    Counted.most = 0
    return Counted
