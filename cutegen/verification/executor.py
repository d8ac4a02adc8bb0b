"""What runs a generated module: a GPU, or the emulator. Everything that knows about a GPU is here."""

from __future__ import annotations

import ctypes
import importlib
from collections.abc import Callable, Sequence
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Protocol

from cutegen.compiling.loading import load
from cutegen.errors import CutegenError
from cutegen.language.model import KernelSpec
from cutegen.verification.costs import LARGEST_TENSOR

if TYPE_CHECKING:
    from cutegen.emulator import Emulated


class CannotRun(CutegenError):
    """Raised by an executor for a kernel that it is not able to run, right or wrong; the message says why."""


def no_judge(by: str) -> None:
    """Accepts a result that nobody looks at."""


class Executor(Protocol):
    """Runs calls of generated functions on tensors of `device`."""

    name: str  # for reports: "gpu (NVIDIA H200)"
    device: str  # where arguments live, as torch names it
    other_device: str  # where they must not: "cpu" for a GPU, "meta" for the CPU
    element_limit: int | None  # cases with a larger tensor, or more multiply-adds than 64 times this, do not run

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Callable[[str], None] = no_judge,
    ) -> int:
        """Calls the module's function of the kernel's name, host-side checks included; what it raises passes through.

        `spec` also says what the kernel does with each tensor. Where the executor chooses the order of blocks and
        warps, it runs them in `orders` orders, which must all give the same. Returns in how many it ran: 1 where the
        order is not its own to choose, or there is nothing to order.

        `judge` is called once the arguments hold a result, and once more for each other one, where the code for several
        targets ran: with what the result is of, if there are several. Raises CannotRun, and what `judge` raises.
        """

    def synchronize(self) -> None:
        """Waits until everything that was run is done; raises what went wrong on the device."""

    def alive(self) -> bool:
        """Whether more can be run after an exception."""


class GpuExecutor:
    """The first CUDA device, on a stream of its own that is held up a little.

    The arguments' values only arrive on that stream, after the delay: a kernel that is launched on any other stream
    than the current one reads zeros, and what it writes is overwritten.
    """

    other_device = "cpu"
    element_limit: int | None = None
    _DELAY = 300_000  # clock cycles, about 0.2 ms

    def __init__(self) -> None:
        import torch

        reason = gpu_missing()
        if reason is not None:
            raise RuntimeError(f"no GPU to verify on: {reason}")
        self.device = "cuda:0"
        self.name = f"gpu ({torch.cuda.get_device_name(0)})"
        self._stream = torch.cuda.Stream(0)  # type: ignore[no-untyped-call]

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Callable[[str], None] = no_judge,
    ) -> int:
        import torch

        # Whole storages, as bytes: arguments may overlap, and copying a bool normalises it
        storages = {
            s.data_ptr(): s for a in args if isinstance(a, torch.Tensor) and a.is_cuda and (s := a.untyped_storage())
        }
        tensors = [torch.empty(0, dtype=torch.uint8, device=s.device).set_(s) for s in storages.values()]
        values = [t.clone() for t in tensors]
        for tensor in tensors:
            tensor.zero_()
        torch.cuda.synchronize()
        with torch.cuda.stream(self._stream):
            torch.cuda._sleep(self._DELAY)  # type: ignore[no-untyped-call]
            for tensor, value in zip(tensors, values, strict=True):
                tensor.copy_(value)
            try:
                getattr(module, spec.kernel)(*args)
            finally:
                torch.cuda.synchronize()
        judge("")
        return 1

    def synchronize(self) -> None:
        import torch

        torch.cuda.synchronize()

    def alive(self) -> bool:
        import torch

        try:
            torch.cuda.synchronize()
            return int(torch.ones(2, device=self.device).sum()) == 2
        except RuntimeError:
            return False


class EmulatorExecutor:
    """The CPU: runs the PTX that a module compiles to, for each of its targets whose code differs, with the launches
    that its compiled host code makes, and has the result of each judged. A fault is an exception that names it.

    Tensors live in the CPU's memory and say that they are on a CUDA device.
    """

    name = "cpu (emulator)"
    device = "cpu"
    other_device = "meta"
    element_limit: int | None = LARGEST_TENSOR

    def __init__(self, targets: Sequence[str] | None = None) -> None:
        """Takes the names of the module's targets that run; by default those are all whose code differs."""
        self._targets = targets
        self._installed: dict[ModuleType, Emulated] = {}

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Callable[[str], None] = no_judge,
    ) -> int:
        from cutegen.emulator import PtxSyntaxError, UnsupportedInstruction, install, on_device

        try:
            if module not in self._installed:
                roles = {tensor.argument: tensor.role for tensor in spec.tensors}
                self._installed[module] = install(module, spec.kernel, self._targets, roles=roles)
            emulated = self._installed[module]
            emulated.orders = orders
            emulated.reports.clear()
            emulated.outcomes.clear()
            getattr(module, spec.kernel)(*map(on_device, args))
        except (UnsupportedInstruction, PtxSyntaxError) as error:
            raise CannotRun(str(error)) from error
        if len(emulated.outcomes) > 1:
            for outcome in emulated.outcomes:
                outcome.restore()
                judge(f"the code for {outcome.target}")
        else:  # or none, if there was nothing to launch
            judge("")
        return max((report.orders for report in emulated.reports), default=1)

    def synchronize(self) -> None:
        pass

    def alive(self) -> bool:
        return True


def gpu_missing() -> str | None:
    """Why there is no CUDA device to run on, or None if there is one. Asks the driver only, without torch."""
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return "libcuda.so.1, the NVIDIA driver's library, does not load"
    code = int(driver.cuInit(0))
    if code != 0:
        return f"cuInit answers {code}"
    count = ctypes.c_int(0)
    code = int(driver.cuDeviceGetCount(ctypes.byref(count)))
    if code != 0 or count.value < 1:
        return f"the driver finds no device (answer {code})"
    return None


def gpu_available() -> bool:
    """Whether the driver finds a CUDA device. Cheap: torch is not imported."""
    return gpu_missing() is None


def make_executor(on: str) -> Executor:
    """The executor for `gpu`, `cpu`, or any other one by its import path, `package.module:Class`.

    Raises `ValueError` for a name that means nothing, `RuntimeError` if there is no such device.
    """
    if on == "gpu":
        return GpuExecutor()
    if on == "cpu":
        return EmulatorExecutor()
    place, _, name = on.partition(":")
    if not name:
        raise ValueError(f"unknown executor {on!r}: use gpu, cpu or package.module:Class")
    made: Any = getattr(importlib.import_module(place), name)()
    executor: Executor = made
    return executor


def load_module(path: Path) -> ModuleType:
    """Imports a generated file, as `cutegen.compiling.loading.load` does."""
    return load(path, f"_cutegen_verified_{path.stem}")
