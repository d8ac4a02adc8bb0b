"""A worker process for one device, seen from the parent."""

from __future__ import annotations

import itertools
import json
import os
import pickle
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from cutegen.line_process import Died, LineProcess, TimedOut, exit_text
from cutegen.measuring.model import Failure, KernelResult, Kind, Machine, Measured, Request, Timing
from cutegen.measuring.worker import LIMITS, Job

TIMEOUT = 300.0  # seconds without an event
WORKER = (sys.executable, "-c", "import sys; from cutegen.measuring.worker import main; sys.exit(main())")
# They would make a peer something else than what its name says
_DROPPED = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUDA_LAUNCH_BLOCKING")


class Invisible(Exception):
    """The device that was asked for is none of those that CUDA_VISIBLE_DEVICES names."""


class Session:
    """`with Session(device) as session`: one worker process on the device of that number, kept for many kernels.

    A worker that crashes or hangs ends one request; the next one gets a fresh worker, and so does one that finds its
    worker gone. Used by one thread; several sessions, each on a device of its own, may run in several threads.
    """

    def __init__(
        self,
        device: int = 0,
        *,
        timeout: float = TIMEOUT,
        note: Callable[[str], None] = lambda text: None,
        worker: Sequence[str] = WORKER,
    ) -> None:
        """`timeout`: seconds that a worker may be silent before it is given up. `note` gets what is worth saying
        besides results. `worker` is the command that it is started with."""
        self.machine: Machine | None = None  # known once a request was answered
        self._device, self._timeout, self._note, self._worker = device, timeout, note, worker
        self._process: LineProcess | None = None
        self._no_limits = False  # a worker ended while it measured them

    def __enter__(self) -> Session:
        self._folder = tempfile.TemporaryDirectory(prefix="cutegen-measure-", ignore_cleanup_errors=True)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop()
        self._folder.cleanup()

    def measure(self, request: Request) -> KernelResult:
        """What could be measured. Raises nothing for a bad kernel: `failures` of the result says what went wrong.

        Raises OSError where no worker process can be started.
        """
        limits = None if self.machine is None else self.machine.limits
        request = replace(request, module=request.module.resolve(), limits=request.limits and not self._no_limits)
        path = Path(self._folder.name, "job")
        path.write_bytes(pickle.dumps(Job(request, limits)))
        found = _Found(request)
        ended: tuple[Kind, str] | None = None
        try:
            process, event = self._begin(str(path))
            while True:
                if "done" in event:
                    if event["done"] == "retired":
                        self._stop()
                    return found.result()
                if "machine" in event:
                    self.machine = Machine.from_json(event["machine"])
                elif "note" in event:
                    self._note(event["note"])
                elif "unusable" in event:
                    ended = "cannot run", event["unusable"]
                    break
                elif "lost" in event:
                    ended = "crashed", f"the device was lost: {event['lost']}"
                    break
                found.take(event)
                event = json.loads(process.read(self._timeout))
        except TimedOut:
            ended = "hung", f"nothing was heard for {self._timeout:g} s"
        except Died:
            ended = "crashed", ""
        except Invisible as error:
            ended = "cannot run", str(error)
        assert ended is not None
        kind, message = ended
        code = self._stop(10.0 if kind == "crashed" else 0.0)  # at its own end, its code says more than our signal
        self._no_limits |= found.running == LIMITS
        return found.result(kind, message or f"the process ended with {exit_text(code)}{self._last_words()}")

    def _begin(self, path: str) -> tuple[LineProcess, Any]:
        """The worker that took the job, and the first that it says of it. Raises Died, TimedOut, Invisible, OSError."""
        if self._process is not None:
            try:
                return self._process, json.loads(self._process.ask(path, self._timeout))
            except Died:  # since the last request, which is nothing that this one did
                self._stop()
        process = self._start()
        return process, json.loads(process.ask(path, self._timeout))

    def _start(self) -> LineProcess:
        log = Path(self._folder.name, "log")
        paths = [*(p for p in sys.path if p), os.getcwd()]  # the worker finds what this process does
        environment = {name: value for name, value in os.environ.items() if name not in _DROPPED} | {
            "PYTHONPATH": os.pathsep.join(paths),
            "CUDA_VISIBLE_DEVICES": visible_device(self._device, os.environ),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of processes that outlives a worker
        }
        with log.open("wb") as sink:
            # the compiler's dumps end up in the folder
            self._process = LineProcess(self._worker, Path(self._folder.name), environment, sink)
        return self._process

    def _stop(self, patience: float = 0.5) -> int:
        """Ends the worker, after that many seconds by force, and whatever it started; its exit code."""
        process, self._process = self._process, None
        if process is None:
            return 0
        return process.end(patience)

    def _last_words(self) -> str:
        lines = Path(self._folder.name, "log").read_text(encoding="utf-8", errors="replace").strip().splitlines()
        return f"; its last words: {lines[-1][:300]}" if lines else ""


def visible_device(device: int, environment: Mapping[str, str]) -> str:
    """What CUDA_VISIBLE_DEVICES must be for one device, counted among those that are visible now. Raises Invisible."""
    given = environment.get("CUDA_VISIBLE_DEVICES")
    if given is None:
        return str(device)
    entries = (entry.strip() for entry in given.split(","))
    visible = list(itertools.takewhile(lambda entry: entry and not entry.startswith("-"), entries))  # as CUDA reads it
    if device >= len(visible):
        numbers = {0: "no GPU", 1: "one GPU, number 0"}.get(len(visible), f"GPUs 0 to {len(visible) - 1}")
        raise Invisible(f"there is no GPU {device}: CUDA_VISIBLE_DEVICES is `{given}`, which leaves {numbers}")
    return visible[device]


@dataclass
class _Found:
    """What a worker said so far about one request."""

    request: Request
    measured: list[Measured] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    host: dict[str, Timing] = field(default_factory=dict)
    running: str = ""
    shape: Mapping[str, int] | None = None

    def take(self, event: Mapping[str, Any]) -> None:
        if "running" in event:
            self.running = event["running"]
        elif "shape" in event:
            self.shape = event["shape"]
        elif "measured" in event:
            self.measured.append(Measured.from_json(event["measured"]))
        elif "failure" in event:
            self.failures.append(Failure(**event["failure"]))
        elif "host" in event:
            self.host = {name: Timing(**timing) for name, timing in event["host"].items()}

    def result(self, kind: Kind | None = None, message: str = "") -> KernelResult:
        """With `kind`, the request ended before its end, for the reason that `message` tells."""
        failures = list(self.failures)
        if kind is not None:
            failures.append(Failure(kind, self.running or self.request.plan.spec.kernel, self.shape, message))
        return KernelResult(
            self.request.plan.spec.kernel, self.request.body_hash, tuple(self.measured), tuple(failures), self.host
        )
