"""The outcome of a job whose compiler's process died or was killed."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from cutegen.compiling.outcome import Failed, Job
from cutegen.workers import Death, signal_name

_LOG_LINES = 30
# What faulthandler prints: a frame a line, innermost first, and around them lines that say nothing about the job
_FAULT_FRAME = re.compile(r'^\s*File "(?P<path>[^"]+)", line (?P<line>\d+) in ')
_FAULT_NOISE = re.compile(r"^(Current thread|Thread) 0x|^Stack \(most recent|^Extension modules: ")
_SIGNALS = {
    "SIGFPE": "the compiler divided by zero; most often a thread or value layout in which two threads share an element",
    "SIGSEGV": "the compiler read memory that it does not own",
    "SIGABRT": "an internal check of the compiler failed",
    "SIGBUS": "the compiler read memory that it does not own",
    "SIGILL": "the compiler ran an instruction that this processor does not have",
    "SIGKILL": "something killed the process, most often the system for want of memory; try fewer workers",
    "SIGTERM": "something ended the process",
}


def failed_by(death: Death, job: Job) -> Failed:
    """The outcome of a job that its worker did not live to answer.

    It has what the process printed during the job, and the module's line where faulthandler says that it was.
    """
    if death.how == "unusable":
        return Failed.from_json(death.why)
    name = ""
    if death.how == "overdue":
        message = f"no answer from the compiler within {death.seconds:g} s; killed"
    elif death.code < 0:
        name = signal_name(-death.code)
        message = f"the compiler's process died of {name}: {_SIGNALS.get(name, 'no message was left')}"
    else:
        message = f"the compiler's process ended with status {death.code} in the middle of the job"
    said = death.log.splitlines()
    trace = fault_trace(said, job)
    words = [line for line in said if line.strip() and not (_FAULT_FRAME.match(line) or _FAULT_NOISE.match(line))]
    line, text = trace[-1] if trace else (None, "")
    kind: Literal["timeout", "crash"] = "timeout" if death.how == "overdue" else "crash"
    return Failed(kind, message, line, text, name, trace, "\n".join(words[-_LOG_LINES:]))


def fault_trace(said: Sequence[str], job: Job) -> tuple[tuple[int, str], ...]:
    """The module's lines in the stack that faulthandler printed, outermost first: their numbers and texts."""
    lines = job.text.split("\n")
    found = []
    for match in filter(None, map(_FAULT_FRAME.match, said)):
        path, number = Path(match["path"]), int(match["line"])
        if path.name == f"{job.kernel}.py" and path.parent.name.startswith("job-") and 0 < number <= len(lines):
            found.append((number, lines[number - 1]))
    return tuple(reversed(found))
