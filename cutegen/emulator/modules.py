"""Generated modules on the emulator: the PTX that they compile to, launched as their compiled host code would.

A module offers `TARGETS`, `compile(arch, options)` and one public function of the kernel's name. `run` takes the place
of its compiled function only. Once a module is `install`ed, its public function can be called with tensors on the CPU:
all that its Python does is done, its host-side checks included, up to the compiled function. For that the tensors say
that they are on a CUDA device, and the module's table of compiled functions (`_compiled`, filled by `_load`) holds an
emulated one.
"""

from __future__ import annotations

import inspect
import re
import tempfile
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from math import prod
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any

import numpy as np

from cutegen.emulator.capture import HostCode, Launch, TensorArgument
from cutegen.emulator.faults import Fault, FaultError
from cutegen.emulator.launching import Report, launch, module_of
from cutegen.emulator.memory import BoundTensor, Role, bind, place
from cutegen.emulator.source_lines import looked_up_once
from cutegen.emulator.warps import WARP

if TYPE_CHECKING:
    import torch

WORKSPACE = "workspace"
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


@dataclass(frozen=True)
class Build:
    """What a module compiles to for one target."""

    target: str
    ptx: str
    host: HostCode


def build(module: ModuleType, target: str) -> Build:
    """Compiles for a target, with line information. Raises what the compiler raises, ValueError without PTX."""
    return _built(target, *_compiled(module, target))


def _compiled(module: ModuleType, target: str) -> tuple[str, Any]:
    """The PTX, and what it belongs to. The assembler may take it easy: what runs here is the PTX."""
    import cutlass.cute as cute

    keep = cute.KeepPTX()
    with _own_folder() as folder, looked_up_once():
        compiled = module.compile(target, options=(keep, cute.GenerateLineInfo(True), cute.PtxasOptions("-O0")))
        written = Path(getattr(keep, "full_ptx_path", ""))
        if written.parent != folder:
            raise ValueError(f"the compiler wrote its PTX to {written}, where another process may overwrite it")
        ptx = getattr(getattr(compiled, "artifacts", None), "PTX", None)
    if not isinstance(ptx, str):
        raise ValueError(f"compile({target!r}) gives no PTX: does it pass `options` on to cute.compile?")
    return ptx.rstrip("\0"), compiled


def _built(target: str, ptx: str, compiled: Any) -> Build:
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
        ptx, compiled = _compiled(module, target)
        code = re.sub(r"^\s*\.(target|version)\b.*$", "", ptx, flags=re.MULTILINE)  # without what names the target
        if code not in chosen:
            chosen[code] = _built(target, ptx, compiled)
    return tuple(chosen.values())


@dataclass(frozen=True)
class Outcome:
    """What the code for one target has left in the tensors that it may write, gaps included. `exact`: PTX says every
    bit of it."""

    target: str
    exact: bool
    outputs: tuple[tuple[BoundTensor, bytes], ...]

    def restore(self) -> None:
        """Writes it to the tensors again."""
        for tensor, data in self.outputs:
            tensor.bytes()[:] = np.frombuffer(data, np.uint8)


class Emulated:
    """Stands for a module's compiled function: call it with the function's arguments, tensors `on_device`.

    Every one of `builds` runs on the same data. Those of whose results PTX says every bit must give the same; of the
    others, whose code is approximate or may be contracted (`Report.exact`), each may have last bits of its own. After a
    call the tensors hold the results of the last one; `outcomes` has those of each, in order. `names` are the
    function's arguments; `roles` says what the kernel does with those that are tensors. A tensor that it leaves out is
    `inout`: the kernel may write it and need not, so of such an output nothing is demanded. Raises ValueError for a
    role of no argument.

    Where a call launches several kernels, each one may touch the tensors that it is given and no others. An output that
    only one of them is given must be written whole by it; one that several are given is `inout`. Tensors beyond `names`
    are workspaces: the first kernel that is given one must write it whole and not read it before, and those after that
    may only read it.

    Every launch that has an order, one of several blocks or warps, runs in the `orders` from `seed` on (as `launch`
    says); both may be changed between calls. `reports` collects what ran. A call raises FaultError for a fault, and
    what the host code raises for arguments that it refuses.
    """

    def __init__(
        self,
        builds: Sequence[Build],
        names: Sequence[str],
        roles: Mapping[str, Role] | None = None,
        *,
        seed: int = 0,
        orders: int = 1,
    ) -> None:
        self.builds, self.names, self.roles = tuple(builds), tuple(names), dict(roles or {})
        self.seed, self.orders = seed, orders
        self.reports: list[Report] = []
        self.outcomes: list[Outcome] = []
        if strange := set(self.roles) - set(self.names):
            raise ValueError(f"roles of {', '.join(sorted(strange))}; the arguments are {', '.join(self.names)}")

    def __call__(self, *arguments: Any) -> None:
        bound: list[BoundTensor] = []
        passed: list[TensorArgument | bool | int | float] = []
        as_is: list[TensorArgument | bool | int | float] = []
        spaces = len(arguments) - len(self.names)
        names = (*self.names, *(f"{WORKSPACE} {i + 1}" for i in range(spaces)))
        for number, (name, argument) in enumerate(zip(names, arguments, strict=True)):
            if not hasattr(argument, "data_ptr"):
                passed.append(argument)
                as_is.append(argument)
                continue
            unsaid: Role = "inout" if name in self.names else "out"
            tensor, given = _bound(argument, name, self.roles.get(name, unsaid), number)
            bound.append(tensor)
            passed.append(given)
            as_is.append(replace(given, address=argument.data_ptr()))
        for made in self.builds:  # host code may refuse tensors that share memory; where they are placed they do not
            made.host(*as_is)
        outputs = [tensor for tensor in bound if tensor.role != "in" and tensor.name in self.names]
        before = _outcome("", True, outputs)
        self.outcomes.clear()
        for made in self.builds:
            before.restore()
            exact = self._run(made, passed, bound)
            outcome = _outcome(made.target, exact, outputs)
            _check_same(next((o for o in self.outcomes if o.exact), outcome), outcome)
            self.outcomes.append(outcome)

    def _run(self, made: Build, passed: Sequence[Any], bound: Sequence[BoundTensor]) -> bool:
        """Whether all that ran is exact."""
        exact = True
        launches = made.host(*passed)
        for asked, tensors in zip(launches, self._given(launches, bound), strict=True):
            single_warp = asked.grid == (1, 1, 1) and prod(asked.block) <= WARP
            report = launch(
                made.ptx,
                asked.kernel,
                asked.grid,
                asked.block,
                asked.parameters,
                tensors,
                asked.shared,
                seed=self.seed,
                orders=1 if single_warp else self.orders,
            )
            self.reports.append(report)
            report.check()
            exact &= report.exact
        return exact

    def _given(self, launches: Sequence[Launch], bound: Sequence[BoundTensor]) -> list[list[BoundTensor]]:
        """What each launch may touch, and how."""
        if len(launches) == 1:
            return [list(bound)]
        given = [[t for t in bound if t.at in _words(asked.parameters)] for asked in launches]
        first: dict[str, int] = {}
        for number, tensors in enumerate(given):
            first = {t.name: number for t in tensors} | first
        several = {name for name, count in Counter(t.name for some in given for t in some).items() if count > 1}

        def role(tensor: BoundTensor, number: int) -> Role:
            if tensor.name not in self.names:
                return "out" if number == first[tensor.name] else "in"
            return "inout" if tensor.role == "out" and tensor.name in several else tensor.role

        return [[replace(t, role=role(t, number)) for t in some] for number, some in enumerate(given)]


def _words(parameters: bytes) -> set[int]:
    """What 8-byte parameters may hold, which are aligned: pointers among them."""
    return set(np.frombuffer(parameters[: len(parameters) // 8 * 8], "<u8").tolist())


def _outcome(target: str, exact: bool, outputs: Sequence[BoundTensor]) -> Outcome:
    """What the outputs hold now."""
    return Outcome(target, exact, tuple((tensor, tensor.bytes().tobytes()) for tensor in outputs))


def _check_same(one: Outcome, other: Outcome) -> None:
    if not (one.exact and other.exact):
        return
    for (tensor, data), (_, others) in zip(one.outputs, other.outputs, strict=True):
        if data != others:
            text = f"the code for {other.target} gives another {tensor.name} than that for {one.target}"
            raise FaultError(Fault("target-dependent", text, tensor=tensor.name))


def run(
    module: ModuleType,
    *arguments: Any,
    kernel: str | None = None,
    target: str | None = None,
    roles: Mapping[str, Role] | None = None,
    seed: int = 0,
    orders: int = 1,
) -> list[Report]:
    """Runs a generated module's kernel on CPU tensors, without the checks of its Python function.

    `kernel` is the public function's name, by default the module's; `target` one of its TARGETS, by default all that
    differ, of which the tensors hold the last one's results then. `roles` maps arguments to `in` (must not be written),
    `out` (must be written whole, and not read before) or `inout`, which is what the others are. `seed` and `orders` are
    as for `launch`. Raises FaultError for a fault.
    """
    signature = _signature(module, kernel or module.__name__.rpartition(".")[2])
    given = signature.bind(*arguments)
    given.apply_defaults()
    made = builds(module, None if target is None else [target])
    emulated = Emulated(made, list(signature.parameters), roles, seed=seed, orders=orders)
    arguments = tuple(map(on_device, given.args))
    with_workspaces = getattr(module, "_arguments", None)
    emulated(*(arguments if with_workspaces is None else with_workspaces(*arguments)))
    return emulated.reports


def install(
    module: ModuleType,
    kernel: str,
    targets: Iterable[str] | None = None,
    *,
    roles: Mapping[str, Role] | None = None,
) -> Emulated:
    """Makes the module's public function run on the emulator from now on; arguments have to be `on_device`.

    `targets` are those of the module's that run, by default all that differ; `roles` is as for `run`. What is returned
    has the reports of what ran, and takes other orders.
    """
    table, load = getattr(module, "_compiled", None), getattr(module, "_load", None)
    if not isinstance(table, dict) or not callable(load):
        raise TypeError(f"{module.__name__} has no _compiled and _load, which generated modules have")
    emulated = Emulated(builds(module, targets), list(_signature(module, kernel).parameters), roles)

    def emulated_load(device: Any) -> Callable[..., None]:
        """As the module's own: makes the compiled function at the first call on a device, and keeps it."""
        return table.setdefault(device.index, emulated)  # type: ignore[no-any-return]

    table.clear()
    module._load = emulated_load  # type: ignore[attr-defined]
    return emulated


def _signature(module: ModuleType, kernel: str) -> inspect.Signature:
    return inspect.signature(getattr(module, kernel))


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

        def get_device(self) -> int:
            return 0

    return DeviceTensor


def _bound(argument: torch.Tensor, name: str, role: Role, number: int) -> tuple[BoundTensor, TensorArgument]:
    kind = _KINDS.get(str(argument.dtype).removeprefix("torch."))
    if kind is None:
        raise TypeError(f"{name}: no DLPack type for {argument.dtype}")
    tensor = bind(argument, name, role, place(argument.data_ptr(), number))
    return tensor, TensorArgument(tensor.at, tensor.shape, tensor.strides, *kind, bool(argument.is_cuda))
