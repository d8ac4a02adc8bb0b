"""Whether an op and its gradient do the same at every size: what they call is noted, of tensors without data."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import zip_longest
from typing import Any

from cutegen.expressions.places import ONE
from cutegen.hostchecks import op_calls
from cutegen.language.model import KernelSpec

_FEW = 1 << 4
_MANY = (1 << 11, 1 << 17, 1 << 31)

Noted = list[tuple[str, tuple[str, ...]]]  # what was called, with its numbers that are no sizes, in order


def problem(op: Any, spec: KernelSpec, scalars: op_calls.Numbers) -> str:
    """The first difference between what an op calls at a large size of some mode and at a small one; empty if none.

    Torch must know the op, and those that its gradient calls.
    """
    usual_sizes = _sizes(spec, {})
    usual = _noted(op, spec, usual_sizes, scalars)
    for sizes, mode in _larger(spec):
        found = _noted(op, spec, sizes, scalars)
        for own, other in zip_longest(found, usual):
            if own != other:
                many, few = f"{mode} = {sizes[mode]}", f"{mode} = {usual_sizes[mode]}"
                return f"with {many} it calls {_told(own)}, where it calls {_told(other)} with {few}"
    return ""


def _larger(spec: KernelSpec) -> Iterator[tuple[dict[str, int], str]]:
    """Sizes with one larger, and the mode of that."""
    for mode in (m for m in spec.modes if m not in spec.static):
        for many in _MANY:
            yield _sizes(spec, {mode: many}), mode


def _sizes(spec: KernelSpec, larger: Mapping[str, int]) -> dict[str, int]:
    """A size for each mode, whole multiples of what must divide it."""
    found = {}
    for mode in spec.modes:
        step = spec.divisible.get(mode, 1)
        found[mode] = spec.static.get(mode, max(1, larger.get(mode, _FEW) // step) * step)
    return found


def _noted(op: Any, spec: KernelSpec, sizes: Mapping[str, int], scalars: op_calls.Numbers) -> Noted:
    """The functions that a call of the op and its gradient dispatch at these sizes, in order."""
    import torch
    from torch._subclasses.fake_tensor import FakeTensorMode
    from torch.utils._python_dispatch import TorchDispatchMode

    noted: Noted = []

    class Noting(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            if func.namespace != "prim":
                given = (*args, *(kwargs or {}).values())
                noted.append((str(func), tuple(str(x) for x in given if isinstance(x, float | bool | torch.dtype))))
            return func(*args, **(kwargs or {}))

    with FakeTensorMode():
        given = {}
        for tensor in op_calls.taken(spec):
            extents = tensor.extents({ONE: 1, **dict.fromkeys(spec.modes, 1), **sizes})
            shape, kind = extents, getattr(torch, tensor.dtype.torch)
            own = torch.empty(shape, dtype=kind)
            given[tensor.name] = own.requires_grad_(tensor.dtype.is_float and not tensor.writes)
        with Noting():  # type: ignore[no-untyped-call]
            outputs = op_calls.call(op, spec, given, scalars).values()
            followed = [x for x in outputs if x.requires_grad]
            wanting = [x for x in given.values() if x.requires_grad]
            if followed and wanting:
                arriving = [x.detach() for x in followed]
                torch.autograd.grad(followed, wanting, arriving, allow_unused=True)
    return noted


def _told(one: tuple[str, tuple[str, ...]] | None) -> str:
    """A call as it is printed; none, where one of two lists has ended."""
    if one is None:
        return "nothing more"
    name, given = one
    return f"{name}({', '.join(given)})" if given else name
