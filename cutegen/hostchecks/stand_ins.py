"""Calls behind which another function stands than the compiled one: which GPU's is called, and what it raises."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from itertools import product
from math import prod
from typing import TYPE_CHECKING, Any
from unittest import mock

from cutegen.codegen.host import can_be_made
from cutegen.contract import as_called, compiled_arguments, copies
from cutegen.expressions.places import parts_of
from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.sizes import as_promised, made_of, where_strides_mean_nothing
from cutegen.hostchecks.strides import with_stride

if TYPE_CHECKING:
    import torch

Compiled = Callable[..., None]
Views = Mapping[str, "torch.Tensor | None"]

SAID = "what a launch raises"
ERRORS = (RuntimeError, ValueError, TypeError, AssertionError, MemoryError, OSError, ZeroDivisionError)


def checks(host: Host) -> Iterator[Check]:
    if not host.executor.generated:
        return
    output = host.spec.output.argument
    if host.spec.named:
        yield Check(output, "outputs by place", partial(_by_place, host))
    yield Check(output, "errors of a launch", partial(_raises, host, None))
    if (usual := as_promised(host)) is not None:
        yield Check(output, "errors of a launch, wide accesses", partial(_raises, usual, None))
        if (elsewhere := _on_another(usual, usual.views)) is not None:
            what = "the kernel of another GPU, wide accesses"
            yield Check(output, what, partial(_calls_that_of, usual, elsewhere))
    free = _with_free_strides(host)
    for tensor in (t for t in host.spec.outputs if can_be_made(host.spec, t)):
        what = f"errors of a launch without {tensor.argument}"
        yield Check(tensor.argument, what, partial(_raises, host, tensor.name))
        making = partial(_raises_in_making, host, tensor.name, free)
        yield Check(tensor.argument, f"errors of making {tensor.argument}", making)
    if free is not None:
        yield Check(output, "errors of a launch with other strides", partial(_raises_again, host, free))
    if (elsewhere := _on_another(host, host.views)) is not None:
        yield Check(output, "the kernel of another GPU", partial(_calls_that_of, host, elsewhere))
        made = [t.name for t in host.spec.outputs if can_be_made(host.spec, t)]
        if made:
            left_out = {**elsewhere, **dict.fromkeys(made)}
            yield Check(output, "the kernel of another GPU, without outputs", partial(_calls_that_of, host, left_out))
        if free is not None and (moved := _on_another(host, free)) is not None:
            what = "the kernel of another GPU, with other strides"
            yield Check(output, what, partial(_calls_that_of, host, moved, fails_first=True))
        if host.has_workspaces or copies(host.module):
            yield Check(output, "workspaces on another GPU", partial(_workspaces, host, elsewhere))


def _call(host: Host, views: Views, compiled: Mapping[int, Compiled]) -> object:
    """The result of a call where `compiled` replaces the compiled function of each GPU. Raises what the call raises."""
    import torch

    with host.executor.standing_in(host.module, host.spec, compiled) as placed, torch.no_grad():
        places, named = as_called(host.spec, [placed(x) for x in host.arguments(views)])
        given = {name: x for name, x in named.items() if x is not None}
        return getattr(host.module, host.spec.kernel)(*places, **given)


def _by_place(host: Host) -> str:
    """Checks that Python rejects a call with outputs as positional arguments, and that nothing is launched."""
    called: list[object] = []
    given = [*host.views.values(), *host.scalars.values()]
    with host.executor.standing_in(host.module, host.spec, {0: lambda *x: called.append(x)}) as placed:
        try:
            getattr(host.module, host.spec.kernel)(*map(placed, given))
        except TypeError as error:
            return "" if f"{host.spec.kernel}()" in str(error) else f"raises {str(error)[:200]}"
    return f"was accepted{', and launched' if called else ''}"


def _raises(host: Host, left_out: str | None) -> str:
    """Checks that a call with valid arguments passes on the errors that the compiled function raises."""
    views: Views = {**host.views, left_out: None} if left_out else host.views
    for kind in ERRORS:
        error, calls = kind(SAID), list[Any]()
        if problem := _raised(host, views, {0: _raising(error, calls)}, error):
            return problem
        if len(calls) > 1 and not copies(host.module):
            return f"after {kind.__name__} it is launched again, with the same arguments"
    return ""


def _raises_in_making(host: Host, name: str, free: Views | None) -> str:
    """Checks that a call passes on the errors of making an output, such as a lack of memory or a torch built without
    CUDA; also with `free`, tensors whose strides would not fit, if given.
    """
    for kind, views in product(ERRORS, (host.views, *([free] if free else []))):
        error = kind(SAID)
        with ExitStack() as stack:
            for function in ("_new", "_empty"):
                if function in vars(host.module):
                    stack.enter_context(mock.patch.object(host.module, function, _raising(error)))
            if problem := _raised(host, {**views, name: None}, {0: lambda *_: None}, error):
                return problem
    return ""


def _raises_again(host: Host, views: Views) -> str:
    """Checks that a call passes on the error of its second launch, after the first one rejected meaningless strides."""
    for kind in ERRORS:
        raised: list[Exception] = []

        def fails(*_: object, raised: list[Exception] = raised, kind: type[Exception] = kind) -> None:
            raised.append(kind(SAID) if raised else ValueError("strides"))
            raise raised[-1]

        try:
            _call(host, views, {0: fails})
        except Exception as found:
            if not raised:
                host.look_at_memory(found, views.values())
                return f"{type(found).__name__} is raised before a launch: {str(found)[:200]}"
            if found is not raised[-1]:
                return f"{kind.__name__} becomes {type(found).__name__}: {str(found)[:200]}"
        else:
            return f"{kind.__name__} is lost: the call returns"
    return ""


def _raised(host: Host, views: Views, compiled: Mapping[int, Compiled], error: Exception) -> str:
    """Checks that a call raises `error`, this very object."""
    try:
        _call(host, views, compiled)
    except Exception as found:
        if found is error:
            return ""
        return f"{type(error).__name__} becomes {type(found).__name__}: {str(found)[:200]}"
    return f"{type(error).__name__} is lost: the call returns"


def _raising(error: Exception, calls: list[Any] | None = None) -> Compiled:
    """A function that raises an error, and leaves in `calls` what it was called with."""

    def fails(*arguments: object, **_: object) -> None:
        if calls is not None:
            calls.append(arguments)
        raise error

    return fails


def _calls_that_of(host: Host, views: Views, fails_first: bool = False) -> str:
    """Checks that a call with tensors on GPU 1 launches that GPU's kernel, with tensors on that GPU only."""
    called: list[int] = []
    strays: list[str] = []

    def compiled(gpu: int) -> Compiled:
        def noted(*arguments: Any) -> None:
            called.append(gpu)
            strays.extend(str(x.device) for x in arguments if hasattr(x, "get_device") and x.get_device() != 1)
            if fails_first and len(called) == 1:
                raise ValueError("strides")

        return noted

    with suppress(ValueError):  # where the call knows by itself that strides do not fit, and launches only once
        _call(host, views, {0: compiled(0), 1: compiled(1)})
    if set(called) != {1}:
        return f"calls the kernels of the GPUs {called}, not of 1"
    return f"is called with tensors on {strays[0]}" if strays else ""


def _workspaces(host: Host, views: Views) -> str:
    """Checks the memory that a call allocates for itself: its GPU, type, size and strides."""
    import torch

    given = len(host.spec.tensors) + len(host.spec.scalars)
    try:
        with host.executor.standing_in(host.module, host.spec, {}) as placed:
            taken = compiled_arguments(host.module, [placed(x) for x in host.arguments(views)])
            arguments = [x for x in taken[given:] if isinstance(x, torch.Tensor)]  # the number of a kernel may follow
    except Exception as error:
        host.look_at_memory(error, views.values())
        return f"making them raises {type(error).__name__}: {str(error)[:200]}"
    if any(x.get_device() != 1 for x in taken.memory):
        return f"memory for rows is on {taken.memory[0].device}, and the tensors on cuda:1"
    if len(arguments) != len(host.workspaces):
        return f"{len(arguments)} are made, not {len(host.workspaces)}"
    for space, x in zip(host.workspaces, arguments, strict=True):
        sizes = host.case.sizes
        least = [prod(sizes[p] for p in parts_of(m.size)) if isinstance(m.size, str) else m.size for m in space.modes]
        least = [mode.rounded(size) for size, mode in zip(least, space.modes, strict=True)]
        if x.get_device() != 1:
            return f"{space.parameter} is on {x.device}, and the tensors on cuda:1"
        if str(x.dtype) != f"torch.{space.dtype.torch}" or any(a < b for a, b in zip(x.shape, least, strict=True)):
            return f"{space.parameter} is {x.dtype} {list(x.shape)}, not {space.dtype.torch} {least}"
        if x.stride(space.major) != 1:
            return f"{space.parameter} has strides of {list(x.stride())}"
    return ""


def _with_free_strides(host: Host) -> dict[str, torch.Tensor] | None:
    """Tensors with strides that mean nothing, and that the compiled function does not take; None if there are none."""
    for mode, sizes in where_strides_mean_nothing(host):
        views = made_of(host, [t.name for t in host.spec.tensors], sizes)
        for tensor in (t for t in host.spec.tensors if mode in t.shape):
            odd = 3 if mode == tensor.major else 0
            views[tensor.name] = with_stride(tensor, views[tensor.name], mode, odd)
        return views
    return None


def _on_another(host: Host, views: Mapping[str, torch.Tensor]) -> dict[str, torch.Tensor | None] | None:
    """The tensors on a second GPU, if there is one or one can be pretended."""
    found = {name: dict(host.executor.elsewhere(view)).get("cuda:1") for name, view in views.items()}
    return None if None in found.values() else found
