"""Stands in for the compiled function of a generated module: runs its builds on CPU tensors and compares them."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from math import prod
from typing import Any
from weakref import WeakValueDictionary

import numpy as np

from cutegen.emulator.checks.faults import Fault, FaultError
from cutegen.emulator.host.builds import Build
from cutegen.emulator.host.capture import Launch
from cutegen.emulator.host.device_tensors import bind_argument
from cutegen.emulator.host.launching import RefusedLaunch, Report, check_launch, launch
from cutegen.emulator.host.limits import CURRENT_STREAM, named_stream
from cutegen.emulator.host.packing import TensorArgument
from cutegen.emulator.host.same_code import Work, code_of
from cutegen.emulator.lanes import WARP
from cutegen.emulator.memory.bound_tensors import BoundTensor, Role, element_at, unwritten_elements
from cutegen.emulator.memory.far_tensors import brought_near, is_sparse, settle
from cutegen.errors import CutegenError

_NUMBER = re.compile(r"_\d+\Z")  # at the end of the name that the compiler makes of a kernel's
WORKSPACE = "workspace"
"""The name in faults of a tensor that is not an argument of the public function; its number follows."""


@dataclass(frozen=True)
class Outcome:
    """The contents of the tensors that the code for one target may write, after it ran, as bytes, gaps included.

    `exact` says that PTX determines every bit of them. `kernels` names the kernels that ran, without the numbers that
    the compiler gives them: a module may have other kernels for another target.
    """

    target: str
    exact: bool
    kernels: tuple[str, ...]
    outputs: tuple[tuple[BoundTensor, bytes], ...]

    def restore(self) -> None:
        """Writes the bytes to the tensors again."""
        for tensor, data in self.outputs:
            tensor.bytes()[:] = np.frombuffer(data, np.uint8)
            settle(tensor)


class FixedGrid(CutegenError):
    """Raised for a call whose kernel cannot be launched with another number of blocks; the message says why."""


class Emulated:
    """Stands in for a module's compiled function: call it with that function's arguments, tensors `on_device`.

    Each of `builds` runs on the same data, but for one that does what an earlier one did: the same code, launched
    alike. Those builds for which PTX gives every bit of the results must agree; the
    others, whose code is approximate or may be contracted (`Report.exact`), may have last bits of their own. After a
    call the tensors hold the results of the last build, and `outcomes` has those of each that ran, in order.

    `names` are the function's arguments; `roles` says what the kernel does with those that are tensors. A tensor
    without a role is `inout`: the kernel may write it and need not, so that nothing is demanded of such an output.
    Raises ValueError for a role of what is no argument.

    Where a call launches several kernels, each one may touch the tensors that it is given and no others. An output that
    several of them are given must be written whole by all of them together, and is not read before. Tensors beyond
    `names` are workspaces, which are neither inputs nor outputs: any kernel that is given one may write it, as often as
    it likes, and none may read what none has written since the call began. So are those that host code has made and
    passes the addresses of.

    A launch of several blocks or warps runs in as many orders as `orders` says, from `seed` on (see `launch`); both may
    be changed between calls. `reports` collects what ran, `launches` those of the last call, of each build; with
    `only_launches` a call runs none of them, and with `blocks` only those blocks of each run, by their numbers in the
    grid, x fastest, and with `targets` only the builds for those, if there are some. With `grid` the one kernel of a
    call, which is launched on more than a cluster, has that many blocks instead of its own number, which may be more
    than a device takes; a call that cannot be changed so raises FixedGrid. `given` has the addresses of the memory that
    the caller's tensors have, which `install` sets for each call: tensors in other memory were made by host code for
    the call, and what lies between their elements is nobody's; None: all are the caller's.

    `tells_lines` says whether `builds` have the lines of the module, which faults name then.

    A call raises FaultError for a fault, including a launch on another stream than the current one, and the host code's
    exceptions for wrong arguments. Code that catches a fault and calls again does not undo it: `faults` has all of
    them.
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
        self.tells_lines = True
        self.reports: list[Report] = []
        self.outcomes: list[Outcome] = []
        self.faults: list[FaultError] = []
        self.launches: list[list[Launch]] = []
        self.targets: Sequence[str] | None = None
        self.only_launches = False
        self.blocks: Sequence[int] | None = None
        self.grid: int | None = None
        self.given: frozenset[int] | None = None
        self._made: WeakValueDictionary[int, Any] = WeakValueDictionary()
        if strange := set(self.roles) - set(self.names):
            raise ValueError(f"roles of {', '.join(sorted(strange))}; the arguments are {', '.join(self.names)}")

    def know(self, made: Any) -> None:
        """Takes the address of a tensor that host code has made for that tensor, as long as it is there."""
        self._made[made.data_ptr()] = made

    def __call__(self, *arguments: Any) -> None:
        """Runs all builds. Raises FaultError for a fault, and what the host code raises for arguments it refuses."""
        try:
            self._call(arguments)
        except FaultError as fault:
            self.faults.append(fault)
            raise

    def _call(self, arguments: Sequence[Any]) -> None:
        """Runs all builds, as `__call__` does."""
        bound: list[BoundTensor] = []
        passed: list[TensorArgument | bool | int | float] = []
        as_is: list[TensorArgument | bool | int | float] = []
        spaces = len(arguments) - len(self.names)
        names = (*self.names, *(f"{WORKSPACE} {i + 1}" for i in range(spaces)))
        for number, (name, argument) in enumerate(zip(names, arguments, strict=True)):
            addressed = name not in self.names and isinstance(argument, int) and argument in self._made
            memory = self._made[argument] if addressed else argument
            if not hasattr(memory, "data_ptr"):
                passed.append(argument)
                as_is.append(argument)
                continue
            tensor, given = bind_argument(memory, name, self.roles.get(name, "inout"), number)
            own = self.given is not None and memory.untyped_storage().data_ptr() not in self.given
            bound.append(replace(tensor, spare=own))
            passed.append(given.address if addressed else given)
            as_is.append(argument if addressed else replace(given, address=argument.data_ptr()))
        # Host code may refuse tensors that share memory; where they are placed they do not
        where = passed if any(tensor.fold for tensor in bound) else as_is  # a far row may lie where another tensor is
        builds = [made for made in self.builds if self.targets is None or made.is_of(self.targets)]
        assert builds, f"no build is for {self.targets}"
        self.launches = [_asked(made, where) for made in builds]
        if self.only_launches:
            return
        bound = [brought_near(x, x.strides) or x if x.fold is None and is_sparse(x) else x for x in bound]
        outputs = [tensor for tensor in bound if tensor.role != "in" and tensor.name in self.names]
        before = _outcome("", True, (), outputs)
        self.outcomes.clear()
        done: dict[Work, Outcome] = {}
        for made in builds:
            launches = _asked(made, passed)
            if self.grid is not None:
                launches = [_resized(launches, self.grid)]
            work = tuple((code_of(made.ptx, asked.kernel), replace(asked, kernel="")) for asked in launches)
            if work in done:
                for asked in launches:  # which one target may refuse
                    with _refusals_as_faults(made, asked):
                        check_launch(
                            made.ptx,
                            asked.kernel,
                            asked.grid,
                            asked.block,
                            asked.shared,
                            asked.cluster,
                            any_grid=self.grid is not None,
                        )
                done[work].restore()
                continue
            before.restore()
            try:
                exact = self._run(made, launches, bound)
            finally:
                for tensor in bound:
                    settle(tensor)
            kernels = tuple(_NUMBER.sub("", asked.kernel) for asked in launches)
            done[work] = outcome = _outcome(made.target, exact, kernels, outputs)
            alike = (o for o in self.outcomes if o.exact and o.kernels == kernels)
            _check_same(next(alike, outcome), outcome)
            self.outcomes.append(outcome)

    def _run(self, made: Build, launches: Sequence[Launch], bound: Sequence[BoundTensor]) -> bool:
        """Runs the launches of one build on the tensors; whether PTX gives every bit of the results."""
        exact = True
        given, shared = self._given(launches, bound)
        for asked, tensors in zip(launches, given, strict=True):
            report = launched(
                made,
                asked,
                tensors,
                seed=self.seed,
                orders=self.orders,
                blocks=self.blocks,
                any_grid=self.grid is not None,
            )
            self.reports.append(report)
            report.check()
            exact &= report.exact
        named = {tensor.name for some in given for tensor in some}
        for tensor in shared:
            _check_whole(tensor, made.target, tensor.name in named)
        return exact

    def _given(
        self, launches: Sequence[Launch], bound: Sequence[BoundTensor]
    ) -> tuple[list[list[BoundTensor]], list[BoundTensor]]:
        """The tensors that each launch may touch, with the role that they have in it; and the outputs of several, or of
        none.
        """
        given = [list(bound) if len(launches) == 1 else _named(asked, bound) for asked in launches]
        count = Counter(tensor.name for some in given for tensor in some)
        common: dict[str, BoundTensor] = {}
        for tensor in bound:
            workspace = tensor.name not in self.names
            if workspace or tensor.role == "out" and count[tensor.name] != 1:
                common[tensor.name] = replace(tensor, role="inout", unwritten=np.ones(tensor.span, np.bool_))
        outputs = [tensor for name, tensor in common.items() if name in self.names]
        return [[common.get(tensor.name, tensor) for tensor in some] for some in given], outputs


def launched(
    made: Build,
    asked: Launch,
    tensors: Sequence[BoundTensor],
    *,
    seed: int = 0,
    orders: int = 1,
    blocks: Sequence[int] | None = None,
    any_grid: bool = False,
) -> Report:
    """Runs a launch that a build's host code asked for, as `launch` does; a single warp has one order.

    Raises FaultError for a launch that no device of the build's target takes.
    """
    single_warp = asked.grid == (1, 1, 1) and prod(asked.block) <= WARP
    with _refusals_as_faults(made, asked):
        return launch(
            made.ptx,
            asked.kernel,
            asked.grid,
            asked.block,
            asked.parameters,
            tensors,
            asked.shared,
            seed=seed,
            orders=1 if single_warp else orders,
            blocks=blocks,
            cluster=asked.cluster,
            early=asked.early,
            any_grid=any_grid,
        )


@contextmanager
def _refusals_as_faults(made: Build, asked: Launch) -> Iterator[None]:
    """Raises FaultError for a launch that no device of the build's target takes."""
    try:
        yield
    except RefusedLaunch as refused:
        raise FaultError(Fault("launch", str(refused), asked.kernel, target=made.target)) from refused


def _resized(launches: Sequence[Launch], blocks: int) -> Launch:
    """The only one of these launches, with so many blocks along the axis along which there are several clusters.

    Raises FixedGrid where there are several launches, or no such axis.
    """
    if len(launches) != 1:
        raise FixedGrid(f"{len(launches)} kernels are launched")
    (asked,) = launches
    if prod(asked.grid) == blocks:
        return asked
    along = [i for i in range(3) if asked.grid[i] > asked.cluster[i]]
    if len(along) != 1 or blocks % prod(asked.cluster):
        raise FixedGrid(f"a grid {asked.grid} of clusters {asked.cluster} does not tell along what it grows")
    grid = list(asked.cluster)
    grid[along[0]] *= blocks // prod(asked.cluster)
    return replace(asked, grid=(grid[0], grid[1], grid[2]))


def _named(asked: Launch, bound: Sequence[BoundTensor]) -> list[BoundTensor]:
    """The tensors into which a parameter of a launch points: at their start, or further on, where a view begins."""
    words = _words(asked.parameters)
    return [tensor for tensor in bound if any(tensor.told <= word <= tensor.told_last for word in words)]


def _asked(made: Build, arguments: Sequence[TensorArgument | bool | int | float]) -> list[Launch]:
    """The launches that a build's host code makes. Raises what it raises, and FaultError for one that goes astray."""
    try:
        launches = made.host(*arguments)
    except FaultError as error:
        raise FaultError(replace(error.fault, target=made.target)) from error
    for asked in launches:
        if asked.stream != CURRENT_STREAM:
            text = (
                f"launched on {named_stream(asked.stream)}, not on the current one: nothing orders it with what the "
                "caller has launched there"
            )
            raise FaultError(Fault("stream", text, asked.kernel, target=made.target))
    return launches


def _words(parameters: bytes) -> set[int]:
    """All aligned 8-byte words in the parameter space, among which are the pointers."""
    return set(np.frombuffer(parameters[: len(parameters) // 8 * 8], "<u8").tolist())


def _outcome(target: str, exact: bool, kernels: tuple[str, ...], outputs: Sequence[BoundTensor]) -> Outcome:
    """The outcome for a target, of what the outputs hold now."""
    return Outcome(target, exact, kernels, tuple((tensor, tensor.bytes().tobytes()) for tensor in outputs))


def _check_whole(tensor: BoundTensor, target: str, given: bool) -> None:
    """Raises FaultError if an output that several launches are `given`, or none, has elements that none has written."""
    assert tensor.unwritten is not None
    count, offset = unwritten_elements(tensor, tensor.unwritten)
    if count:
        text = f"{count} of {tensor.elements} elements of {tensor.name} were never written"
        text += "" if given else f": no kernel that the call launches is given {tensor.name}"
        where = tensor.at + offset
        element = element_at(tensor, where)
        fault = Fault("output-not-written", text, address=where, tensor=tensor.name, element=element, target=target)
        raise FaultError(fault)


def _check_same(one: Outcome, other: Outcome) -> None:
    """Raises FaultError if two outcomes that are exact differ."""
    if not (one.exact and other.exact):
        return
    for (tensor, data), (_, others) in zip(one.outputs, other.outputs, strict=True):
        if data != others:
            text = f"the code for {other.target} gives another {tensor.name} than that for {one.target}"
            raise FaultError(Fault("target-dependent", text, tensor=tensor.name, target=other.target))
