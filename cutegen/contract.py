"""The interface of a generated module to the rooms that compile, run and measure it: only this knows its names.

- `TARGETS`: the architectures it can be compiled for, such as `sm_90a`.
- `compile_for(arch, options)`: its `launch`, compiled for one of them; needs no GPU. Where the number of blocks follows
  from the GPU it takes `multiprocessors`, too; the number that it has by default is that of the target's GPU.
- The public function, named as the kernel: takes the tensors that are read and the scalars by place, each in the spec's
  order, and the other outputs by name. It returns the outputs, in the order of the spec's tensors.
- `reference`: the same call in torch, which changes no argument.
- `make_inputs(**sizes)`: random arguments by place; `device` and `seed` may be given too.
- `make_outputs(**sizes)`: outputs by name, with random values; `device` and `seed` may be given too.
- `TENSORS`, `INPUTS` and `OUTPUTS`: the names of all tensors, of those that are taken by place, and of the results.
- `_compiled(device)`: the compiled function of a GPU, by its index, which the public function calls; where calls choose
  among several kernels it is `_compiled(device, number)`. It keeps what it returned.
- `_new(name, shape, device)`: memory for an argument; `_EMPTY`: what makes it on a GPU in less time, or None.
- `PADDED`, where calls copy tensors that do not stand as the kernel takes them: the names of these. The compiled
  function takes an address for each after the scalars: of memory for a copy of the tensor, or 0. `_fitted(tensors)`
  are the tensors, by the names in `TENSORS`, with strides that it takes; `_spare(name, x)` is a tuple with that memory,
  empty for none, and `_addresses` turns several of these tuples into the addresses.
- `OP`, where torch knows the kernel by an op: its name, as in `mylib::rms_norm`; `_op`: what it does on a GPU;
  `_library`: the `torch.library.Library` that has it.
- `_arguments(*arguments)`, where the kernel has workspaces, or calls choose among several by their cost: what the
  compiled function takes.
- `_cheapest(*sizes)`, where calls choose so: the number of the kernel that they take. Where that depends on the GPU,
  the last argument is its number of multiprocessors, `_multiprocessors(device)` of the GPU's index.

The compiled function takes all tensors in the order of `TENSORS`, then the scalars. Executors pass such lists of
arguments around; `as_called` turns one into the arguments of the public function.
"""

from __future__ import annotations

import inspect
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache, partial, wraps
from itertools import chain
from types import ModuleType
from typing import TYPE_CHECKING, Any

from cutegen.atoms.gpus import GPUS

if TYPE_CHECKING:
    from cutegen.language.model import KernelSpec

_NAMED = (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
ASSUMED = GPUS["sm_90a"].sms  # multiprocessors of the GPU that is assumed where there is none
OFFERED = ("compile_for", "make_inputs", "make_outputs", "reference")


def missing(module: ModuleType, kernel: str) -> list[str]:
    """The functions that users call of a module, and that this one has not."""
    return [name for name in (kernel, *OFFERED) if not callable(vars(module).get(name))]


def as_called(spec: KernelSpec, arguments: Sequence[Any]) -> tuple[list[Any], dict[str, Any]]:
    """The positional and keyword arguments of a public function, from those of the compiled one."""
    spec = spec.by_argument
    count = len(spec.tensors)
    tensors = list(zip(spec.tensors, arguments[:count], strict=True))
    places = [x for tensor, x in tensors if tensor.reads]
    return [*places, *arguments[count:]], {tensor.argument: x for tensor, x in tensors if not tensor.reads}


def argument_names(module: ModuleType, kernel: str) -> list[str]:
    """The names of the compiled function's arguments, without workspaces."""
    taken = [p.name for p in inspect.signature(getattr(module, kernel)).parameters.values() if p.kind in _NAMED]
    return [*module.TENSORS, *(name for name in taken if name not in module.TENSORS)]


def as_compiled(module: ModuleType, kernel: str, places: Sequence[Any], named: Mapping[str, Any]) -> list[Any]:
    """The arguments of a call of the public function in the order in which the compiled one takes them.

    Raises TypeError where the public function would, and where an output is left out.
    """
    given = inspect.signature(getattr(module, kernel)).bind(*places, **named).arguments
    names = argument_names(module, kernel)
    if missing := [name for name in names if given.get(name) is None]:
        raise TypeError(f"{kernel}: expected {' and '.join(f'{name}=...' for name in missing)}, which was left out")
    return [given[name] for name in names]


def compiler(module: ModuleType) -> Callable[..., Any] | None:
    """The function `compile_for`, or None."""
    found = getattr(module, "compile_for", None)
    return found if callable(found) else None


def compiled_function(module: ModuleType, device: int, arguments: Sequence[Any]) -> Callable[..., Any]:
    """The compiled function of a GPU for these arguments of it, which is compiled if it was not yet."""
    return compiled_for(module, device, arguments[-1] if chooses(module) else 0)


def compiled_for(module: ModuleType, device: int, number: int = 0) -> Callable[..., Any]:
    """The compiled function of a GPU, for one of several kernels by its number."""
    found: Callable[..., Any] = module._compiled(device, number) if chooses(module) else module._compiled(device)
    return found


def forget_compiled(module: ModuleType) -> None:
    """Makes the module compile again what it has compiled for calls."""
    module._compiled.cache_clear()
    module._KEPT.clear()


def compiled_arguments(module: ModuleType, arguments: Sequence[Any]) -> Arguments:
    """The arguments of the compiled function in a call of the public one with `arguments`."""
    memory: list[tuple[Any, ...]] = []
    if copies(module):
        count = len(module.TENSORS)
        fitted = module._fitted(dict(zip(module.TENSORS, arguments, strict=False)))
        memory = [
            module._spare(name, x) for name, x in zip(module.TENSORS, fitted, strict=True) if name in module.PADDED
        ]
        arguments = *fitted, *arguments[count:], *module._addresses(memory)
    prepared = getattr(module, "_arguments", None)
    return Arguments(arguments if prepared is None else prepared(*arguments), memory)


class Arguments(tuple[Any, ...]):
    """The arguments of a compiled function. Some are addresses of tensors in `memory`, which live as long as this."""

    memory: tuple[Any, ...]

    def __new__(cls, arguments: Sequence[Any], memory: Iterable[Sequence[Any]]) -> Arguments:
        made = super().__new__(cls, arguments)
        made.memory = tuple(chain.from_iterable(memory))
        return made


def copies(module: ModuleType) -> bool:
    """Whether calls copy arguments that do not stand as the kernel takes them."""
    return hasattr(module, "PADDED")


def chooses(module: ModuleType) -> bool:
    """Whether calls choose among several kernels by their cost."""
    return hasattr(module, "_cheapest")


def cheapest_of(module: ModuleType, spec: KernelSpec, sizes: Mapping[str, int], multiprocessors: int = ASSUMED) -> int:
    """The number of the kernel that a call of these sizes chooses on a GPU of so many multiprocessors."""
    import torch

    empty = [torch.empty(t.extents(sizes), device="meta") for t in spec.by_argument.tensors]
    with having(module, multiprocessors, -1):  # which they say is their GPU
        return int(module._arguments(*empty, *[1] * len(spec.scalars), *[0] * len(getattr(module, "PADDED", ())))[-1])


def asks_multiprocessors(module: ModuleType) -> bool:
    """Whether a module is compiled for a number of multiprocessors."""
    return "multiprocessors" in inspect.signature(module.compile_for).parameters


def replace_multiprocessors(module: ModuleType, multiprocessors: int = ASSUMED, device: int | None = None) -> None:
    """Makes calls that choose among kernels take a GPU for one of so many multiprocessors: that of an index, or any."""
    if hasattr(module, "_multiprocessors"):
        known = defaultdict(lambda: multiprocessors) if device is None else {device: multiprocessors}
        vars(module)["_multiprocessors"] = known.__getitem__


@contextmanager
def having(module: ModuleType, multiprocessors: int = ASSUMED, device: int | None = None) -> Iterator[None]:
    """Makes calls do that meanwhile."""
    own = getattr(module, "_multiprocessors", None)
    replace_multiprocessors(module, multiprocessors, device)
    try:
        yield
    finally:
        if own is not None:
            vars(module)["_multiprocessors"] = own


@contextmanager
def choosing(module: ModuleType, number: int | None) -> Iterator[None]:
    """Makes calls take the kernel of that number meanwhile, independent of its cost; None: the one that they choose."""
    own = getattr(module, "_cheapest", None)
    if number is None or own is None:
        yield
        return
    vars(module)["_cheapest"] = lambda *sizes: number
    try:
        yield
    finally:
        vars(module)["_cheapest"] = own


def op(module: ModuleType) -> str | None:
    """The name of the op that torch knows the module's kernel by, if it does."""
    found: str | None = getattr(module, "OP", None)
    return found


def make_known(module: ModuleType) -> None:
    """Tells torch of the module's op, in the place of another import of the same module."""
    vars(module)["_library"] = module._make_known()


def forget(op: str) -> None:
    """Makes torch forget an op that some generated module has told it of."""
    import torch

    found = vars(torch.library).get("_ops_of_generated_modules", {}).pop(op, None)
    if found is not None:
        found._destroy()


def does_on_cpu(module: ModuleType, function: Callable[..., Any]) -> None:
    """Makes the module's op do on the CPU what `function` does, which is called with its arguments and `_op`."""
    module._library.impl(module.OP.partition("::")[2], partial(function, module._op), "CPU", allow_override=True)


def replace_compiled(module: ModuleType, function: Callable[..., None]) -> None:
    """Makes the public function call another in the place of its compiled ones. Raises TypeError for another module."""
    if not callable(getattr(module, "_compiled", None)):
        raise TypeError(f"{module.__name__} has no _compiled, which generated modules have")
    vars(module)["_compiled"] = cache(lambda *_: function)  # as quick as the module's own


def replace_function(
    module: ModuleType, kernel: str, around: Callable[[Callable[..., Any]], Callable[..., Any]]
) -> None:
    """Replaces the public function by what `around` makes of it, once: a second call starts from the module's own."""
    own = inspect.unwrap(getattr(module, kernel))
    vars(module)[kernel] = wraps(own)(around(own))


@contextmanager
def compiled_by(module: ModuleType, functions: Mapping[int, Callable[..., Any]]) -> Iterator[None]:
    """Makes the public function call others in the place of its compiled ones meanwhile, by the index of the GPU."""
    before = module._compiled
    vars(module)["_compiled"] = lambda device, *_: functions[device]
    try:
        yield
    finally:
        vars(module)["_compiled"] = before


def replace_memory(
    module: ModuleType, aligned: Callable[[Any], Any], move: Callable[[Any, int], Any], tell: Callable[[Any], None]
) -> None:
    """Makes tensors that the module would make on a GPU be on the CPU, as `move` gives them back for its index. Of each
    that may be memory for the like of an argument it will `tell`.

    `aligned` gives memory on the CPU the alignment that a GPU's has. The current GPU is the first, on which `_EMPTY`
    makes its tensors, independent of the arguments' device.
    """
    import torch
    from torch._guards import detect_fake_mode

    new = module._new

    def made(name: str, shape: Sequence[int], device: Any) -> Any:
        if detect_fake_mode() is not None:  # torch asks for sizes and strides only
            return new(name, shape, device)
        tensor = aligned(new(name, shape, "cpu"))
        kind, _, index = str(device).partition(":")
        if kind != "cpu":
            tensor = move(tensor, int(index or 0))
            tell(tensor)
        return tensor

    def empty(sizes: Sequence[int], strides: Sequence[int], dtype: Any) -> Any:
        return move(aligned(torch.empty_strided(tuple(sizes), tuple(strides), dtype=dtype)), 0)

    vars(module)["_new"] = made
    vars(module)["_EMPTY"] = empty
