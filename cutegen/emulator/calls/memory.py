"""The memory that functions work in while they are emulated: whose it is, and which of its bytes were written.

What is known is kept for each storage of torch, so that it holds for all views of it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from cutegen.emulator.checks.faults import Fault
from cutegen.emulator.memory.bound_tensors import (
    BoundTensor,
    Role,
    bind,
    element_at,
    elements_of,
    place,
    unwritten_elements,
)

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 512  # bytes, of what torch's caching allocator gives on a GPU


@dataclass
class Storage:
    """What is known of the memory that views share.

    `name` is what faults call it, and `role` what a kernel may do with it. `written` marks the bytes that kernels have
    written. `unwritten` marks those that nothing has, where that is known: those of an output, and of memory that torch
    made empty, as long as torch has not changed it since, by `version`. `tensor` keeps it alive.
    """

    name: str
    role: Role
    tensor: torch.Tensor
    start: int
    size: int
    written: NDArray[np.bool_]
    unwritten: NDArray[np.bool_] | None = None
    version: int = 0
    given: bool = False

    @property
    def missing(self) -> NDArray[np.bool_] | None:
        """`unwritten`, or None as soon as torch has changed something in the storage."""
        if self.unwritten is not None and self.tensor._version != self.version:
            self.unwritten = None
        return self.unwritten


@dataclass(frozen=True)
class Region:
    """The memory of one tensor of a call, or of several that overlap: the address a kernel knows it by."""

    low: int
    high: int
    at: int
    tensor: BoundTensor

    def told(self, pointer: int) -> int:
        """The address that a kernel is told for a place in this process."""
        return self.at + pointer - self.low


class Memory:
    """All storages that functions were given or have made since this began."""

    def __init__(self) -> None:
        self.storages: dict[int, Storage] = {}

    def give(self, tensor: torch.Tensor, name: str, role: Role) -> None:
        """Notes a tensor that a function is called with. One in memory that is known has its name and role."""
        known = self.of(tensor)
        if known is None or not known.given:
            known = self._add(tensor, name, role)
            known.given = True
        elif "in" != role != known.role:
            known.role = role
        if role == "out":
            if known.unwritten is None:
                known.unwritten, known.version = np.zeros(known.size, np.bool_), tensor._version
            bound = bind(tensor, name)
            if bound.span:
                elements_of(known.unwritten[bound.pointer - known.start :][: bound.span], bound)[...] = True

    def make(self, tensor: torch.Tensor, *, empty: bool) -> None:
        """Notes a tensor that was made on the pretended GPU; `empty` says that nothing has written it yet."""
        if tensor.numel():
            made = self._add(tensor, "", "inout")
            if empty:
                made.unwritten = np.ones(made.size, np.bool_)

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """What is known of a tensor's memory."""
        return self.storages.get(tensor.untyped_storage().data_ptr())

    def containing(self, address: int) -> Storage | None:
        """The storage in which a byte of this process lies, if it is known."""
        return next((s for s in self.storages.values() if s.start <= address < s.start + max(s.size, 1)), None)

    def _add(self, tensor: torch.Tensor, name: str, role: Role) -> Storage:
        storage = tensor.untyped_storage()
        size = int(storage.nbytes())
        start = int(storage.data_ptr())
        made = Storage(name, role, tensor, start, size, np.zeros(size, np.bool_), version=tensor._version)
        self.storages[start] = made
        return made

    # --------------------------------------------------------------------------------------------------- one call

    def regions(self, named: Sequence[tuple[str, torch.Tensor]], number: int) -> list[Region]:
        """The memory of the tensors of one call, each with the address that a kernel knows it by.

        `named` are tensors with the names of the compiled function's parameters, for those that have none of their own.
        `number` is that of the first range of addresses that is free; they are given in the order of the arguments, so
        that a run can be repeated.
        """
        bound = [self._bound(tensor, name) for name, tensor in named]
        groups: list[list[int]] = []
        high = -1
        for index in sorted(range(len(bound)), key=lambda i: bound[i].pointer):
            if not groups or bound[index].pointer >= high:
                groups.append([])
            groups[-1].append(index)
            high = max(high, bound[index].pointer + bound[index].span)
        groups.sort(key=min)
        return [self._region([bound[i] for i in sorted(group)], number + n) for n, group in enumerate(groups)]

    def _bound(self, tensor: torch.Tensor, name: str) -> BoundTensor:
        import torch

        plain = tensor.as_subclass(torch.Tensor).detach()
        known = self.of(plain)
        if known is None:
            self.make(plain, empty=False)
            known = self.of(plain)
        if known is None:  # a tensor without elements
            return bind(plain, name)
        known.name = known.name or name
        role: Role = "in" if known.role == "in" else "inout"
        own = slice(int(plain.data_ptr()) - known.start, None)
        made = bind(plain, known.name, role)
        missing = known.missing
        return replace(
            made,
            written=known.written[own][: made.span],
            unwritten=None if missing is None else missing[own][: made.span],
        )

    def _region(self, group: Sequence[BoundTensor], number: int) -> Region:
        """Where tensors lie that overlap, or a single one, for a kernel: as far into 512 bytes as in its storage."""
        low = min(tensor.pointer for tensor in group)
        high = max(tensor.pointer + tensor.span for tensor in group)
        known = self.containing(low)
        at = place(_ALIGNMENT + low - (known.start if known else low), number)
        first = group[0]
        alike = {(tensor.pointer, tensor.shape, tensor.strides, tensor.itemsize) for tensor in group}
        if len(alike) == 1:
            return Region(low, high, at, replace(first, address=at))
        # Of tensors that share memory in part, what lies between the elements of one may be the other's
        size = gcd(*(tensor.itemsize for tensor in group), high - low)
        names = " and ".join(dict.fromkeys(tensor.name for tensor in group))
        role: Role = "in" if all(tensor.role == "in" for tensor in group) else "inout"
        shape = ((high - low) // size,)
        union = BoundTensor(names, low, shape, (1,), size, role, at, owner=tuple(tensor.owner for tensor in group))
        if known is not None:
            own = slice(low - known.start, high - known.start)
            missing = known.missing
            union = replace(union, written=known.written[own], unwritten=None if missing is None else missing[own])
        return Region(low, high, at, union)

    # ------------------------------------------------------------------------------------------------ what was done

    def unwritten(self, tensor: torch.Tensor) -> tuple[int, tuple[int, ...] | None]:
        """How many elements of a tensor nothing has written, as far as that is known, and the first of them."""
        known = self.of(tensor)
        missing = None if known is None else known.missing
        if known is None or missing is None:
            return 0, None
        return self._count(tensor, missing, known)

    def written(self, tensor: torch.Tensor) -> int:
        """How many elements of a tensor kernels have written, or a part of them."""
        known = self.of(tensor)
        if known is None or not tensor.numel():
            return 0
        bound = bind(tensor, known.name)
        own = known.written[bound.pointer - known.start :][: bound.span]
        return int(elements_of(own, bound).any(-1).sum())

    def _count(
        self, tensor: torch.Tensor, missing: NDArray[np.bool_], known: Storage
    ) -> tuple[int, tuple[int, ...] | None]:
        bound = bind(tensor, known.name)
        count, offset = unwritten_elements(bound, missing[bound.pointer - known.start :][: bound.span])
        return count, element_at(bound, bound.pointer + offset) if count else None

    def faults(self, tensors: Iterable[tuple[str, torch.Tensor]], target: str) -> list[Fault]:
        """A fault for each of these tensors that is not written whole."""
        found = []
        for name, tensor in tensors:
            count, element = self.unwritten(tensor)
            if count:
                text = f"{count} of {tensor.numel()} elements of {name} were never written"
                found.append(Fault("output-not-written", text, tensor=name, element=element, target=target))
        return found


def tensors_in(value: Any) -> Iterable[tuple[str, torch.Tensor]]:
    """The tensors in a value, which may be a tensor, or a tuple, list or mapping of such: with what leads to each one,
    such as `[0]`, and nothing for the value itself."""
    import torch

    if isinstance(value, torch.Tensor):
        yield "", value
    elif isinstance(value, dict):
        for key, each in value.items():
            for more, tensor in tensors_in(each):
                yield f"[{key!r}]{more}", tensor
    elif isinstance(value, (tuple, list)):
        for index, each in enumerate(value):
            for more, tensor in tensors_in(each):
                yield f"[{index}]{more}", tensor
