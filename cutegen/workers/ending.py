"""How a job on a worker ended."""

from __future__ import annotations

import signal
from dataclasses import dataclass
from typing import Any, Literal

LAST_WORDS = 300  # characters


@dataclass(frozen=True)
class Death:
    """Why a job has no result. `how` it came to that:

    died: the process ended by itself, with the return code `code`; overdue: nothing came for `seconds`, and it was
    killed; unusable: the worker says with `why` that no process of its kind can do a job.
    """

    how: Literal["died", "overdue", "unusable"]
    code: int = 0
    seconds: float = 0.0
    why: Any = None
    log: str = ""  # what the process printed since it got the job, or its end if that is much

    @property
    def last_words(self) -> str:
        """The last line of the log, for the end of a message about this death; empty where nothing was printed."""
        lines = self.log.strip().splitlines()
        return f"; its last words: {lines[-1][:LAST_WORDS]}" if lines else ""


@dataclass(frozen=True)
class Ending:
    """The end of a job: the events that its worker reported, and the `result`, or a death in its place."""

    events: tuple[tuple[str, Any], ...]  # kinds and data
    seconds: float  # from when the worker was chosen
    result: Any = None
    death: Death | None = None


def exit_text(code: int) -> str:
    """The end of a process in words, from its return code: `exit status 1`, `signal SIGSEGV`."""
    if code >= 0:
        return f"exit status {code}"
    name = signal_name(-code)
    return name if name.startswith("signal") else f"signal {name}"


def signal_name(number: int) -> str:
    """The name of a signal, SIGSEGV for 11; `signal 99` for a number that has none."""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
