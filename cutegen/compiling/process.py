"""One worker process seen from the parent: start, ask, read the answer within a time, kill."""

from __future__ import annotations

import contextlib
import json
import os
import re
import select
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

from cutegen.compiling.outcome import Failed, Job

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


class WorkerDied(Exception):
    """The process ended without an answer."""


class WorkerTimedOut(Exception):
    """The process gave no answer in time."""


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
            self._process = subprocess.Popen(
                [sys.executable, "-m", "cutegen.compiling.worker"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._log,
                cwd=work,
                env=clean_environment(os.environ, work),
                start_new_session=True,  # so that Ctrl-C reaches the parent only, and a kill reaches its children too
            )
        except BaseException:
            self._log.close()
            self._folder.cleanup()
            raise

    def wait_ready(self, timeout: float) -> Failed | None:
        """Waits for the imports; a `Failed` if they are impossible. Raises WorkerDied, WorkerTimedOut."""
        answer = self._read(timeout)
        return None if answer.get("ready") else Failed.from_json(answer["failed"])

    def ask(self, job: Job, timeout: float, *, lines: bool = False) -> dict[str, Any]:
        """The worker's answer to a job, as it came. Raises WorkerDied, WorkerTimedOut; then the worker is of no use.

        With `lines`, the compiler keeps the generated lines beside its code: for where it failed, not for what it made.
        """
        self._log_start = self._log.seek(0, os.SEEK_END)
        data = {"text": job.text, "kernel": job.kernel, "target": job.target, "lines": lines}
        line = json.dumps(data) + "\n"
        assert self._process.stdin is not None
        try:
            self._process.stdin.write(line.encode())
            self._process.stdin.flush()
        except (BrokenPipeError, ValueError) as problem:
            raise WorkerDied from problem
        return self._read(timeout)

    def crash(self, job: Job) -> Failed:
        """What to say of a worker that died over a job."""
        try:
            status = self._process.wait(5)
        except subprocess.TimeoutExpired:  # closed its answers but lives on
            self.kill()
            status = self._process.wait()
        if status < 0:
            name = _signal_name(-status)
            message = f"the compiler's process died of {name}: {_SIGNALS.get(name, 'no message was left')}"
        else:
            name, message = ("", f"the compiler's process ended with status {status} in the middle of the job")
        return self._failed("crash", message, job, name)

    def overdue(self, job: Job, timeout: float) -> Failed:
        """What to say of a worker that did not answer, with the line it was busy with; kills it."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGUSR1)
            time.sleep(0.2)
        self.kill()
        return self._failed("timeout", f"no answer from the compiler within {timeout:g} s; killed", job)

    def kill(self) -> None:
        """Ends the process and its children at once."""
        if self._process.poll() is None:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self._process.pid, signal.SIGKILL)

    def close(self) -> None:
        """Kills the process if it still runs, and removes all that it left on disk."""
        self.kill()
        self._process.wait()
        for stream in (self._process.stdin, self._process.stdout, self._log):
            with contextlib.suppress(OSError):
                if stream is not None:
                    stream.close()
        self._folder.cleanup()

    def _read(self, timeout: float) -> dict[str, Any]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        deadline = time.monotonic() + timeout
        poll = select.poll()  # unlike select.select, fine with descriptors above 1024
        poll.register(descriptor, select.POLLIN)
        while b"\n" not in self._buffer:
            left = deadline - time.monotonic()
            if left <= 0 or not poll.poll(left * 1000):
                raise WorkerTimedOut
            chunk = os.read(descriptor, 1 << 20)
            if not chunk:
                raise WorkerDied
            self._buffer += chunk
        line, _, self._buffer = self._buffer.partition(b"\n")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def _failed(self, kind: Literal["crash", "timeout"], message: str, job: Job, name: str = "") -> Failed:
        """With what the process printed during the job, and where faulthandler says that the module was."""
        end = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(self._log_start, end - _LOG_BYTES))
        said = self._log.read().decode("utf-8", "replace").splitlines()
        trace = fault_trace(said, job)
        words = [line for line in said if line.strip() and not (_FAULT_FRAME.match(line) or _FAULT_NOISE.match(line))]
        line, text = trace[-1] if trace else (None, "")
        return Failed(kind, message, line, text, name, trace, "\n".join(words[-_LOG_LINES:]))


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"


def fault_trace(said: Sequence[str], job: Job) -> tuple[tuple[int, str], ...]:
    """The module's lines in the stack that faulthandler printed, outermost first."""
    lines = job.text.split("\n")
    found = []
    for match in filter(None, map(_FAULT_FRAME.match, said)):
        path, number = Path(match["path"]), int(match["line"])
        if path.name == f"{job.kernel}.py" and path.parent.name.startswith("job-") and 0 < number <= len(lines):
            found.append((number, lines[number - 1]))
    return tuple(reversed(found))
