"""One call of a function on the emulator, and what came of it."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from cutegen.emulator.calls.emulating import TARGET, emulating
from cutegen.emulator.calls.emulation import Emulation, Ran, current
from cutegen.emulator.calls.marked import Marked
from cutegen.emulator.calls.memory import tensors_in
from cutegen.emulator.checks.faults import FaultError
from cutegen.emulator.host.device_tensors import on_device
from cutegen.emulator.host.limits import CURRENT_STREAM
from cutegen.emulator.memory.bound_tensors import Role
from cutegen.errors import CutegenError

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class Touched:
    """A tensor that a function was called with, or that it has returned, and how many of its elements were written."""

    name: str
    tensor: torch.Tensor
    role: Role
    written: int


@dataclass(frozen=True)
class Called:
    """The outcome of a call: the function's result, the launches in order, and the tensors that it was given.

    `results` are the tensors in `result`. All tensors, those of `arguments` included, are on the CPU. `notes` are worth
    knowing but are not faults.
    """

    result: Any
    ran: tuple[Ran, ...]
    arguments: tuple[Touched, ...]
    results: tuple[Touched, ...]
    notes: tuple[str, ...]


def call(
    function: Callable[..., Any],
    *arguments: Any,
    target: str | None = None,
    orders: int | None = None,
    seed: int | None = None,
    outputs: Collection[str] | None = None,
    inouts: Collection[str] = (),
    **named: Any,
) -> Called:
    """Calls a function that launches kernels of CuTeDSL, on the CPU, with all checks of the emulator.

        @cute.jit
        def add(a: cute.Tensor, b: cute.Tensor, c: cute.Tensor): ...

        c = torch.zeros(100, 37)
        emulator.call(add, a, b, c, target="sm_80", outputs=["c"], orders=3)

    `function` is one of `cute.jit`, an object that has such a `__call__`, or any that compiles and calls such functions
    inside, as the functions of libraries do that take torch tensors. Tensors among the arguments, which may be parts of
    tuples, lists and mappings, are tensors of the CPU, and hold the results afterwards. A function of `cute.jit` gets
    them as CuTeDSL passes them, or as `emulator.tensor` says; a stream that it takes and that is left out is torch's
    current one.

    `outputs` names the parameters whose tensors must be written whole and not be read before; then others must not be
    written, but for `inouts`. Without it, each tensor may be read and written. Of what the function returns, all must
    be written. `target` is what is compiled for, by default sm_90a; `orders` and `seed` are as for `launch`. Where an
    emulation is entered already, they are that one's. A function with parameters of these names can be given theirs by
    functools.partial.

    Raises FaultError for a fault, CompileError where CuTeDSL does not compile, CaptureError and UnsupportedInstruction
    for what is not emulated, NothingLaunched where no kernel was launched, so that nothing was checked, and what the
    function raises. Raises NoSuchTensor, a ValueError, for names of no tensors,
    WrongArguments, a TypeError, for arguments that a `cute.jit` function does not take, and ValueError for a target
    other than that of the emulation that is entered.
    """
    emulation = current()
    if emulation is not None:
        for asked, entered in ((target, emulation.target), (orders, emulation.orders), (seed, emulation.seed)):
            if asked not in (None, entered):
                raise ValueError(f"{asked} was asked for, within an emulation of {entered}")
        return _call(emulation, function, arguments, named, outputs, inouts)
    with emulating(target or TARGET, orders=orders or 1, seed=seed or 0) as emulation:
        return _call(emulation, function, arguments, named, outputs, inouts)


def _call(
    emulation: Emulation,
    function: Callable[..., Any],
    arguments: Sequence[Any],
    named: Mapping[str, Any],
    outputs: Collection[str] | None,
    inouts: Collection[str],
) -> Called:
    if _is_kernel(function):
        raise NothingLaunched(
            f"{_name(function)} is a kernel of the device, which the host launches",
            "name the function of cute.jit that launches it, or one that calls that",
        )
    start = len(emulation.ran)
    faults = len(emulation.faults)
    outputs, inouts = _names(outputs), _names(inouts) or ()
    bound = bound_arguments(function, arguments, named)
    more = dict(_stream(function, bound))
    if is_jit(function):
        _check(function, arguments, {**named, **more})
    tensors = dict(named_tensors(bound))
    roles = _roles(list(tensors), outputs, inouts)
    for name, tensor in tensors.items():
        emulation.memory.give(tensor, name, roles[name])
    result = function(*map(_on_device, arguments), **{k: _on_device(v) for k, v in named.items()}, **more)
    if emulation.faults[faults:]:
        raise emulation.faults[faults]  # which the function has caught
    if not emulation.ran[start:]:
        raise NothingLaunched(f"{_name(function)} launched no kernel, so nothing was checked")
    plain = _on_cpu(result)
    returned = [(f"result{part}", tensor) for part, tensor in tensors_in(plain)]
    whole = [(name, tensor) for name, tensor in tensors.items() if roles[name] == "out"]
    for fault in emulation.memory.faults([*whole, *returned], emulation.target):
        emulation.faults.append(FaultError(fault))
        raise emulation.faults[-1]
    known = emulation.memory
    return Called(
        plain,
        tuple(emulation.ran[start:]),
        tuple(Touched(name, tensor, roles[name], known.written(tensor)) for name, tensor in tensors.items()),
        tuple(Touched(name, tensor, "out", known.written(tensor)) for name, tensor in returned),
        tuple(emulation.notes),
    )


def bound_arguments(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of a call by the names of the function's parameters; by numbers, where these cannot be told.

    Those that do not fit are left for the call to refuse.
    """
    try:
        given = inspect.signature(function).bind_partial(*arguments, **named)
    except (TypeError, ValueError):
        return {**{f"argument {i + 1}": value for i, value in enumerate(arguments)}, **named}
    found: dict[str, Any] = {}
    for name, value in given.arguments.items():
        kind = given.signature.parameters[name].kind
        if kind is inspect.Parameter.VAR_KEYWORD:
            found.update(value)
        elif kind is inspect.Parameter.VAR_POSITIONAL:
            found.update({f"{name}[{i}]": each for i, each in enumerate(value)})
        else:
            found[name] = value
    return found


def named_tensors(bound: Mapping[str, Any]) -> Iterator[tuple[str, torch.Tensor]]:
    """The torch tensors among the arguments, in the CPU's memory, with their names."""
    import torch

    for name, value in bound.items():
        source = value.tensor if isinstance(value, Marked) else getattr(value, "_cutegen_source", value)
        for part, tensor in tensors_in(source):
            yield name + part, tensor.as_subclass(torch.Tensor)


def _names(given: Collection[str] | None) -> Collection[str] | None:
    """Names, as a sequence or as a single string."""
    return [given] if isinstance(given, str) else given


def _roles(names: Sequence[str], outputs: Collection[str] | None, inouts: Collection[str]) -> dict[str, Role]:
    """The role of each tensor. Raises ValueError for names of no tensors."""
    for name in (*(outputs or ()), *inouts):
        if name not in names:
            raise NoSuchTensor(f"there is no tensor `{name}` among the arguments", f"there are {', '.join(names)}")
    if outputs is None:
        return dict.fromkeys(names, "inout")
    roles: dict[str, Role] = dict.fromkeys(names, "in")
    roles.update(dict.fromkeys(inouts, "inout"))
    roles.update(dict.fromkeys(outputs, "out"))
    return roles


class NothingLaunched(CutegenError):
    """A function that was called to be checked has launched no kernel."""


class NoSuchTensor(CutegenError, ValueError):
    """An output was named that is no tensor among the arguments."""


class WrongArguments(CutegenError, TypeError):
    """A function of `cute.jit` was given too few arguments, or ones that it has no parameters for."""


def _check(function: Callable[..., Any], arguments: Sequence[Any], named: Mapping[str, Any]) -> None:
    """Raises WrongArguments where the arguments do not fit the function's parameters."""
    signature = inspect.signature(function)
    try:
        signature.bind(*arguments, **named)
    except TypeError as error:
        names = ", ".join(signature.parameters)
        raise WrongArguments(f"{_name(function)}: {error}", f"its parameters are {names}") from None


def _name(function: Any) -> str:
    """The name of a function, or of an object that can be called, in messages."""
    return str(getattr(function, "__name__", None) or type(function).__name__)


def _stream(function: Callable[..., Any], bound: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The current stream, by name, for a parameter of a `cute.jit` function that takes one and was given none."""
    if not is_jit(function):
        return
    for name, parameter in inspect.signature(function).parameters.items():
        said = parameter.annotation
        if name not in bound and getattr(said, "__name__", str(said)).rpartition(".")[2] == "CUstream":
            import cuda.bindings.driver as driver

            yield name, driver.CUstream(CURRENT_STREAM)


def _is_kernel(function: Any) -> bool:
    """Whether something is a function of `cute.kernel`, which does nothing where the host calls it."""
    while hasattr(function, "__wrapped__"):
        function = function.__wrapped__
    return getattr(function, "_decorator_kind", "") == "kernel"


def is_jit(function: Any) -> bool:
    """Whether something is a function of `cute.jit`, or an object with such a `__call__`."""
    for found in (function, getattr(function, "__func__", None), vars(type(function)).get("__call__")):
        while found is not None:
            if getattr(found, "_decorator_kind", "") == "jit":
                return True
            found = getattr(found, "__wrapped__", None)
    return False


def _on_device(value: Any) -> Any:
    """A value with all of its tensors on the pretended GPU."""
    return mapped(value, on_device)


def _on_cpu(value: Any) -> Any:
    """A value with all of its tensors as plain ones, which lie in the CPU's memory anyway."""
    import torch

    return mapped(value, lambda t: t.as_subclass(torch.Tensor) if isinstance(t, torch.Tensor) else t)


def mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """A value in which each part of a tuple, list or mapping is changed."""
    if type(value) in (tuple, list):
        return type(value)(mapped(each, change) for each in value)
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*(mapped(each, change) for each in value))
    if type(value) is dict:
        return {key: mapped(each, change) for key, each in value.items()}
    return change(value)
