"""The worker process that has a device and measures on it; its jobs are `Job`s.

Events: `machine`, `running` (what runs now), `shape` (where), `measured`, `failure`, `host`, `note`. A job's result is
null, or `{"lost": WHY}` where the device answers no more. What libraries print goes to stderr.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.contract import cheapest_of, chooses, compiled_for
from cutegen.measuring.model import Failure, Limits, Machine, Request
from cutegen.peers.libraries import unsettled
from cutegen.workers import Last, Tell, Unusable, serve

LIMITS = "the GPU's own limits"  # what runs while they are measured


@dataclass(frozen=True)
class Job:
    """A request, and the limits that an earlier worker measured on this device."""

    request: Request
    limits: Limits | None


@dataclass(frozen=True)
class _Loaded:
    """A module as its file is, which several requests in turn may ask for: what it compiled is there for all of them.

    `imported` gives the users' functions that ran beside it.
    """

    path: Path
    text: bytes
    module: ModuleType
    imported: Callable[[str], Callable[..., Any]]


class Lost(Exception):
    """Says that the device answers no more, so that nothing that this process has is of use."""


@dataclass
class Worker:
    """Runs requests on the current device; `tell` writes an event."""

    tell: Tell
    machine: Machine | None = None
    device: str = "cuda:0"  # the only one that this process sees
    limits_failed: bool = False
    loaded: _Loaded | None = None  # of the last request

    def start(self) -> None:
        """Imports torch and looks at the device."""
        import torch

        from cutegen.measuring.cuda import CudaStopwatch
        from cutegen.measuring.machine import this_machine

        torch.backends.cuda.matmul.allow_tf32 = False
        torch.backends.cuda.matmul.allow_fp16_reduced_precision_reduction = False
        torch.backends.cuda.matmul.allow_bf16_reduced_precision_reduction = False
        self.watch = CudaStopwatch()
        self.machine = this_machine()

    def run(self, job: Job) -> None:
        """Runs a request, and tells what it finds. Raises Lost where the device does not answer afterwards."""
        from cutegen.measuring.contenders import imported
        from cutegen.measuring.measure import Bench
        from cutegen.verification.executor import load_module
        from cutegen.verification.runner import describe

        assert self.machine is not None
        request, kernel = job.request, job.request.plan.spec.kernel
        self._limits(job)
        machine = self.machine
        self.tell("running", kernel)
        try:
            text = request.module.read_bytes()
            if self.loaded is None or (self.loaded.path, self.loaded.text) != (request.module, text):
                self.loaded = None
                self.loaded = _Loaded(request.module, text, load_module(request.module), functools.cache(imported))
        except Exception as error:
            self.fail(Failure("cannot run", kernel, None, f"the module does not load: {describe(error)}"))
            return
        module = self.loaded.module
        if request.coming:
            self.compile_all(request, module)
        bench = Bench(self.watch, self.device, machine.l2_bytes, machine.limits, self.loaded.imported, machine.gpu)
        for shape in request.shapes:
            self.shape(request, module, dict(shape), bench)
        if request.host:
            self.host(request, module, bench.device)

    def shape(self, request: Request, module: ModuleType, shape: dict[str, int], bench: Any) -> None:
        """Measures a kernel at one shape. Raises Lost where the device does not answer afterwards."""
        import torch

        from cutegen.measuring.measure import Refused, measure_shape
        from cutegen.verification.runner import describe

        kernel = request.plan.spec.kernel
        self.tell("shape", shape)
        try:
            measured, failures = measure_shape(request, module, shape, bench, self.tell)
            self.tell("measured", measured.as_json())
        except Refused as error:
            failures = [Failure(error.kind, error.what or kernel, shape, str(error))]
        except Exception as error:
            failures = [Failure("cannot run", kernel, shape, describe(error))]
        for failure in failures:
            self.fail(failure)
        self.alive()
        gc.collect()  # tracebacks of what failed hold tensors in a circle
        torch.cuda.empty_cache()

    def compile_all(self, request: Request, module: ModuleType) -> None:
        """Compiles the kernels that calls of all shapes take, those of coming requests too, as peers may change CuTeDSL
        afterwards. Compile errors are reported at their shape.
        """
        spec = request.plan.spec
        if not chooses(module):
            return
        assert self.machine is not None
        shapes, sms = (*request.shapes, *request.coming), self.machine.sms
        for number in sorted({cheapest_of(module, spec, shape, sms) for shape in shapes}):
            with contextlib.suppress(Exception):
                compiled_for(module, 0, number)  # the only device that this process sees

    def host(self, request: Request, module: ModuleType, device: str) -> None:
        """Measures the CPU's time of a call. Raises Lost where the device does not answer afterwards."""
        import torch

        from cutegen.measuring.host import host_times
        from cutegen.verification.runner import describe

        self.tell("running", "host time of a call")
        try:
            times = host_times(request.plan, module, device, torch.cuda.synchronize)
        except Exception as error:
            self.fail(Failure("cannot run", "host time of a call", None, describe(error)))
        else:
            self.tell("host", {name: asdict(timing) for name, timing in times.items()})
        self.alive()

    def fail(self, failure: Failure) -> None:
        """Tells of a failure."""
        self.tell("failure", asdict(failure))

    def alive(self) -> None:
        """Raises Lost where the device does not answer."""
        import torch

        try:
            torch.cuda.synchronize()
        except RuntimeError as error:
            raise Lost(str(error).splitlines()[0]) from error

    def _limits(self, job: Job) -> None:
        """Measures the device's limits once, where they are wanted, and tells what is known of the machine."""
        from cutegen.measuring.limits import measure_limits
        from cutegen.measuring.machine import ARCHITECTURES, this_machine
        from cutegen.verification.runner import describe

        assert self.machine is not None
        found = self.machine.limits or job.limits
        if found is None and job.request.limits and not self.limits_failed:
            self.tell("running", LIMITS)
            arch = ARCHITECTURES.get(self.machine.capability)
            try:
                found = measure_limits(self.watch, arch, self.machine.sms, self.machine.memory_bytes)
            except Exception as error:
                self.limits_failed = True
                self.tell("note", f"the GPU's limits were not measured: {describe(error)}")
            self.machine = replace(self.machine, clocks=this_machine().clocks)  # as they are after work
        self.machine = replace(self.machine, limits=found)
        self.tell("machine", self.machine.as_json())


def main() -> None:
    """Measures for the process that started this one, until it asks for no more."""
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    serve(start)


def start(tell: Tell) -> Callable[[Job], Any]:
    """Looks at the device; returns the function that does a job. Raises Unusable where no device answers."""
    worker = Worker(tell)
    try:
        worker.start()
    except Exception as error:
        why = f"the device cannot be used: {type(error).__name__}: {str(error).splitlines()[0]}"
        raise Unusable(why) from error

    def run(job: Job) -> Any:
        try:
            worker.run(job)
        except Lost as error:
            return Last({"lost": str(error)})
        return Last(None) if worker.watch.torn or unsettled() and not job.request.coming else None

    return run
