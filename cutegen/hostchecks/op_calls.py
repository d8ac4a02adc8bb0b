"""Calls of the op that torch knows a kernel by: with which arguments, and what must come of them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import lcm
from typing import TYPE_CHECKING, Any

from cutegen import contract
from cutegen.codegen.host import can_be_made
from cutegen.dtypes import Dtype
from cutegen.expressions.places import modes_compared
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Host
from cutegen.hostchecks.sizes import small
from cutegen.hostchecks.strides import odd_along
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.asked import op_of
from cutegen.verification.case_request import Layout
from cutegen.verification.cases import Case, align_unit, compact_allowed
from cutegen.verification.compare import compare
from cutegen.verification.tensors import Guarded, make_tensors
from cutegen.views.sizes import sizes_of

if TYPE_CHECKING:
    import torch

    from cutegen.reference.bounds import Expected

Numbers = Mapping[str, "int | float | bool"]


@dataclass(frozen=True)
class OpCall:
    """The arguments of one call: `tensors` by name in the spec's order, outputs too, and `scalars` by name."""

    what: str
    spec: KernelSpec
    tensors: Mapping[str, Guarded]
    scalars: Numbers
    compact: bool = False  # whether rows follow each other without gaps

    @property
    def values(self) -> dict[str, torch.Tensor]:
        """The tensors that are read, as they are now, copied."""
        import torch

        views = {t.name: self.tensors[t.name].view for t in self.spec.tensors if t.reads}
        return {name: view.clone(memory_format=torch.contiguous_format) for name, view in views.items()}

    def fresh(self) -> dict[str, torch.Tensor]:
        """The tensors that the op takes, by name: copies with the same strides, none of which share memory.

        Each starts no further into its memory than its alignment requires.
        """
        import torch

        found = {}
        for tensor in taken(self.spec):
            view, start = self.tensors[tensor.name].view, align_unit(tensor)
            room = start + 1 + sum((n - 1) * s for n, s in zip(view.shape, view.stride(), strict=True) if n > 1)
            own = torch.empty(room, dtype=view.dtype, device=view.device)
            found[tensor.name] = own.as_strided(view.shape, view.stride(), start).copy_(view)
        return found

    def look_at_memory(self, host: Host, error: Exception) -> None:
        """Raises NoMemory if the call failed because there is no memory for it, as `Host.look_at_memory` tells."""
        shapes = {t.name: self.tensors[t.name].view.shape for t in self.spec.tensors}
        sizes = sizes_of(self.spec.tensors, self.spec.static, shapes)
        host.look_at_memory(error, [x.buffer for x in self.tensors.values()], sizes)


def taken(spec: KernelSpec) -> list[Tensor]:
    """The tensors that the op takes, in its order."""
    return [t for t in spec.tensors if not can_be_made(spec, t)]


def made(spec: KernelSpec) -> list[Tensor]:
    """The outputs that the op returns, in its order."""
    return [t for t in spec.outputs if can_be_made(spec, t)]


def overload(host: Host) -> Any:
    """The op of a module that torch knows now."""
    import torch

    namespace, _, name = str(contract.op(host.module)).partition("::")
    return getattr(getattr(torch.ops, namespace), name).default


def arranged(
    spec: KernelSpec, tensors: Mapping[str, torch.Tensor], scalars: Numbers
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The op's positional and keyword arguments."""
    places = (*(tensors[t.name] for t in spec.inputs), *(scalars[s.name] for s in spec.scalars))
    return places, {t.argument: tensors[t.name] for t in taken(spec) if not t.reads}


def call(op: Any, spec: KernelSpec, tensors: Mapping[str, torch.Tensor], scalars: Numbers) -> dict[str, torch.Tensor]:
    """The op's results by output name. Raises what the op raises, and TypeError unless it returns a tensor for each."""
    import torch

    places, named = arranged(spec, tensors, scalars)
    found = op(*places, **named)
    names = [t.name for t in made(spec)]
    results = found if isinstance(found, tuple) else () if found is None else (found,)
    if len(results) != len(names) or not all(isinstance(x, torch.Tensor) for x in results):
        raise TypeError(f"it returns {type(found).__name__}, not {len(names)} tensors")
    return dict(zip(names, results, strict=True))


def calls(host: Host) -> Iterator[OpCall]:
    """Two calls that differ in sizes, strides and scalars; rows of the second have no gaps between them, if that may
    be.
    """
    spec = host.spec
    first = op_of(spec).sizes_of_calls(spec, small(spec))
    second = op_of(spec).sizes_of_calls(spec, _larger(spec, first))
    layouts: tuple[Layout, Layout] = ("padded", "compact" if compact_allowed(spec, second) else "offset")
    for number, (layout, sizes) in enumerate(zip(layouts, (first, second), strict=True)):
        case = Case("op", "calls of the op", sizes, layout, "integers", 61 + number)
        tensors = {t.tensor.name: t for t in _with_floats(spec, case, host.executor.device)}
        told = ", ".join(f"{mode} {size}" for mode, size in sizes.items())
        yield OpCall(f"{layout} tensors, {told}", spec, tensors, _numbers(spec, number), layout == "compact")


def edges(host: Host) -> Iterator[OpCall]:
    """Calls at the least sizes, whose scalars are negative and then 0, and calls without elements along a mode."""
    spec = host.spec
    free = [mode for mode in spec.modes if mode not in spec.static]
    least = family_of(spec).accepted(
        spec.by_view, {m: spec.static.get(m, max(1, spec.divisible.get(m, 1))) for m in spec.modes}
    )
    sizes = [] if least is None else [(least, -1), (least, 0)]
    sizes += [({**small(spec), mode: 0}, 1) for mode in free if mode in may_be_empty(spec)]
    for number, (one, sign) in enumerate(sizes):
        if family_of(spec).refused(spec.by_view, one) is None:
            case = Case("op", "calls of the op at its edges", one, "padded", "integers", 71 + number)
            tensors = {t.tensor.name: _with_odd_strides(t) for t in _with_floats(spec, case, host.executor.device)}
            scalars = {name: x if isinstance(x, bool) else sign * x for name, x in _numbers(spec, 0).items()}
            told = f", scalars {'of 0' if not sign else 'below 0'}" if scalars and sign < 1 else ""
            yield OpCall(", ".join(f"{mode} {size}" for mode, size in one.items()) + told, spec, tensors, scalars)


def _with_odd_strides(made: Guarded) -> Guarded:
    """The tensor with strides that its kernel does not take, along modes of size 1, where they mean nothing."""
    view = made.view
    for mode, size in zip(made.tensor.shape, view.shape, strict=True):
        view = odd_along(made.tensor, view, mode) if size == 1 else view
    return replace(made, view=view)


def may_be_empty(spec: KernelSpec) -> set[str]:
    """The modes along which a call may have no elements."""
    own = op_of(spec).modes_that_may_be_empty(spec.compute, {t.name: t for t in spec.by_view.tensors})
    return {*own, *spec.lead.shape} - set(spec.static)


def _with_floats(spec: KernelSpec, case: Case, device: str) -> Sequence[Guarded]:
    """Small integers, within their modes if they are indices, and floats that need all their bits.

    An index is a number that is compared for equality with a coordinate. Indices beyond their modes are left out: a
    gradient that was written by hand may rely on one coordinate being equal, as that of a cross entropy does.
    """
    whole = make_tensors(spec, case, device)
    floats = make_tensors(spec, replace(case, data="random"), device)
    for made in whole:
        size = min((case.sizes[m] for m in modes_compared(spec.compute, made.tensor.name, ("==", "!="))), default=0)
        if made.tensor.dtype.is_integer and size:
            made.view.remainder_(size)
            made.original.copy_(made.buffer)
    return [b if a.tensor.dtype.is_float else a for a, b in zip(whole, floats, strict=True)]


def _larger(spec: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int]:
    """Other sizes than these for each mode that has some, such that rows need no padding, if possible."""
    found = dict(sizes)
    for mode in (m for m in sizes if m not in spec.static):
        along = [align_unit(t) for t in spec.tensors if mode == t.contiguous]
        step = lcm(max(1, spec.divisible.get(mode, 1)), *along)
        found[mode] = (sizes[mode] // step + 1) * step
    return family_of(spec).accepted(spec.by_view, dict(found)) or dict(sizes)


def _numbers(spec: KernelSpec, number: int) -> dict[str, int | float | bool]:
    """A value for each scalar: no two are alike, and none is so small that it makes no difference."""
    found: dict[str, int | float | bool] = {}
    for index, scalar in enumerate(spec.scalars):
        if scalar.dtype is Dtype.bool:
            found[scalar.name] = (index + number) % 2 == 0
        elif scalar.dtype.is_float:
            found[scalar.name] = 0.375 + 0.125 * index if number else 0.75 + 0.5 * index
        else:
            found[scalar.name] = 2 + index + 3 * number
    return found


def wrong_values(expected: Mapping[str, Expected], found: Mapping[str, torch.Tensor]) -> str:
    """Compares results, by name, with the expected ones and returns the first problem. Some results may be missing."""
    for name, result in found.items():
        if name in expected:
            wanted = expected[name]
            if result.shape != wanted.value.shape:
                return f"{name} has the sizes {list(result.shape)}, not {list(wanted.value.shape)}"
            comparison = compare(result.detach(), *wanted)
            if not comparison.ok:
                return f"{name}{comparison.reason}"
    return ""
