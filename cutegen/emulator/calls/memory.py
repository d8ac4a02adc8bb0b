"""The memory that functions work in while they are emulated: whose it is, and which of its bytes were written.

What is known is kept for each storage of torch, so that it holds for all views of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import TYPE_CHECKING, Any

import numpy as np

from cutegen.emulator.calls.marks import Marks, byte_offsets
from cutegen.emulator.checks.faults import Fault
from cutegen.emulator.memory.bound_tensors import BoundTensor, Role, bind, element_at, elements_of, place
from cutegen.emulator.memory.far_tensors import brought_near, is_sparse, settle

if TYPE_CHECKING:
    import torch

_ALIGNMENT = 512  # bytes, of what torch's caching allocator gives on a GPU
_LARGE = 1 << 26  # bytes of a storage from which on it is worth it to mark its elements only


@dataclass
class Storage:
    """The record of the memory that views share.

    `name` is its name in faults, and `role` says what a kernel may do with it. `written` marks the bytes that kernels
    have written. `unwritten` marks uninitialised ones, where that is known: those of an output, and of memory that
    torch made empty, as long as torch has not changed it since, by `version`. `tensor` keeps it alive. `sparse` says
    that few of its bytes belong to elements.
    """

    name: str
    role: Role
    tensor: torch.Tensor
    start: int
    size: int
    sparse: bool
    written: Marks
    unwritten: Marks | None = None
    version: int = 0
    given: bool = False

    @property
    def missing(self) -> Marks | None:
        """`unwritten`, or None as soon as torch has changed something in the storage."""
        if self.unwritten is not None and self.tensor._version != self.version:
            self.unwritten = None
        return self.unwritten


@dataclass(frozen=True)
class Region:
    """The memory of one tensor of a call, or of several that overlap: the address a kernel knows it by.

    `real` is the tensor in torch's memory, where `tensor` does not share its marks, and may be a copy.
    """

    low: int
    high: int
    at: int
    tensor: BoundTensor
    real: BoundTensor | None = None

    def told(self, pointer: int) -> int:
        """The address that a kernel gets for a place in this process."""
        return self.at + pointer - self.low

    def has(self, pointer: int) -> bool:
        """Whether an element of the tensor is there: between those of one, another one may have its own."""
        real = self.real or self.tensor
        index = element_at(real, real.at + pointer - self.low)
        return index is not None and all(0 <= i < n for i, n in zip(index, real.shape, strict=True))


def region_of(pointer: int, regions: Sequence[Region]) -> Region | None:
    """The region that a place in this process is in, or None."""
    around = [region for region in regions if region.low <= pointer < region.high]
    return next((region for region in around if len(around) > 1 and region.has(pointer)), next(iter(around), None))


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
                known.unwritten, known.version = Marks(known.size, False, sparse=known.sparse), tensor._version
            bound = bind(tensor, name)
            known.unwritten.write(bound, bound.pointer - known.start, True)

    def make(self, tensor: torch.Tensor, *, empty: bool) -> None:
        """Notes a tensor that was made on the pretended GPU; `empty` says that it is uninitialised."""
        if tensor.numel():
            made = self._add(tensor, "", "inout")
            if empty:
                made.unwritten = Marks(made.size, True, sparse=made.sparse)

    def of(self, tensor: torch.Tensor) -> Storage | None:
        """The record of a tensor's memory, or None if there is none."""
        return self.storages.get(tensor.untyped_storage().data_ptr())

    def containing(self, address: int) -> Storage | None:
        """The storage in which a byte of this process lies, if it is known."""
        return next((s for s in self.storages.values() if s.start <= address < s.start + max(s.size, 1)), None)

    def _add(self, tensor: torch.Tensor, name: str, role: Role) -> Storage:
        storage = tensor.untyped_storage()
        size = int(storage.nbytes())
        start = int(storage.data_ptr())
        sparse = size >= _LARGE and size >= 8 * tensor.numel() * tensor.element_size()
        marks = Marks(size, False, sparse=sparse)
        made = Storage(name, role, tensor, start, size, sparse, marks, version=tensor._version)
        self.storages[start] = made
        return made

    # --------------------------------------------------------------------------------------------------- one call

    def regions(
        self, named: Sequence[tuple[str, torch.Tensor]], number: int, spare: Collection[int] = ()
    ) -> list[Region]:
        """The memory of the tensors of one call, each with the address that a kernel knows it by.

        `named` are tensors with the names of the compiled function's parameters, for those that have none of their own.
        `number` is that of the first range of addresses that is free; they are given in the order of the arguments, so
        that a run can be repeated. `spare` are the addresses of those whose memory only the call owns.
        """
        bound = [self._bound(tensor, name) for name, tensor in named]
        bound = [replace(x, spare=x.pointer in spare) for x in bound]
        groups: list[list[int]] = []
        high = -1
        for index in sorted(range(len(bound)), key=lambda i: bound[i].pointer):
            if not groups or bound[index].pointer >= high:
                groups.append([])
            groups[-1].append(index)
            high = max(high, bound[index].pointer + bound[index].span)
        groups = [part for group in groups for part in _apart(group, bound)]
        groups.sort(key=min)
        told = [tuple(tensor.stride()) for _, tensor in named]
        return [
            self._region([bound[i] for i in sorted(group)], told[min(group)], number + n)
            for n, group in enumerate(groups)
        ]

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
        return bind(plain, known.name, "in" if known.role == "in" else "inout")

    def _region(self, group: Sequence[BoundTensor], told: tuple[int, ...], number: int) -> Region:
        """Where tensors lie that overlap, or a single one, for a kernel: as far into 512 bytes as in its storage.

        `told` are the strides that the kernel sees of the first one.
        """
        low = min(tensor.pointer for tensor in group)
        high = max(tensor.pointer + tensor.span for tensor in group)
        known = self.containing(low)
        at = place(_ALIGNMENT + low - (known.start if known else low), number)
        first = group[0]
        alike = {(tensor.pointer, tensor.shape, tensor.strides, tensor.itemsize) for tensor in group}
        if len(alike) == 1:
            bound = replace(first, address=at)
            if bound.span and (told != bound.strides or is_sparse(bound)):
                near = brought_near(bound, told)
                if near is not None:
                    return Region(low, high, at, _with_marks(near, bound, known), bound)
        else:  # what lies between the elements of one may be the other's
            size = gcd(*(tensor.itemsize for tensor in group), high - low)
            names = " and ".join(dict.fromkeys(tensor.name for tensor in group))
            role: Role = "in" if all(tensor.role == "in" for tensor in group) else "inout"
            shape = ((high - low) // size,)
            bound = BoundTensor(names, low, shape, (1,), size, role, at, owner=tuple(tensor.owner for tensor in group))
        if known is None or not bound.span:
            return Region(low, high, at, bound)
        if known.sparse:
            return Region(low, high, at, _with_marks(bound, bound, known), bound)
        own = slice(low - known.start, high - known.start)
        missing, written = known.missing, known.written.whole
        assert written is not None
        unwritten = None if missing is None or missing.whole is None else missing.whole[own]
        return Region(low, high, at, replace(bound, written=written[own], unwritten=unwritten))

    def settle(self, regions: Sequence[Region]) -> None:
        """Brings what kernels did to copies, and their marks, to the memory of torch."""
        for region in regions:
            if region.real is None:
                continue
            settle(region.tensor)
            known = self.containing(region.low)
            if known is None:
                continue
            offset = region.low - known.start
            for marks, own in ((known.written, region.tensor.written), (known.missing, region.tensor.unwritten)):
                if marks is not None and own is not None:
                    marks.write(region.real, offset, elements_of(own, region.tensor))

    # ------------------------------------------------------------------------------------------------ what was done

    def unwritten(self, tensor: torch.Tensor) -> tuple[int, tuple[int, ...] | None]:
        """The number of uninitialised elements of a tensor, as far as that is known, and the first of them."""
        known = self.of(tensor)
        missing = None if known is None else known.missing
        if known is None or missing is None or not tensor.numel():
            return 0, None
        bound = bind(tensor, known.name)
        left = missing.read(bound, bound.pointer - known.start).any(-1)
        count = int(left.sum())
        return count, tuple(map(int, np.unravel_index(int(left.argmax()), left.shape))) if count else None

    def written(self, tensor: torch.Tensor) -> int:
        """How many elements of a tensor kernels have written, or a part of them."""
        known = self.of(tensor)
        if known is None or not tensor.numel():
            return 0
        bound = bind(tensor, known.name)
        return int(known.written.read(bound, bound.pointer - known.start).any(-1).sum())

    def faults(self, tensors: Iterable[tuple[str, torch.Tensor]], target: str) -> list[Fault]:
        """A fault for each of these tensors that is not written whole."""
        found = []
        for name, tensor in tensors:
            count, element = self.unwritten(tensor)
            if count:
                text = f"{count} of {tensor.numel()} elements of {name} were never written"
                found.append(Fault("output-not-written", text, tensor=name, element=element, target=target))
        return found


def _with_marks(tensor: BoundTensor, real: BoundTensor, known: Storage | None) -> BoundTensor:
    """A tensor with marks of its own, which are those that a storage has for the tensor that it stands for."""
    if known is None:
        return tensor
    written, offset, missing = np.zeros(tensor.span, np.bool_), real.pointer - known.start, known.missing
    elements_of(written, tensor)[...] = known.written.read(real, offset)
    unwritten = None
    if missing is not None:
        unwritten = np.zeros(tensor.span, np.bool_)
        elements_of(unwritten, tensor)[...] = missing.read(real, offset)
    return replace(tensor, written=written, unwritten=unwritten)


def _apart(group: Sequence[int], bound: Sequence[BoundTensor]) -> list[list[int]]:
    """The numbers of tensors in whose memory others begin, in groups: each alone, if some lie far apart, and no
    element of one is of another one, too."""
    several = [bound[i] for i in group]
    if len(group) == 1 or not any(map(is_sparse, several)):
        return [list(group)]
    alike: dict[object, list[int]] = {}
    for i in group:
        alike.setdefault((bound[i].pointer, bound[i].shape, bound[i].strides, bound[i].itemsize), []).append(i)
    each = [byte_offsets(bound[same[0]], bound[same[0]].pointer).ravel() for same in alike.values()]
    together = np.concatenate(each)
    return list(alike.values()) if len(np.unique(together)) == len(together) else [list(group)]


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
