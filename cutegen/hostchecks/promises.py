"""Checks of a module beyond its tensor arguments: outputs that it makes, gradients, scalars, its program."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from functools import cache, partial
from itertools import islice
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest import mock

from cutegen.codegen.host import can_be_made
from cutegen.contract import (
    asks_multiprocessors,
    cheapest_of,
    chooses,
    compiled_arguments,
    compiled_for,
    copies,
    forget_compiled,
)
from cutegen.hostchecks.judging import Check, Host, unnamed
from cutegen.hostchecks.sizes import made_of, where_strides_mean_nothing
from cutegen.hostchecks.strides import odd_along
from cutegen.language.model import Scalar
from cutegen.verification.compare import bits_of
from cutegen.verification.executor import load_module

_MULTIPROCESSORS = (132, 114, 78, 16)  # of GPUs that such calls run on: of two more kinds, and of a part of one
_OF_GPUS = (78, 114)  # multiprocessors of two GPUs
AGREES = ": agrees with torch"  # a program's line of an output, behind its name
_CHOICES = 500  # sizes of calls that choose a kernel


def checks(host: Host) -> Iterator[Check]:
    yield from _made_outputs(host)
    yield from _gradients(host)
    for scalar in host.spec.scalars:
        yield from _scalar(host, scalar)
    output = host.spec.output.argument
    if host.executor.generated:
        yield Check(output, "first calls that meet in several threads", partial(_meet, host))
        yield Check(output, "the target for a GPU", partial(_targets, host))
        if asks_multiprocessors(host.module):
            yield Check(output, "the multiprocessors of a GPU", partial(_multiprocessors, host))
        if chooses(host.module):
            yield Check(output, "the kernel that calls choose", partial(_chosen, host))
        if host.has_workspaces or copies(host.module):
            yield Check(output, "workspaces of two calls", partial(_memory_of_each_call, host))
    yield from _programs(host)


def _made_outputs(host: Host) -> Iterator[Check]:
    """Outputs that are left out: each alone, and all of them."""
    made = [tensor for tensor in host.spec.outputs if can_be_made(host.spec, tensor)]
    for left_out in [*([t] for t in made if len(made) > 1), *([made] if made else [])]:
        views = dict.fromkeys((t.name for t in left_out), None)
        yield host.takes(left_out[0].argument, f"None for {' and '.join(t.argument for t in left_out)}", views)
    others = {name: dict(host.executor.elsewhere(view)).get("cuda:1") for name, view in host.views.items()}
    if made and None not in others.values():
        for name, view in others.items():
            assert view is not None
            view.copy_(host.views[name])
        yield host.takes(made[0].argument, f"None for {made[0].argument} on cuda:1", {**others, made[0].name: None})


def _gradients(host: Host) -> Iterator[Check]:
    """Tensors that autograd follows: a call would leave its result out of the graph, unless gradients are disabled.

    Where it is, a call in which all of them are followed is made once: what takes that takes each of them. Each is
    followed alone, so that it is named, where that call is wrong.
    """
    tensors = [t for t in host.spec.tensors if t.dtype.is_float]
    followed = {t.name: host.views[t.name].detach().requires_grad_() for t in tensors}
    together = cache(host.takes("", "", followed).run)
    for tensor in tensors:
        one = {tensor.name: followed[tensor.name]}
        yield host.refuses(tensor.argument, "wants a gradient", one)

        taken = host.takes(tensor.argument, "one that wants a gradient, under no_grad", one)
        yield replace(taken, run=partial(_without_gradients, together, taken.run))
    for mode, sizes in islice(where_strides_mean_nothing(host), 1 if tensors else 0):
        made = made_of(host, host.views, sizes)
        for tensor in (t for t in host.spec.tensors if mode in t.shape):
            made[tensor.name] = odd_along(tensor, made[tensor.name], mode)
        made |= {t.name: made[t.name].detach().requires_grad_() for t in tensors}
        what = f"ones that want a gradient and have any stride along {mode}, which is 1, under no_grad"
        taken = host.with_sizes(sizes).takes(tensors[0].argument, what, made)
        yield replace(taken, run=partial(_without_gradients, taken.run, taken.run))


def _without_gradients(together: Callable[[], str], alone: Callable[[], str]) -> str:
    """Returns what is wrong with `alone` under no_grad. It runs only if `together`, with all tensors, is wrong."""
    import torch

    with torch.no_grad():
        return together() and alone()


def _targets(host: Host) -> str:
    """Checks the target that a module chooses: on a GPU for each of its own, and on one that it has no target for."""
    module = load_module(Path(str(host.module.__file__)))
    chosen: list[str] = []

    def compiled(arch: str, **kernels: object) -> Callable[..., None]:
        chosen.append(arch)
        return lambda *arguments: None

    def compile_on(capability: tuple[int, int]) -> str:
        """The target that is chosen for the second of two GPUs; the first has a capability that no target is for."""
        before = len(chosen)
        with _gpus((1, 0), capability), mock.patch.object(module, "compile_for", compiled):
            forget_compiled(module)
            first, second = compiled_for(module, 1), compiled_for(module, 1)
        if first is not second or len(chosen) > before + 1:
            raise RuntimeError("it compiles again for each call")
        return chosen[-1]

    def compile_on_both(capability: tuple[int, int]) -> str:
        """How the function of one of two GPUs of one kind is not its own: each GPU loads code by itself."""
        with _gpus(capability, capability), mock.patch.object(module, "compile_for", compiled):
            forget_compiled(module)
            own = [compiled_for(module, gpu) for gpu in (0, 1, 0, 1)]
        return "calls one GPU's function on another" if own[0] is own[1] or own[2:] != own[:2] else ""

    try:
        for target in module.TARGETS:
            digits = target.removeprefix("sm_").rstrip("a")
            if (found := compile_on((int(digits[:-1]), int(digits[-1])))) != target:
                return f"compiles for {found} on a GPU for {target}"
            if problem := compile_on_both((int(digits[:-1]), int(digits[-1]))):
                return problem
    except Exception as error:
        return f"raises {type(error).__name__} on a GPU for {target}: {str(error)[:200]}"
    try:
        return f"compiles for {compile_on((7, 5))} on a GPU for sm_75"
    except ValueError as error:
        return unnamed(error, ("cuda:1",))


def _multiprocessors(host: Host) -> str:
    """Checks the number of multiprocessors that a module is compiled for, on each of two GPUs."""
    module = load_module(Path(str(host.module.__file__)))
    told: list[object] = []

    def compiled(arch: str, **named: object) -> Callable[..., None]:
        told.append(named.get("multiprocessors"))
        return lambda *arguments: None

    for target in module.TARGETS:
        digits = target.removeprefix("sm_").rstrip("a")
        capability = int(digits[:-1]), int(digits[-1])
        with _gpus(capability, capability), mock.patch.object(module, "compile_for", compiled):
            forget_compiled(module)
            for gpu, wanted in enumerate(_OF_GPUS):
                compiled_for(module, gpu)
                if told[-1] != wanted:
                    return f"is compiled for {told[-1]} multiprocessors on a GPU with {wanted}"
    return ""


@contextmanager
def _gpus(*capabilities: tuple[int, int]) -> Iterator[None]:
    """Lets torch have GPUs of these capabilities, each with another number of multiprocessors."""
    import torch

    with (
        mock.patch.object(torch.cuda, "get_device_capability", lambda gpu=0: capabilities[gpu]),
        mock.patch.object(
            torch.cuda, "get_device_properties", lambda gpu=0: SimpleNamespace(multi_processor_count=_OF_GPUS[gpu])
        ),
    ):
        yield


def _chosen(host: Host) -> str:
    """Checks which kernels calls choose by their cost, for sizes of all magnitudes."""
    numbers, modes = random.Random(7), host.spec.modes
    for _ in range(_CHOICES):
        sizes = {mode: host.spec.static.get(mode, int(2 ** numbers.uniform(0, 15))) for mode in modes}
        sms = numbers.choice(_MULTIPROCESSORS)
        wanted = host.plan.chosen_for(sizes, sms)
        try:
            found = cheapest_of(host.module, host.spec, sizes, sms)
        except Exception as error:
            return f"raises {type(error).__name__} where it chooses: {str(error)[:200]}"
        if wanted != found:
            said = f"{', '.join(f'{mode} = {size}' for mode, size in sizes.items())} on {sms} multiprocessors"
            return f"a call with {said} takes the kernel with the number {found}; {wanted} has the least cost"
    return ""


def _memory_of_each_call(host: Host) -> str:
    """Checks that two calls in flight at once have separate workspaces."""
    with host.executor.standing_in(host.module, host.spec, {}) as placed:
        views = [placed(x) for x in host.arguments(host.views)]
        taken = [compiled_arguments(host.module, views) for _ in range(2)]
    given = len(host.spec.tensors) + len(host.spec.scalars)
    made = ([*x.memory, *(one for one in x[given:] if hasattr(one, "data_ptr"))] for x in taken)
    first, second = ([x.data_ptr() for x in some if x.numel()] for some in made)
    return "two calls have the same workspace" if set(first) & set(second) else ""


def _meet(host: Host) -> str:
    """Checks that two modules never compile at once, which CuTeDSL's compiler does not support.

    A stand-in for the compiler only takes time: in its first two calls, of either module, during which all others would
    compile too.
    """
    from cutlass import cute

    at_once, most, waited, counting = 0, 0, 0, threading.Lock()

    class Compiler:
        def __getitem__(self, options: object) -> Compiler:
            return self

        def __call__(self, *arguments: object) -> None:
            nonlocal at_once, most, waited
            with counting:
                at_once, waited = at_once + 1, waited + 1
                most, waits = max(most, at_once), waited <= 2
            time.sleep(0.01 * waits)
            with counting:
                at_once -= 1

    modules = [load_module(Path(str(host.module.__file__))) for _ in range(2)]
    calls = [partial(module.compile_for, host.module.TARGETS[0]) for module in (*modules, *modules)]
    threads = [threading.Thread(target=call) for call in calls]
    with mock.patch.object(cute, "compile", Compiler()):
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return f"{most} of {len(calls)} calls compile at once" if most > 1 else "" if most else "none of them compiles"


def _scalar(host: Host, scalar: Scalar) -> Iterator[Check]:
    """Values of a scalar that are no number of its kind, and other kinds of numbers that are."""
    wrong: tuple[object, ...] = ("1", None, [1.0], 1j)
    low, high = (0, 0) if scalar.dtype.is_float else scalar.dtype.range
    for value in wrong if scalar.dtype.is_float else (*wrong, 1.5, high + 1, low - 1):
        others = host.with_scalars({**host.scalars, scalar.name: value})
        yield others.refuses(scalar.argument, f"is {value!r}", {})
    if scalar.dtype.is_float:
        yield host.with_scalars({**host.scalars, scalar.name: 2}).takes(scalar.argument, "an int", {})
    else:
        yield host.with_scalars({**host.scalars, scalar.name: True}).takes(scalar.argument, "a bool", {})


def _programs(host: Host) -> Iterator[Check]:
    """`make_inputs`, and the module run as a program, which must tell a right kernel from a wrong one."""
    sizes = {mode: size for mode, size in host.case.sizes.items() if mode not in host.spec.static}
    output = host.spec.output.argument
    yield Check(output, "accepts what make_inputs makes", lambda: _inputs_fit(host, sizes))
    flags = [text for mode, size in sizes.items() for text in (f"--{mode}", str(size))]

    def right() -> str:
        ran = host.executor.program(host.module, host.spec, flags)
        if ran.code:
            return f"ends with {ran.code}: {ran.said[-300:]}"
        told = [line.partition(":")[0] for line in ran.said.splitlines() if line.endswith(AGREES)]
        return "" if told == [t.argument for t in host.spec.outputs] else f"says {ran.said[-300:]}"

    def wrong() -> str:
        broken = host.executor.program(host.module, host.spec, flags, broken=True)
        return "" if broken.code == 1 and broken.said else f"ends with {broken.code}: {broken.said[-300:]}"

    if host.executor.generated:
        yield Check(output, f"accepts `python {host.spec.kernel}.py {' '.join(flags)}`", right)
        if all(host.case.sizes.values()):  # else no element is there to be wrong
            yield Check(output, "the program of a kernel that is wrong", wrong)


def _inputs_fit(host: Host, sizes: Mapping[str, int]) -> str:
    """Checks the arguments that a module makes: their number and kinds, their values, and a call with them."""
    import torch

    device, spec = host.executor.device, host.spec

    def make(seed: int) -> list[Any]:
        """The inputs, the outputs that are given by name, and the scalars."""
        places = list(host.module.make_inputs(**sizes, device=device, seed=seed))
        outputs = host.module.make_outputs(**sizes, device=device, seed=seed)
        by_name = [outputs.pop(tensor.argument, None) for tensor in spec.named]
        return [*places[: len(spec.inputs)], *by_name, *outputs.values(), *places[len(spec.inputs) :]]

    tensors = (*spec.inputs, *spec.named)
    try:
        first, again, other = make(1), make(1), make(2)
    except Exception as error:
        host.look_at_memory(error, host.views.values())
        return f"raised {type(error).__name__}: {str(error)[:300]}"
    if len(first) != len(tensors) + len(spec.scalars):
        return f"makes {len(first)} arguments, not {len(tensors) + len(spec.scalars)}"
    whole = {mode: host.case.sizes[mode] for mode in spec.modes}
    for tensor, x in zip(tensors, first, strict=False):
        wanted = (f"torch.{tensor.dtype.torch}", tensor.extents(whole))
        if not isinstance(x, torch.Tensor) or (str(x.dtype), tuple(x.shape)) != wanted:
            return (
                f"makes {tensor.argument} as {x.dtype} {list(x.shape)}" if isinstance(x, torch.Tensor) else "no tensor"
            )
    views = {tensor.name: x for tensor, x in zip(tensors, first, strict=False)}
    read = [i for i, x in enumerate(first[: len(spec.inputs)]) if x.numel() > 8]
    if not all(torch.equal(bits_of(first[i]), bits_of(again[i])) for i in read):
        return "makes other values from the same seed"
    if read and all(torch.equal(bits_of(first[i]), bits_of(other[i])) for i in read):
        return "makes the same values from another seed"
    scalars = dict(zip((s.name for s in spec.scalars), first[len(tensors) :], strict=True))
    return host.with_scalars(scalars).takes("", "", views).run()
