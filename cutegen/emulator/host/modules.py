"""Runs generated modules on the emulator: the PTX that they compile to, launched as their compiled host code would.

`run` takes the place of a module's compiled function only. After `install`, the module's public function itself can be
called with tensors on the CPU: all that its Python does is done, up to the compiled function, whose host code runs too.
For that the tensors say that they are on a CUDA device. If torch knows the kernel by an op, that takes tensors on the
CPU then: models that call it run and train there, a kernel after the other. What a module offers is written in
`cutegen.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from types import ModuleType
from typing import Any

from cutegen.contract import (
    argument_names,
    as_compiled,
    compiled_arguments,
    does_on_cpu,
    op,
    replace_compiled,
    replace_memory,
)
from cutegen.emulator.host.builds import builds
from cutegen.emulator.host.device_tensors import made_on_device, on_device, well_aligned
from cutegen.emulator.host.emulated import Emulated
from cutegen.emulator.host.launching import Report
from cutegen.emulator.memory.bound_tensors import Role


def run(
    module: ModuleType,
    *arguments: Any,
    outputs: Mapping[str, Any] | None = None,
    kernel: str | None = None,
    target: str | None = None,
    roles: Mapping[str, Role] | None = None,
    seed: int = 0,
    orders: int = 1,
) -> list[Report]:
    """Runs a generated module's kernel on CPU tensors, without the checks of its Python function.

    `arguments` are what that function takes by place, `outputs` all that it takes by name. `kernel` is its name, by
    default that of the module. `target` is one of the module's TARGETS; by default the code for all targets that differ
    runs, and the tensors hold the results of the last one. `roles` maps arguments to `in` (must not be written), `out`
    (must be written whole, and not be read before) or `inout`, which is what arguments without a role are. `seed` and
    `orders` are as for `launch`. Raises FaultError for a fault.
    """
    kernel = kernel or module.__name__.rpartition(".")[2]
    given = as_compiled(module, kernel, arguments, outputs or {})
    made = builds(module, None if target is None else [target])
    emulated = Emulated(made, argument_names(module, kernel), roles, seed=seed, orders=orders)
    emulated(*compiled_arguments(module, tuple(map(on_device, given))))
    return emulated.reports


def install(
    module: ModuleType,
    kernel: str,
    targets: Iterable[str] | None = None,
    *,
    roles: Mapping[str, Role] | None = None,
    lines: bool = True,
) -> Emulated:
    """Makes the module's public function run on the emulator from now on; its arguments must be `on_device`.

    `targets` are the targets whose code runs, by default all that differ. `roles` is as for `run`, `lines`
    as for `builds`. What is returned has the reports of what ran, and its orders can be changed. Raises TypeError for
    what is no generated module.
    """
    emulated = Emulated(builds(module, targets, lines), argument_names(module, kernel), roles)
    replace_compiled(module, emulated)
    replace_memory(module, well_aligned, on_device)
    if op(module) is not None:
        on_cpu(module)
    return emulated


def on_cpu(module: ModuleType) -> None:
    """Makes the op of a module that is installed take tensors on the CPU."""
    does_on_cpu(module, _as_on_device)


def _as_on_device(do: Callable[..., Any], /, *arguments: Any, **outputs: Any) -> Any:
    """What an op does with tensors on the CPU: what it would with such on a GPU. What it returns is new memory."""
    import torch

    with made_on_device():
        found = do(*map(on_device, arguments), **{name: on_device(x) for name, x in outputs.items()})
    if found is None:
        return None
    several = found if isinstance(found, tuple) else (found,)
    copies = [
        torch.empty_strided(x.shape, x.stride(), dtype=x.dtype).copy_(x.as_subclass(torch.Tensor)) for x in several
    ]
    return tuple(copies) if isinstance(found, tuple) else copies[0]
