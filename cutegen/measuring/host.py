"""How long one call keeps the CPU busy, before anything ran on the device."""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Mapping, Sequence
from types import ModuleType

from cutegen.contract import compiled_arguments, compiled_function
from cutegen.measuring.arguments import make_arguments
from cutegen.measuring.clock import summary
from cutegen.measuring.model import Timing
from cutegen.planning.plan import Plan
from cutegen.verification.cases import derive_cases

CALLS = 100  # in a row: far fewer than a device's queue holds, so that no call waits for it
ROUNDS = 50
_SMALL = 1024  # elements of torch's tensors


def host_times(
    plan: Plan,
    module: ModuleType,
    device: str,
    wait: Callable[[], None],
    clock: Callable[[], float] = time.perf_counter,
) -> dict[str, Timing]:
    """Measures how many microseconds one call keeps the CPU busy.

    That is for the generated function on one tile, for the compiled function behind it, and for `torch.add(out=)` on
    small tensors. `wait` returns once the device is idle; nothing waits within what is timed.
    """
    import torch

    case = derive_cases(plan)[0]
    arguments = make_arguments(plan.spec, case.sizes, 1, device)
    call = _with_names(getattr(module, plan.spec.kernel), *arguments.call(0))
    call()  # compiles
    with_workspaces = compiled_arguments(module, arguments.compiled(0))
    compiled = compiled_function(module, arguments.sets[0][0].device.index, with_workspaces)
    generator = torch.Generator(device).manual_seed(0)
    a, b, c = (torch.randn(_SMALL, device=device, generator=generator) for _ in range(3))
    calls: dict[str, Callable[[], object]] = {
        "call": call,
        "compiled": lambda: compiled(*with_workspaces),
        "torch.add": lambda: torch.add(a, b, out=c),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    collecting = gc.isenabled()
    gc.disable()
    try:
        for number in range(ROUNDS + 5):
            for name, call in calls.items():
                wait()
                start = clock()
                for _ in range(CALLS):
                    call()
                us = (clock() - start) * 1e6 / CALLS
                if number >= 5:  # the first ones warm caches and clocks up
                    times[name].append(us)
    finally:
        if collecting:
            gc.enable()
    wait()
    return {name: summary(values) for name, values in times.items()}


def _with_names(
    function: Callable[..., object], places: Sequence[object], named: Mapping[str, object]
) -> Callable[[], object]:
    """The call of a function with these arguments as one writes it, without a dict that is unpacked."""
    values = {f"x{number}": value for number, value in enumerate((*places, *named.values()))}
    names = iter(values)
    given = [*(next(names) for _ in places), *(f"{name}={next(names)}" for name in named)]
    text = f"lambda function, {', '.join(values)}: lambda: function({', '.join(given)})"
    made: Callable[..., Callable[[], object]] = eval(text)
    return made(function, *values.values())
