"""Emulations: while one is current, the kernels that any function launches run on the emulator."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from cutegen.emulator.calls.arguments import addressed, passed, pointers_of, tensors_of
from cutegen.emulator.calls.memory import Memory
from cutegen.emulator.checks.faults import FaultError
from cutegen.emulator.host.builds import Build
from cutegen.emulator.host.capture import Launch
from cutegen.emulator.host.emulated import launched
from cutegen.emulator.host.launching import Report
from cutegen.emulator.host.limits import CURRENT_STREAM, named_stream
from cutegen.emulator.memory.bound_tensors import PLACES

_CURRENT: ContextVar[Emulation | None] = ContextVar("emulation", default=None)


@dataclass(frozen=True)
class Ran:
    """A launch that was run: the function of its host code, its parameters, and its report."""

    function: str
    asked: Launch
    report: Report


@dataclass
class Emulation:
    """An emulation, in force while it is current: its target, its number of orders from `seed` on, and its outcome.

    `ran` has the launches, and `faults` the faults, in order, including those that the caller has caught. `notes` are
    worth knowing but are not faults, each once.
    """

    target: str
    orders: int = 1
    seed: int = 0
    memory: Memory = field(default_factory=Memory)
    ran: list[Ran] = field(default_factory=list)
    faults: list[FaultError] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    compiling: Callable[[str], None] = lambda function: None
    _ranges: int = 0

    def run(self, build: Build, arguments: Mapping[str, Any], function: str) -> None:
        """Runs what a compiled function launches when it is called with these arguments, by their parameters' names.

        Raises FaultError for a fault, what the host code raises for arguments that it refuses, and CaptureError and
        UnsupportedInstruction for what is not emulated.
        """
        try:
            self._run(build, arguments, function)
        except FaultError as error:
            error = error if error.fault.target else _with_target(error, build.target)
            self.faults.append(error)
            raise error from None

    def _run(self, build: Build, arguments: Mapping[str, Any], function: str) -> None:
        named = [*tensors_of(arguments), *pointers_of(arguments, self.memory)]
        places = {tensor.untyped_storage().data_ptr() for _, tensor in named}
        spare = [(name, x) for name, x in addressed(arguments, self.memory) if x.data_ptr() not in places]
        count = len(named) + len(spare)
        first = self._ranges if self._ranges + count <= PLACES else 0
        regions = self.memory.regions([*named, *spare], first, {x.data_ptr() for _, x in spare})
        self._ranges = first + len(regions)
        launches = build.host(*(passed(value, regions) for value in arguments.values()))
        tensors = [region.tensor for region in regions if region.tensor.span]
        try:
            for asked in launches:
                self._look_at_stream(asked, function)
                report = launched(build, asked, tensors, seed=self.seed, orders=self.orders)
                self.ran.append(Ran(function, asked, report))
                report.check()
        finally:
            self.memory.settle(regions)

    def _look_at_stream(self, asked: Launch, function: str) -> None:
        if asked.stream != CURRENT_STREAM:
            self.note(
                f"{function} launches on {named_stream(asked.stream)}, not on torch's current stream: on a "
                "GPU nothing orders it with work on another"
            )

    def note(self, text: str) -> None:
        """Notes something, if it was not noted before."""
        if text not in self.notes:
            self.notes.append(text)


def current() -> Emulation | None:
    """The emulation that is entered in this context, the innermost one; None outside of any."""
    return _CURRENT.get()


@contextmanager
def as_current(emulation: Emulation) -> Iterator[None]:
    """While it is entered, this emulation is the current one."""
    token = _CURRENT.set(emulation)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def _with_target(error: FaultError, target: str) -> FaultError:
    """The same fault, of the code for a target."""
    return FaultError(replace(error.fault, target=target))
