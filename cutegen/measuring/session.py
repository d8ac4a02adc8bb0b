"""A worker process for one device, seen from the parent."""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from types import TracebackType
from typing import Any

from cutegen.errors import CutegenError
from cutegen.measuring.model import Failure, KernelResult, Kind, Machine, Measured, Request, Timing
from cutegen.measuring.worker import LIMITS, Job
from cutegen.workers import Crew, Death, Setup, exit_text, python_path, worker_command

TIMEOUT = 300.0  # seconds without an event
# They would make a peer something else than what its name says
_DROPPED = ("NVIDIA_TF32_OVERRIDE", "TORCH_ALLOW_TF32_CUBLAS_OVERRIDE", "CUDA_LAUNCH_BLOCKING")


class Invisible(CutegenError):
    """Says that the device that was asked for is none of those that CUDA_VISIBLE_DEVICES names."""


class Session:
    """Measures kernels on one device, in one worker process that is kept for many kernels.

    It is a context manager, `with Session(device) as session`. A worker that crashes or hangs ends one request; the
    next one gets a fresh worker, and so does one that finds its worker gone. A session is used by one thread; several
    sessions, each on a device of its own, may run in several threads.
    """

    def __init__(
        self,
        device: int = 0,
        *,
        timeout: float = TIMEOUT,
        note: Callable[[str], None] = lambda text: None,
        worker: Sequence[str] | None = None,
    ) -> None:
        """Prepares a session on the device of that number.

        `timeout` is how many seconds a worker may be silent before it is given up. `note` gets what is worth saying
        besides results. `worker` is the command that it is started with, for tests.
        """
        self.machine: Machine | None = None  # known once a request was answered
        self._device, self._note = device, note
        self._no_limits = False  # a worker ended while it measured them
        command = worker or worker_command("cutegen.measuring.worker")
        setup = Setup(command, self._environment, timeout, renewed=True, start_timeout=timeout, patience=0.5)
        self._crew = Crew(setup)

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._crew.close()

    def measure(self, request: Request) -> KernelResult:
        """Measures a kernel at its shapes; what goes wrong with it is in the `failures` of the result.

        Raises OSError where no worker process can be started.
        """
        limits = None if self.machine is None else self.machine.limits
        request = replace(request, module=request.module.resolve(), limits=request.limits and not self._no_limits)
        found = _Found(request)
        try:
            ((_, ending),) = self._crew.run([Job(request, limits)])
        except Invisible as error:
            return found.result("cannot run", str(error))
        for kind, data in ending.events:
            if kind == "machine":
                self.machine = Machine.from_json(data)
            elif kind == "note":
                self._note(data)
            found.take(kind, data)
        if ending.death is None and ending.result is None:
            return found.result()
        self._no_limits |= found.running == LIMITS
        if ending.death is None:
            return found.result("crashed", f"the device was lost: {ending.result['lost']}")
        return found.result(*_ended(ending.death))

    def _environment(self, folder: Path) -> dict[str, str]:
        """The environment of the worker, which sees one device. Raises Invisible where there is no such device."""
        kept = {name: value for name, value in os.environ.items() if name not in _DROPPED}
        return kept | {
            "PYTHONPATH": python_path(os.getcwd()),  # the worker finds what this process does
            "CUDA_VISIBLE_DEVICES": visible_device(self._device, os.environ),
            "TORCHINDUCTOR_COMPILE_THREADS": "1",  # no pool of processes that outlives a worker
        }


def _ended(death: Death) -> tuple[Kind, str]:
    """Which kind of failure a worker's death is, and the message about it."""
    if death.how == "unusable":
        return "cannot run", death.why
    if death.how == "overdue":
        return "hung", f"nothing was heard for {death.seconds:g} s"
    return "crashed", f"the process ended with {exit_text(death.code)}{death.last_words}"


def visible_device(device: int, environment: Mapping[str, str]) -> str:
    """The value of CUDA_VISIBLE_DEVICES for one device, counted among those that are visible now. Raises Invisible."""
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
    """The data that a worker has reported for one request."""

    request: Request
    measured: list[Measured] = field(default_factory=list)
    failures: list[Failure] = field(default_factory=list)
    host: dict[str, Timing] = field(default_factory=dict)
    running: str = ""
    shape: Mapping[str, int] | None = None

    def take(self, kind: str, data: Any) -> None:
        """Keeps what an event says."""
        match kind:
            case "running":
                self.running = data
            case "shape":
                self.shape = data
            case "measured":
                self.measured.append(Measured.from_json(data))
            case "failure":
                self.failures.append(Failure(**data))
            case "host":
                self.host = {name: Timing(**timing) for name, timing in data.items()}

    def result(self, kind: Kind | None = None, message: str = "") -> KernelResult:
        """The result of the request. With `kind`, it ended before its end, for the reason that `message` tells."""
        failures = list(self.failures)
        if kind is not None:
            failures.append(Failure(kind, self.running or self.request.plan.spec.kernel, self.shape, message))
        return KernelResult(
            self.request.plan.spec.kernel, self.request.code_hash, tuple(self.measured), tuple(failures), self.host
        )
