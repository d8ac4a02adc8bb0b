"""What runs a generated module: a GPU, or the emulator. Everything that knows about a GPU is here."""

from __future__ import annotations

import ctypes
import importlib.util
import sys
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, Protocol


class Executor(Protocol):
    """Runs calls of generated functions on tensors of `device`."""

    name: str  # for reports: "gpu (NVIDIA H200)"
    device: str  # where arguments live, as torch names it
    other_device: str  # where they must not: "cpu" for a GPU, "meta" for the CPU
    element_limit: int | None  # cases with a larger tensor, or more multiply-adds than 64 times this, do not run

    def run(self, module: ModuleType, kernel: str, args: Sequence[object]) -> None:
        """`getattr(module, kernel)(*args)`, host-side checks included. What it raises passes through."""

    def synchronize(self) -> None:
        """Returns once what was run is done; raises what went wrong on the device."""

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

    def run(self, module: ModuleType, kernel: str, args: Sequence[object]) -> None:
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
                getattr(module, kernel)(*args)
            finally:
                torch.cuda.synchronize()

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
    that its compiled host code makes. A fault is an exception that names it.

    Tensors live in the CPU's memory and say that they are on a CUDA device.
    """

    name = "cpu (emulator)"
    device = "cpu"
    other_device = "meta"
    element_limit: int | None = 1 << 22

    def __init__(self, targets: Sequence[str] | None = None) -> None:
        """`targets`: those of a module's that run, by default all whose code differs."""
        self._targets = targets
        self._installed: set[int] = set()

    def run(self, module: ModuleType, kernel: str, args: Sequence[object]) -> None:
        from cutegen.emulator import install, on_device

        if id(module) not in self._installed:
            install(module, kernel, self._targets)
            self._installed.add(id(module))
        getattr(module, kernel)(*map(on_device, args))

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
    """`gpu`, `cpu`, or any other one by its import path, `package.module:Class`.

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
    """Imports a generated file (it must be one: the DSL reads the source back). Raises whatever the file raises."""
    name = f"_cutegen_verified_{path.stem}"
    spec = importlib.util.spec_from_file_location(name, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
