"""The process that has a device: a `Session` starts it with `main`.

Each line on stdin is the path of a pickled `Job`. Each line on stdout is one event in JSON, an object of one key:
`machine`, `running` (what runs now), `shape` (where), `measured`, `failure`, `host`, `note`, and at the end of a job
`done` (`ready` for the next one, or `retired`); before this process ends, `unusable` (the device could not be used at
all) or `lost` (no longer). What libraries print goes to stderr.
"""

from __future__ import annotations

import gc
import json
import pickle
import warnings
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import ModuleType
from typing import Any

from cutegen.line_process import served
from cutegen.measuring.model import Failure, Limits, Machine, Request

LIMITS = "the GPU's own limits"  # what runs while they are measured


@dataclass(frozen=True)
class Job:
    """`limits`: those that an earlier worker measured on this device."""

    request: Request
    limits: Limits | None


class Lost(Exception):
    """The device answers no more; nothing that this process has is of use."""


@dataclass
class Worker:
    """Runs requests on the current device; `tell` writes an event."""

    tell: Callable[[str, Any], None]
    machine: Machine | None = None
    device: str = "cuda:0"  # the only one that this process sees
    limits_failed: bool = False

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
        from cutegen.measuring.measure import Bench
        from cutegen.verification.executor import load_module
        from cutegen.verification.runner import describe

        assert self.machine is not None
        request, kernel = job.request, job.request.plan.spec.kernel
        self._limits(job)
        bench = Bench(self.watch, self.device, self.machine.l2_bytes, self.machine.limits)
        self.tell("running", kernel)
        try:
            module = load_module(request.module)
        except Exception as error:
            self.fail(Failure("cannot run", kernel, None, f"the module does not load: {describe(error)}"))
            return
        for shape in request.shapes:
            self.shape(request, module, dict(shape), bench)
        if request.host:
            self.host(request, module, bench.device)

    def shape(self, request: Request, module: ModuleType, shape: dict[str, int], bench: Any) -> None:
        """Raises Lost where the device does not answer afterwards."""
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

    def host(self, request: Request, module: ModuleType, device: str) -> None:
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
        self.tell("failure", asdict(failure))

    def alive(self) -> None:
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


def main() -> int:
    warnings.filterwarnings("ignore", message="Failed to initialize NumPy")  # torch says so where numpy is not
    jobs, events = served()

    def tell(kind: str, data: Any) -> None:
        print(json.dumps({kind: data}), file=events, flush=True)

    worker = Worker(tell)
    for line in jobs:
        job = pickle.loads(Path(line.rstrip("\n")).read_bytes())
        assert isinstance(job, Job)
        try:
            if worker.machine is None:
                worker.start()
        except Exception as error:
            tell("unusable", f"the device cannot be used: {type(error).__name__}: {str(error).splitlines()[0]}")
            return 2
        try:
            worker.run(job)
        except Lost as error:
            tell("lost", str(error))
            return 3
        tell("done", "retired" if worker.watch.torn else "ready")
        if worker.watch.torn:
            return 0
    return 0
