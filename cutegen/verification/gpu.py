"""A GPU as what runs generated modules, and whether there is one. Everything that knows about a GPU is here."""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.atoms.targets import fitting
from cutegen.contract import as_called, compiled_by, make_known
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.blocks import with_blocks
from cutegen.verification.executor import CannotRun, Far, Judge, Ran, no_judge
from cutegen.verification.programs import Program, run_program
from cutegen.verification.returned import outputs_of

if TYPE_CHECKING:
    import torch

    from cutegen.emulator import Launch


class GpuExecutor:
    """The first CUDA device, on a stream of its own that is held up a little.

    The arguments' values only arrive on that stream, after the delay: a kernel that is launched on any other stream
    than the current one reads zeros, and what it writes is overwritten.
    """

    generated, chooses_blocks = True, False
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

    def prepare(self, module: ModuleType, spec: KernelSpec) -> None:
        pass

    def explains(self) -> bool:
        return False

    def run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge = no_judge,
        blocks: Sequence[int] | None = None,
        grid: int | None = None,
    ) -> Ran:
        import torch

        if blocks is not None:
            raise CannotRun("a GPU runs all blocks of a launch")
        self._check_targets(spec)
        module = module if grid is None else with_blocks(module, grid)
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
                places, named = as_called(spec, args)
                outputs = outputs_of(spec, args, getattr(module, spec.kernel)(*places, **named))
            finally:
                torch.cuda.synchronize()
        judge("")
        return Ran(1, outputs)

    def _check_targets(self, spec: KernelSpec) -> None:
        """Raises CannotRun where no code of the kernel is for this GPU, which its module would refuse."""
        import torch

        if not self.has_code_for(spec.targets):
            major, minor = torch.cuda.get_device_capability(0)
            raise CannotRun(f"no code for {', '.join(spec.targets)} runs on sm_{major}{minor}")

    @contextmanager
    def known(self, module: ModuleType, spec: KernelSpec) -> Iterator[None]:
        make_known(module)
        yield

    def beside(self, module: ModuleType, spec: KernelSpec) -> GpuExecutor:
        return self

    def elsewhere(self, view: torch.Tensor) -> Sequence[tuple[str, torch.Tensor]]:
        import torch

        others = ["cpu", *(f"cuda:{i}" for i in range(1, torch.cuda.device_count()))]
        return [(o, torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device=o)) for o in others]

    def untouched(self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor | None:
        return None

    def far_apart(self, view: torch.Tensor, mode: int, stride: int) -> torch.Tensor | None:
        return None

    def part_of(self, whole: Far, part: torch.Tensor) -> torch.Tensor | None:
        return None

    def for_targets(self, targets: Sequence[str]) -> GpuExecutor:
        return self  # which has one

    def has_code_for(self, targets: Sequence[str]) -> bool:
        import torch

        major, minor = torch.cuda.get_device_capability(0)
        return fitting(10 * major + minor, targets) is not None

    def launched(self, module: ModuleType, spec: KernelSpec, args: Sequence[object]) -> Sequence[Sequence[Launch]]:
        raise CannotRun("a GPU does not tell what it would launch")

    @contextmanager
    def standing_in(
        self, module: ModuleType, spec: KernelSpec, compiled: Mapping[int, Callable[..., Any]]
    ) -> Iterator[Callable[[Any], Any]]:
        with compiled_by(module, compiled):
            yield lambda argument: argument

    def program(self, module: ModuleType, spec: KernelSpec, flags: Sequence[str], broken: bool = False) -> Program:
        return run_program(module, spec, flags, broken)

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
