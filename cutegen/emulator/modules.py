"""Generated modules on the emulator: the PTX that they compile to, launched as their compiled host code would.

A module offers `TARGETS`, `compile(arch, options)` and one public function of the kernel's name. `call` makes a call of
that function with tensors on the CPU: all that its Python does is done, its host-side checks included, up to the
compiled function. For that the tensors say that they are on a CUDA device, and the module's table of compiled functions
(`_compiled`, filled by `_load`) holds an emulated one.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cutegen.emulator.capture import HostCode, TensorArgument
from cutegen.emulator.faults import Fault, FaultError
from cutegen.emulator.launching import Report, launch, module_of
from cutegen.emulator.memory import BoundTensor, Role, bind, place

if TYPE_CHECKING:
    import torch

_KINDS = {
    "float64": ("f", 64),
    "float32": ("f", 32),
    "float16": ("f", 16),
    "bfloat16": ("V", 16),
    "int64": ("i", 64),
    "int32": ("i", 32),
    "int16": ("i", 16),
    "int8": ("i", 8),
    "uint8": ("u", 8),
    "bool": ("b", 8),
}
_USES: Mapping[str, Role] = {"read": "in", "written": "out", "read and written": "inout"}


@dataclass(frozen=True)
class Build:
    """What a module compiles to for one target."""

    target: str
    ptx: str
    host: HostCode

    @property
    def code(self) -> str:
        """The PTX without the lines that only name its target."""
        return re.sub(r"^\s*\.(target|version)\b.*$", "", self.ptx, flags=re.MULTILINE)


def build(module: ModuleType, target: str) -> Build:
    """Compiles for a target, with line information. Raises what the compiler raises, ValueError without PTX."""
    import cutlass.cute as cute

    keep = cute.KeepPTX()
    with _own_folder() as folder:
        compiled = module.compile(target, options=(keep, cute.GenerateLineInfo(True)))
        written = Path(getattr(keep, "full_ptx_path", ""))
        if written.parent != folder:
            raise ValueError(f"the compiler wrote its PTX to {written}, where another process may overwrite it")
        ptx = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    if not isinstance(ptx, str):
        raise ValueError(f"compile({target!r}) gives no PTX: does it pass `options` on to cute.compile?")
    ptx = ptx.rstrip("\0")
    parameters = {k.name: [(p.offset, p.size) for p in k.parameters] for k in module_of(ptx).kernels}
    return Build(target, ptx, HostCode(compiled, parameters))


@contextmanager
def _own_folder() -> Iterator[Path]:
    """Lets the compiler write to an empty folder.

    By default that is the working directory of when it was imported. It names files by argument types and reads the PTX
    back from there, so two processes would read each other's.
    """
    from cutlass.cutlass_dsl import CuTeDSL

    settings = CuTeDSL._get_dsl().envar
    before = settings.dump_dir
    with tempfile.TemporaryDirectory(prefix="cutegen-") as folder:
        settings.dump_dir = folder
        try:
            yield Path(folder)
        finally:
            settings.dump_dir = before


def builds(module: ModuleType, targets: Iterable[str] | None = None) -> tuple[Build, ...]:
    """One for each target whose PTX differs from those before it by more than the target's name."""
    chosen: dict[str, Build] = {}
    for target in targets or module.TARGETS:
        made = build(module, target)
        chosen.setdefault(made.code, made)
    return tuple(chosen.values())


def roles(module: ModuleType, kernel: str) -> dict[str, Role]:
    """What the kernel does with each tensor, as the documentation of its function says; empty where it says nothing."""
    text = " ".join((inspect.getdoc(getattr(module, kernel)) or "").split())
    names = list(inspect.signature(getattr(module, kernel)).parameters)
    found: dict[str, Role] = {}
    for name in names:
        match = re.search(rf"(?<!\w){re.escape(name)}: \[[^\]]*\].*?, (read and written|read|written)\.", text)
        if match:
            found[name] = _USES[match[1]]
    return found


class Emulated:
    """Stands for a module's compiled function: call it with the function's arguments, tensors `on_device`.

    Every one of `builds` runs on the same data and must give the same bits. The first `thorough` launches of more than
    one warp that are not too long run in `ORDERS` orders. `reports` collects what ran. Raises FaultError for a fault,
    and what the host code raises for arguments that it refuses.
    """

    ORDERS = 3
    LONG = 20_000_000  # instructions

    def __init__(
        self, builds: Sequence[Build], names: Sequence[str], roles: Mapping[str, Role], thorough: int = 3
    ) -> None:
        self.builds, self.names, self.roles, self.thorough = tuple(builds), tuple(names), dict(roles), thorough
        self.reports: list[Report] = []

    def __call__(self, *arguments: Any) -> None:
        bound: list[BoundTensor] = []
        passed: list[TensorArgument | bool | int | float] = []
        for number, argument in enumerate(arguments):
            if not hasattr(argument, "data_ptr"):
                passed.append(argument)
                continue
            name = self.names[number] if number < len(self.names) else f"argument {number}"
            tensor, given = _bound(argument, name, self.roles.get(name, "inout"), number)
            bound.append(tensor)
            passed.append(given)
        outcomes: list[list[bytes]] = []
        before = [t.bytes().tobytes() for t in bound if t.role != "in"]
        for made in self.builds:
            for tensor, data in zip((t for t in bound if t.role != "in"), before, strict=True):
                tensor.bytes()[:] = np.frombuffer(data, np.uint8)
            self._run(made, passed, bound)
            outcomes.append([t.bytes().tobytes() for t in bound if t.role != "in"])
        for made, outcome in zip(self.builds[1:], outcomes[1:], strict=True):
            if outcome != outcomes[0]:
                text = f"the code for {made.target} gives other bits than that for {self.builds[0].target}"
                raise FaultError(Fault("order-dependent", text))

    def _run(self, made: Build, passed: Sequence[Any], bound: Sequence[BoundTensor]) -> None:
        for asked in made.host(*passed):
            several = self.thorough > 0 and (asked.grid != (1, 1, 1) or np.prod(asked.block) > 32)
            last = self.reports[-1].instructions if self.reports else 0
            orders = self.ORDERS if several and last < self.LONG else 1
            self.thorough -= orders > 1
            report = launch(
                made.ptx,
                asked.kernel,
                asked.grid,
                asked.block,
                asked.parameters,
                bound,
                asked.shared,
                orders=orders,
            )
            self.reports.append(report)
            report.check()


def run(module: ModuleType, *arguments: Any, kernel: str | None = None, target: str | None = None) -> list[Report]:
    """Runs a generated module's kernel on CPU tensors, without the checks of its Python function.

    `kernel` is the public function's name, by default the module's; `target` one of its TARGETS, by default all that
    differ. Raises FaultError for a fault.
    """
    name = kernel or module.__name__.rpartition(".")[2].removeprefix("_cutegen_verified_")
    function = getattr(module, name, None)
    names = list(inspect.signature(function).parameters) if function else []
    made = builds(module, [target] if target else None)
    emulated = Emulated(made, names, roles(module, name) if function else {}, thorough=0)
    emulated(*map(on_device, arguments))
    return emulated.reports


def install(module: ModuleType, kernel: str, targets: Iterable[str] | None = None) -> Emulated:
    """Makes the module's public function run on the emulator from now on; arguments have to be `on_device`."""
    table, load = getattr(module, "_compiled", None), getattr(module, "_load", None)
    if not isinstance(table, dict) or not callable(load):
        raise TypeError(f"{module.__name__} has no _compiled and _load, which generated modules have")
    names = list(inspect.signature(getattr(module, kernel)).parameters)
    emulated = Emulated(builds(module, targets), names, roles(module, kernel))

    def emulated_load(device: Any) -> Callable[..., None]:
        """As the module's own: makes the compiled function at the first call on a device, and keeps it."""
        return table.setdefault(device.index, emulated)  # type: ignore[no-any-return]

    table.clear()
    module._load = emulated_load  # type: ignore[attr-defined]
    return emulated


def on_device(argument: Any) -> Any:
    """A CPU tensor that says it is on the first CUDA device, sharing its memory; anything else as it is."""
    import torch

    if not isinstance(argument, torch.Tensor) or argument.device.type != "cpu":
        return argument
    return argument.as_subclass(_device_tensor())


@lru_cache(maxsize=1)
def _device_tensor() -> Any:
    import torch

    class DeviceTensor(torch.Tensor):
        """Memory of the emulated device."""

        @property
        def is_cuda(self) -> bool:  # type: ignore[override]
            return True

        @property
        def device(self) -> torch.device:  # type: ignore[override]
            return torch.device("cuda", 0)

    return DeviceTensor


def _bound(argument: torch.Tensor, name: str, role: Role, number: int) -> tuple[BoundTensor, TensorArgument]:
    kind = _KINDS.get(str(argument.dtype).removeprefix("torch."))
    if kind is None:
        raise TypeError(f"{name}: no DLPack type for {argument.dtype}")
    if argument.is_meta or argument.is_sparse:
        raise ValueError(f"{name}: expected a tensor with memory, on the device")
    tensor = bind(argument, name, role, place(argument.data_ptr(), number))
    return tensor, TensorArgument(tensor.at, tensor.shape, tensor.strides, *kind, bool(argument.is_cuda))
