"""The protocol of executors, which run generated modules, and the emulator as one. The GPU's executor is in `gpu`."""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from copy import copy
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol
from unittest import mock

from cutegen.compiling.loading import load
from cutegen.contract import as_called, asks_multiprocessors, compiled_by, make_known
from cutegen.errors import CutegenError
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.blocks import with_blocks
from cutegen.verification.costs import LARGEST_TENSOR
from cutegen.verification.kept import Kept
from cutegen.verification.programs import Program, run_program
from cutegen.verification.returned import outputs_of

if TYPE_CHECKING:
    import torch

    from cutegen.emulator import Emulated, Launch

_NORESERVE = 0x4000  # Linux's MAP_NORESERVE: pages that nobody touches take no memory


class CannotRun(CutegenError):
    """Raised by an executor for a kernel that it is not able to run, right or wrong; the message says why."""


class Ran(NamedTuple):
    """In how many orders of blocks and warps a call ran, and the outputs that it returned, in the spec's order.

    `whole` says that each element of an output is known to have been written, with any value.
    """

    orders: int
    outputs: tuple[torch.Tensor, ...] = ()
    whole: bool = False


Judge = Callable[[str], None]


def no_judge(by: str) -> None:
    """Accepts a result that nobody looks at."""


class Far(NamedTuple):
    """A tensor, or its shape and strides in elements, with only some `coordinates` of the mode with the number `mode`,
    in rising order. Those of the range `elsewhere`, if there is one, stand for all that are not there.
    """

    tensor: Tensor
    shape: Sequence[int]
    strides: Sequence[int]
    mode: int
    coordinates: Sequence[int]
    elsewhere: range | None = None


class Executor(Protocol):
    """Runs calls of generated functions on tensors of `device`."""

    name: str  # for reports: "gpu (NVIDIA H200)"
    device: str  # where arguments live, as torch names it
    chooses_blocks: bool  # whether `part_of` works, and `run` with some blocks only
    generated: bool  # whether its modules keep all of the contract of generated ones, for a compiler too
    element_limit: int | None  # cases with a larger tensor, or more multiply-adds than 64 times this, do not run

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
        """Calls the module's function of the kernel's name, host-side checks included; what it raises passes through.

        `spec` also says what the kernel does with each tensor. Where the executor chooses the order of blocks and
        warps, it runs them in `orders` orders, which must all give the same. Returns in how many it ran, 1 where the
        order is not its own to choose or there is nothing to order, and the outputs, which must be those that were
        given. A tensor that is None is left for the module to make.

        `judge` is called once the arguments hold a result, and once more for each other one, where the code for several
        targets ran: with what the result is of, if there are several. Raises CannotRun, WrongReturn for other results
        than the outputs, and what `judge` raises. Of each launch all blocks run, or those with the numbers `blocks`, x
        fastest, which only some executors can. A persistent kernel has `grid` blocks instead of its own number, which
        may exceed the limit of a device if only some run.
        """

    def prepare(self, module: ModuleType, spec: KernelSpec) -> None:
        """Does once what all calls of a module need, where that can be done before. Raises as `run` does."""

    def explains(self) -> bool:
        """Whether what failed is to be run again, since from now on faults tell more."""

    def known(self, module: ModuleType, spec: KernelSpec) -> AbstractContextManager[None]:
        """While it is entered, torch knows the module's op, which takes plain tensors that are where arguments live.

        Raises CannotRun.
        """

    def beside(self, module: ModuleType, spec: KernelSpec) -> Executor:
        """The executor for a module, as it was loaded, that the op of another one calls: soon set up."""

    def elsewhere(self, view: torch.Tensor) -> Sequence[tuple[str, torch.Tensor]]:
        """Tensors like one that is on the device, on others: with the names of those."""

    def untouched(self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor | None:
        """A tensor that nobody looks into, however large; None where the executor has no such memory.

        Raises MemoryError where the machine has not so many addresses left.
        """

    def far_apart(self, view: torch.Tensor, mode: int, stride: int) -> torch.Tensor | None:
        """A tensor whose steps along its outermost mode are `stride` elements; None where there is no such memory."""

    def part_of(self, whole: Far, part: torch.Tensor) -> torch.Tensor | None:
        """A tensor that has only `part`; None if the executor has no such memory."""

    def launched(self, module: ModuleType, spec: KernelSpec, args: Sequence[object]) -> Sequence[Sequence[Launch]]:
        """The launches that a call would make, for each target whose code differs. Raises as `run` does, CannotRun too
        where that cannot be told.
        """

    def for_targets(self, targets: Sequence[str]) -> Executor:
        """The executor that runs the code for some targets only, if it chooses those."""

    def has_code_for(self, targets: Sequence[str]) -> bool:
        """Whether the code for one of these targets runs here."""

    def standing_in(
        self, module: ModuleType, spec: KernelSpec, compiled: Mapping[int, Callable[..., Any]]
    ) -> AbstractContextManager[Callable[[Any], Any]]:
        """Has the module's function call others than its compiled ones, by GPU; gives what makes tensors arguments."""

    def program(self, module: ModuleType, spec: KernelSpec, flags: Sequence[str], broken: bool = False) -> Program:
        """Runs a module as a program, with `broken` so that its function gives wrong outputs."""

    def synchronize(self) -> None:
        """Waits until everything that was run is done; raises what went wrong on the device."""

    def alive(self) -> bool:
        """Whether more can be run after an exception."""


class EmulatorExecutor:
    """The CPU: runs the PTX that a module compiles to, for each of its targets whose code differs, with the launches
    that its compiled host code makes, and has the result of each judged. A fault is an exception that names it.

    Tensors live in the CPU's memory and say that they are on a CUDA device.
    """

    name = "cpu (emulator)"
    device = "cpu"
    generated, chooses_blocks = True, True
    element_limit: int | None = LARGEST_TENSOR

    def __init__(
        self, targets: Sequence[str] | None = None, lines: bool = True, lazy: bool = False, kept: Kept | None = None
    ) -> None:
        """Takes the names of the module's targets that run; by default those are all whose code differs. Without
        `lines` faults do not tell the line of the module, and compiling takes less time; where it is `lazy` they do
        once `explains` was asked. What is `kept` of modules is compiled again for these lines only.
        """
        self._targets, self._lines, self._lazy = targets, lines and not lazy, lazy
        self._kept = kept or Kept()
        self._running: Sequence[str] | None = None
        self._installed: dict[ModuleType, Emulated] = {}

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
        from cutegen.emulator import FixedGrid

        if grid is not None and not self._is_compiled(module) and asks_multiprocessors(module):
            # Compiled for that grid alone: to compile it for a whole GPU first would take as long again
            module, grid = with_blocks(module, grid), None
        try:
            return self._run(module, spec, args, orders, judge, blocks, grid)
        except FixedGrid:
            assert grid is not None
            return self._run(with_blocks(module, grid), spec, args, orders, judge, blocks, None)

    def _is_compiled(self, module: ModuleType) -> bool:
        return module in self._installed or bool(self._kept.of(module))

    def _run(
        self,
        module: ModuleType,
        spec: KernelSpec,
        args: Sequence[object],
        orders: int,
        judge: Judge,
        blocks: Sequence[int] | None,
        grid: int | None,
    ) -> Ran:
        from cutegen.emulator import on_device

        with self._emulating(module, spec) as emulated:
            emulated.orders, emulated.blocks, emulated.grid = orders, blocks, grid
            given = [on_device(argument) for argument in args]
            places, named = as_called(spec, given)
            outputs = outputs_of(spec, given, getattr(module, spec.kernel)(*places, **named))
            outcomes, reports = tuple(emulated.outcomes), tuple(emulated.reports)
        if len(outcomes) > 1:
            for outcome in outcomes:
                outcome.restore()
                judge(f"the code for {outcome.target}")
        else:  # or none, if there was nothing to launch
            judge("")
        # What a launch has not written is a fault
        return Ran(max((report.orders for report in reports), default=1), outputs, bool(reports) and blocks is None)

    def prepare(self, module: ModuleType, spec: KernelSpec) -> None:
        with self._emulating(module, spec):
            pass

    def explains(self) -> bool:
        from cutegen.emulator.host.builds import builds

        lacking = [(module, emulated) for module, emulated in self._installed.items() if not emulated.tells_lines]
        if not self._lazy or not lacking:
            return False
        for module, emulated in lacking:
            emulated.builds = builds(module, self._targets, stored=self._kept.of(module))
            emulated.tells_lines = True
        return True

    @contextmanager
    def known(self, module: ModuleType, spec: KernelSpec) -> Iterator[None]:
        from cutegen.emulator.host.modules import on_cpu

        again = module in self._installed
        make_known(module)
        with self._emulating(module, spec) as emulated:
            if again:
                on_cpu(module)
            emulated.orders = 1
            yield

    def beside(self, module: ModuleType, spec: KernelSpec) -> EmulatorExecutor:
        self._kept.know(module, spec.kernel)
        return EmulatorExecutor(spec.targets[:1], lines=False, kept=self._kept)

    def elsewhere(self, view: torch.Tensor) -> Sequence[tuple[str, torch.Tensor]]:
        import torch

        from cutegen.emulator import on_device

        meta = torch.empty_strided(view.shape, view.stride(), dtype=view.dtype, device="meta")
        return [("meta", meta), ("cuda:1", on_device(view, 1))]

    def untouched(self, tensor: Tensor, shape: Sequence[int], strides: Sequence[int]) -> torch.Tensor | None:
        import torch

        from cutegen.emulator import on_device

        room = tensor.dtype.bytes * (1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True)))
        try:
            memory = mmap.mmap(-1, room, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | _NORESERVE)
        except (OSError, OverflowError, ValueError) as error:  # more than the process may have
            raise MemoryError(f"an address range needs {room} bytes") from error
        flat = torch.frombuffer(memory, dtype=torch.uint8).view(getattr(torch, tensor.dtype.torch))
        placed: torch.Tensor = on_device(flat.as_strided(tuple(shape), tuple(strides)))
        return placed

    def far_apart(self, view: torch.Tensor, mode: int, stride: int) -> torch.Tensor | None:
        from cutegen.emulator.host.device_tensors import far_apart

        placed: torch.Tensor = far_apart(view, mode, stride)
        return placed

    def part_of(self, whole: Far, part: torch.Tensor) -> torch.Tensor | None:
        from cutegen.emulator.host.device_tensors import part_of

        room = self.untouched(whole.tensor, whole.shape, whole.strides)
        return None if room is None else part_of(room, whole.mode, whole.coordinates, part, whole.elsewhere)

    def for_targets(self, targets: Sequence[str]) -> Executor:
        few = copy(self)  # which shares what is installed
        few._running = tuple(targets)
        return few

    def has_code_for(self, targets: Sequence[str]) -> bool:
        return True

    def launched(self, module: ModuleType, spec: KernelSpec, args: Sequence[object]) -> Sequence[Sequence[Launch]]:
        from cutegen.emulator import on_device

        with self._emulating(module, spec) as emulated:
            emulated.only_launches = True
            try:
                places, named = as_called(spec, list(map(on_device, args)))
                getattr(module, spec.kernel)(*places, **named)
            finally:
                emulated.only_launches = False
            return tuple(emulated.launches)

    @contextmanager
    def standing_in(
        self, module: ModuleType, spec: KernelSpec, compiled: Mapping[int, Callable[..., Any]]
    ) -> Iterator[Callable[[Any], Any]]:
        from cutegen.emulator import on_device

        with self._emulating(module, spec), compiled_by(module, compiled):
            yield on_device

    def program(self, module: ModuleType, spec: KernelSpec, flags: Sequence[str], broken: bool = False) -> Program:
        import torch

        from cutegen.emulator import on_device

        make_inputs, make_outputs, reference = module.make_inputs, module.make_outputs, module.reference

        def inputs(**sizes: int) -> tuple[Any, ...]:
            return tuple(map(on_device, make_inputs(**sizes, device="cpu")))

        def outputs(**sizes: int) -> dict[str, Any]:
            return {name: on_device(x) for name, x in make_outputs(**sizes, device="cpu").items()}

        def wanted(*places: Any, **named: Any) -> Any:  # which makes tensors where its arguments are
            given = (x.as_subclass(torch.Tensor) if isinstance(x, torch.Tensor) else x for x in places)
            found = reference(*given, **{name: x.as_subclass(torch.Tensor) for name, x in named.items()})
            return tuple(map(on_device, found)) if isinstance(found, tuple) else on_device(found)

        with (
            self._emulating(module, spec),
            mock.patch.object(torch.cuda, "is_available", lambda: True),
            mock.patch.object(module, "make_inputs", inputs),
            mock.patch.object(module, "make_outputs", outputs),
            mock.patch.object(module, "reference", wanted),
        ):
            return run_program(module, spec, flags, broken)

    @contextmanager
    def _emulating(self, module: ModuleType, spec: KernelSpec) -> Iterator[Emulated]:
        """The module's function on the emulator, which has forgotten earlier calls.

        Raises CannotRun, and FaultError for a fault that the module caught, independent of what it raised or returned
        then.
        """
        from cutegen.emulator import PtxSyntaxError, UnlikeRounds, UnsupportedInstruction, install

        try:
            if module not in self._installed:
                outputs = {t.argument for t in spec.by_argument.tensors if t.writes and (t.at or t.segments)}
                roles = {t.argument: "inout" if t.argument in outputs else t.role for t in spec.by_argument.tensors}
                stored = self._kept.of(module)
                self._installed[module] = install(
                    module, spec.kernel, self._targets, roles=roles, lines=self._lines, stored=stored
                )
            emulated = self._installed[module]
            emulated.reports.clear()
            emulated.outcomes.clear()
            emulated.faults.clear()
            emulated.targets = self._running
            try:
                yield emulated
            finally:
                emulated.blocks = emulated.grid = emulated.targets = None
                if emulated.faults:
                    raise emulated.faults[0]
        except (UnsupportedInstruction, UnlikeRounds, PtxSyntaxError) as error:
            raise CannotRun(str(error)) from error

    def synchronize(self) -> None:
        pass

    def alive(self) -> bool:
        return True


def load_module(path: Path) -> ModuleType:
    """Imports a generated file, as `cutegen.compiling.loading.load` does."""
    return load(path, f"_cutegen_verified_{path.stem}")
