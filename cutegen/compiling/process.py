"""One worker process seen from the parent: start, ask, read the answer within a time, kill."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from cutegen.compiling.outcome import Failed, Job
from cutegen.line_process import LineProcess, signal_name

# Variables that change what is compiled, what is written where, or how Python runs, by prefix and by name. CUTE_DSL_*
# alone has ARCH, COMPILER_OPT, COMPILER_BACKEND, LINEINFO, DEBUG, ENABLE_ASSERTIONS, ENABLE_PYIR, AUTO_M2S,
# TOLERATE_M2M, ENABLE_TVM_FFI, LOC_TRACEBACKS, LIBS, DRYRUN, WARNINGS_AS_ERRORS, KEEP*, DUMP_DIR and CACHE_DIR; a new
# release may add to them, so all of them go.
DROPPED_PREFIXES = ("CUTE_DSL_", "CUTE_EXPERIMENTAL_DSL_", "NVVM_", "PTXAS_", "NVCC_", "LLVM_", "MLIR_")
DROPPED_NAMES = frozenset(
    ("PYTHONOPTIMIZE", "PYTHONWARNINGS", "PYTHONDEVMODE", "PYTHONINSPECT", "PYTHONVERBOSE", "PYTHONDUMPREFSFILE")
)
_LOG_BYTES = 1 << 20
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


def clean_environment(environment: Mapping[str, str], folder: Path) -> dict[str, str]:
    """What a worker sees of `environment`: without what changes code, with its temporary files in `folder`."""
    import cutegen

    kept = {
        name: value
        for name, value in environment.items()
        if not name.startswith(DROPPED_PREFIXES) and name not in DROPPED_NAMES
    }
    # The worker runs in another folder, so relative entries and a cutegen found through the parent's must be absolute.
    given = [str(Path(entry).absolute()) for entry in kept.get("PYTHONPATH", "").split(os.pathsep) if entry]
    root = str(Path(cutegen.__file__).absolute().parents[1])
    return kept | {
        "PYTHONPATH": os.pathsep.join([root, *(entry for entry in given if entry != root)]),
        "PYTHONSAFEPATH": "1",
        "PYTHONHASHSEED": "0",
        "PYTHONIOENCODING": "utf-8",
        "TMPDIR": str(folder),
        "CUDA_VISIBLE_DEVICES": "",  # the same artefact with and without a GPU, and none of its memory taken
        "OMP_NUM_THREADS": "1",
    }


class Unfit(OSError):
    """A worker that cannot write to its folder of temporary files."""


class WorkerProcess:
    """A running worker with a temporary folder of its own. Used by one thread; `kill` may come from any."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="cutegen-worker-", ignore_cleanup_errors=True)
        folder = Path(self._folder.name).resolve()
        self._log = (folder / "log").open("w+b")
        self._log_start = 0
        self._buffer = b""
        work = folder / "work"
        work.mkdir()
        try:
            command = [sys.executable, "-m", "cutegen.compiling.worker"]
            self._process = LineProcess(command, work, clean_environment(os.environ, work), self._log)
        except BaseException:
            self._log.close()
            self._folder.cleanup()
            raise

    def wait_ready(self, timeout: float) -> Failed | None:
        """Waits for the imports; a `Failed` if they are impossible. Raises Died, TimedOut."""
        answer = json.loads(self._process.read(timeout))
        return None if answer.get("ready") else Failed.from_json(answer["failed"])

    def ask(self, job: Job, timeout: float, *, lines: bool = False) -> dict[str, Any]:
        """The worker's answer to a job, as it came. Raises Died, TimedOut, Unfit; then the worker is of no use.

        With `lines`, the compiler keeps the generated lines beside its code: for where it failed, not for what it made.
        """
        self._log_start = self._log.seek(0, os.SEEK_END)
        data = {"text": job.text, "kernel": job.kernel, "target": job.target, "lines": lines}
        answer: dict[str, Any] = json.loads(self._process.ask(json.dumps(data), timeout))
        if "unfit" in answer:
            raise Unfit(answer["unfit"], os.strerror(answer["unfit"]), self._folder.name)
        return answer

    def crash(self, job: Job) -> Failed:
        """What to say of a worker that died over a job."""
        try:
            status = self._process.process.wait(5)
        except subprocess.TimeoutExpired:  # closed its answers but lives on
            self.kill()
            status = self._process.process.wait()
        if status < 0:
            name = signal_name(-status)
            message = f"the compiler's process died of {name}: {_SIGNALS.get(name, 'no message was left')}"
        else:
            name, message = ("", f"the compiler's process ended with status {status} in the middle of the job")
        return self._failed("crash", message, job, name)

    def overdue(self, job: Job, timeout: float) -> Failed:
        """What to say of a worker that did not answer, with the line it was busy with; kills it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        self.kill()
        return self._failed("timeout", f"no answer from the compiler within {timeout:g} s; killed", job)

    def kill(self) -> None:
        """Ends the process and its children at once."""
        self._process.kill()

    def close(self) -> None:
        """Kills the process if it still runs, and removes all that it left on disk."""
        self._process.close()
        with contextlib.suppress(OSError):
            self._log.close()
        self._folder.cleanup()

    def _failed(self, kind: Literal["crash", "timeout"], message: str, job: Job, name: str = "") -> Failed:
        """With what the process printed during the job, and where faulthandler says that the module was."""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(self._log_start, end - _LOG_BYTES))
        said = self._log.read().decode("utf-8", "replace").splitlines()
        trace = fault_trace(said, job)
        words = [line for line in said if line.strip() and not (_FAULT_FRAME.match(line) or _FAULT_NOISE.match(line))]
        line, text = trace[-1] if trace else (None, "")
        return Failed(kind, message, line, text, name, trace, "\n".join(words[-_LOG_LINES:]))


def fault_trace(said: Sequence[str], job: Job) -> tuple[tuple[int, str], ...]:
    """The module's lines in the stack that faulthandler printed, outermost first."""
    lines = job.text.split("\n")
    found = []
    for match in filter(None, map(_FAULT_FRAME.match, said)):
        path, number = Path(match["path"]), int(match["line"])
        if path.name == f"{job.kernel}.py" and path.parent.name.startswith("job-") and 0 < number <= len(lines):
            found.append((number, lines[number - 1]))
    return tuple(reversed(found))
