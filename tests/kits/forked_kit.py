"""A worker for tests of the fork server: it does what a job says, and tells of the process that it is in."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import tempfile
import time
from typing import Any

from cutegen.workers import Tell, serve

STARTED = os.getpid()
"""The process that has imported this module."""


def main() -> None:
    serve(lambda tell: lambda job: done(job, tell))


def done(job: tuple[str, Any], tell: Tell) -> Any:
    what, given = job
    match what:
        case "tell":
            return {
                "process": os.getpid(),
                "imported by": STARTED,
                "session": os.getsid(0),
                "folder": os.getcwd(),
                "temporary": tempfile.gettempdir(),
                "variables": dict(os.environ),
                "path": sys.path,
                "modules": [*sys.modules],
            }
        case "exit":
            print("last words", file=sys.stderr)
            sys.exit(given)
        case "signal":
            os.kill(os.getpid(), getattr(signal, given))
        case "raise":
            raise KeyError(given)
        case "sleep":
            time.sleep(given)
        case "leave":
            return subprocess.Popen(["sleep", str(given)], stdout=sys.stderr).pid
    return None
