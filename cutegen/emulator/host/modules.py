"""Runs generated modules on the emulator: the PTX that they compile to, launched as their compiled host code would.

`run` takes the place of a module's compiled function only. After `install`, the module's public function can be called
with tensors of the CPU: its Python runs, and so does the host code of the compiled function. In there the tensors say
that they are on a CUDA device. An op of the module takes tensors of the CPU then, too: models that call it run and
train there, a kernel after the other. What a module offers is written in `cutegen.contract`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from types import ModuleType
from typing import Any

from cutegen.contract import (
    argument_names,
    as_compiled,
    compiled_arguments,
    does_on_cpu,
    having,
    op,
    replace_compiled,
    replace_function,
    replace_memory,
    replace_multiprocessors,
)
from cutegen.emulator.host.builds import builds
from cutegen.emulator.host.device_tensors import made_on_device, on_device, well_aligned
from cutegen.emulator.host.emulated import Emulated
from cutegen.emulator.host.launching import Report
from cutegen.emulator.host.stored import Stored
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
    with having(module):
        emulated(*compiled_arguments(module, tuple(map(on_device, given))))
    return emulated.reports


def install(
    module: ModuleType,
    kernel: str,
    targets: Iterable[str] | None = None,
    *,
    roles: Mapping[str, Role] | None = None,
    lines: bool = True,
    stored: Mapping[str, Stored] | None = None,
) -> Emulated:
    """Makes the module's public function and its op, where it has one, run on the emulator from now on.

        emulator.install(module, "rms_norm")
        y = module.rms_norm(x, w)

    Their tensors are of the CPU, and so are their results; outputs that are left out are made there. Where all tensors
    of a call are `on_device` instead, its results are, too.

    `targets` are the targets whose code runs, by default all that differ. `roles` is as for `run`, `lines` and
    `stored` as for `builds`. What is returned has the reports of what ran, and its orders can be changed. Raises
    TypeError for what is no generated module.
    """
    emulated = Emulated(builds(module, targets, lines, stored or {}), argument_names(module, kernel), roles)
    emulated.tells_lines = lines
    replace_compiled(module, emulated)
    replace_memory(module, well_aligned, on_device, emulated.know)
    replace_multiprocessors(module)
    replace_function(module, kernel, lambda own: partial(_called, emulated, own))
    if op(module) is not None:
        on_cpu(module)
    return emulated


def on_cpu(module: ModuleType) -> None:
    """Makes the op of a module that is installed take tensors on the CPU."""
    does_on_cpu(module, _as_on_device)


def _called(emulated: Emulated, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Any:
    """Calls a module's own function, and returns its result. Meanwhile `emulated` knows which memory is the caller's.

    If all tensors of the call are on the CPU, so are those that are returned: one that was passed in comes back as the
    same object.
    """
    import torch

    tensors = [value for value in (*arguments, *named.values()) if isinstance(value, torch.Tensor)]
    moves = all(tensor.device.type == "cpu" for tensor in tensors)
    moved = {id(tensor): on_device(tensor) if moves else tensor for tensor in tensors}
    own = {id(moved[id(tensor)]): tensor for tensor in tensors}
    before = emulated.given
    emulated.given = frozenset(tensor.untyped_storage().data_ptr() for tensor in tensors if _has_memory(tensor))
    try:
        with made_on_device():
            found = function(
                *(moved.get(id(value), value) for value in arguments),
                **{name: moved.get(id(value), value) for name, value in named.items()},
            )
    finally:
        emulated.given = before
    if not moves:
        return found
    several = found if isinstance(found, tuple) else (found,)
    plain = [own.get(id(x), x.as_subclass(torch.Tensor)) if isinstance(x, torch.Tensor) else x for x in several]
    return tuple(plain) if isinstance(found, tuple) else plain[0]


def _has_memory(tensor: Any) -> bool:
    """Whether a tensor has memory, which those of torch's device `meta` and sparse ones have not."""
    import torch

    return tensor.layout is torch.strided and tensor.as_subclass(torch.Tensor).device.type == "cpu"


def _as_on_device(do: Callable[..., Any], /, *arguments: Any, **outputs: Any) -> Any:
    """Runs an op on CPU tensors as it would run on those of a GPU. The tensors that it returns are in new memory."""
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
