"""Tensors to run a kernel on: between guard bands, outputs poisoned, data from a seed.

A guarded tensor is a view into a flat buffer of bytes. The parts of the buffer that the view does not own (guard bands
on both sides, gaps between rows) hold a pattern that must not change. For floats that pattern reads as NaN, so that a
kernel which reads past the edge shows it in its result. It depends on position and tensor, so that copying a gap onto a
gap shows too.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from operator import or_
from typing import TYPE_CHECKING

from cutegen.dtypes import Dtype
from cutegen.expressions.places import modes_compared
from cutegen.expressions.tree import MatMul, walk
from cutegen.language.model import KernelSpec, Tensor
from cutegen.reference.masks import some
from cutegen.reference.taking import Index, index_of, view_of
from cutegen.verification.asked import family_of, op_of
from cutegen.verification.case_request import Layout
from cutegen.verification.cases import WELL_ALIGNED, Case, align_unit, strides_for
from cutegen.verification.compare import bits_of
from cutegen.verification.data import SMALL, data_for, largest_whole, with_infinities
from cutegen.verification.operands import with_telling_operands
from cutegen.verification.places import places_for, without_the_rest
from cutegen.views.cuts import cuts

if TYPE_CHECKING:
    import torch

GUARD = 4096  # bytes, at least, on both sides
_PERIOD = 125
_BITS = 20  # of sums of whole numbers: a few less than f32 has, for what is added to them or multiplied with them
# An element that still holds this after the run was not written. Floats: all ones but the lowest bit, a NaN that
# neither arithmetic nor a conversion makes (those give the canonical NaN, of either sign) and that no input holds.
# Integers have no value to spare, nor has f8e4m3, so they run twice with two poisons, where the executor does not
# know what was written. An element that was not differs from the expected value in one of the runs.
_FLOAT_POISON = -2  # as a whole number of the same width
_INTEGER_POISONS = (0x5A, 0xA5)
_BOOL_POISONS = (0, 1)
_F8_NANS = {Dtype.f8e4m3: (0x7F, 0xFF), Dtype.f8e5m2: (0x7D, 0x7E, 0x7F, 0xFD, 0xFF)}  # without the poison


@dataclass(frozen=True)
class Guarded:
    """A tensor between guard bands.

    `view` lies `offset` bytes into `buffer`; `original` is the buffer before the run; `poison` is None for data.
    """

    tensor: Tensor
    buffer: torch.Tensor
    offset: int
    view: torch.Tensor
    original: torch.Tensor
    poison: int | None
    index: Index | None = None  # of the elements at places, where these are what the kernel reads or writes
    parts: tuple[Guarded, ...] = ()  # of a packed argument: its views

    @property
    def elements(self) -> torch.Tensor:
        """The view, or a copy of its elements at places."""
        return self.view if self.index is None else self.view[self.index]

    @property
    def untouched(self) -> bool:
        """Whether every byte is what it was before the run."""
        import torch

        return torch.equal(self.buffer.view(torch.int64), self.original.view(torch.int64))  # eight at a time

    def problem(self) -> str | None:
        """The first byte that the kernel should not have changed (None: there is none).

        Inputs must be bit-identical; of outputs, everything that the view does not own.
        """
        if self.untouched:
            return None
        changed = self.buffer != self.original
        if self.tensor.writes:
            changed &= ~self._owned()
        if not some(changed):
            return None
        first, count = _first(changed), int(changed.sum())
        end = self.offset + _extent(tuple(self.view.shape), self.view.stride()) * self.tensor.dtype.bytes
        others = f" ({count} bytes in all)" if count > 1 else ""
        values = f"{int(self.original[first]):#04x} became {int(self.buffer[first]):#04x}"
        if first < self.offset:
            return f"{self.tensor.name}: wrote {self.offset - first} bytes before its start: {values}{others}"
        if first >= end:
            return f"{self.tensor.name}: wrote {first - end} bytes after its end: {values}{others}"
        inside = first - self.offset
        if bool(self._elements()[first]):
            what = "an input was modified" if not self.tensor.writes else "changed an element that no view writes"
            return f"{self.tensor.name}: {what} at byte {inside}: {values}{others}"
        return f"{self.tensor.name}: wrote into a gap between rows at byte {inside}: {values}{others}"

    def unwritten(self) -> str | None:
        """The first element of a float output that still holds its poison, or None. For integers see `poisons`."""
        import torch

        if self.poison is None or self.view.numel() == 0:
            return None
        if self.tensor.dtype is Dtype.bool:
            strange = self.elements.view(torch.uint8) > 1
            if some(strange):
                return f"{self.tensor.name}{_index(strange)}: a bool that is neither 0 nor 1"
        if not _has_poison(self.tensor.dtype):
            return None
        left = bits_of(self.elements) == _float_poison(self.tensor.dtype)
        if not some(left):
            return None
        return f"{self.tensor.name}{_index(left)}: was not written ({int(left.sum())} of {left.numel()} elements)"

    def _owned(self) -> torch.Tensor:
        """True for the bytes of the buffer that may change: those of elements, of a packed argument those of the views
        that are written.
        """
        if not self.parts:
            return self._elements()
        return reduce(or_, (part._elements() for part in self.parts if part.tensor.writes))

    def _elements(self) -> torch.Tensor:
        """True for the bytes of the buffer that belong to an element of the view, or to one of those at places."""
        import torch

        owned = torch.zeros_like(self.buffer)
        size = self.tensor.dtype.bytes
        if self.view.numel():
            strides = (*(s * size for s in self.view.stride()), 1)
            owned.as_strided((*self.view.shape, size), strides, self.offset)[self.index or ()] = 1
        return owned.to(torch.bool)


def digest(views: Iterable[torch.Tensor]) -> str:
    """A short digest of the bits of tensors' elements, in any layout."""
    made = hashlib.sha256()  # which processors have instructions for
    for view in views:
        made.update(bits_of(view.detach().contiguous()).cpu().numpy().data)
    return made.hexdigest()[:16]


def poisons(spec: KernelSpec) -> int:
    """The number of runs, each with another poison, that are needed to detect unwritten outputs."""
    return 2 if any(t.role == "out" and not _has_poison(t.dtype) for t in spec.tensors) else 1


def make_tensors(spec: KernelSpec, case: Case, device: str, run: int = 0) -> tuple[Guarded, ...]:
    """A guarded tensor for each of the spec's, in order. The data depend on the case only; the poison also on `run`."""
    made, spec = [], spec.by_argument
    for index, tensor in enumerate(spec.tensors):
        least = max(tensor.align or 1, tensor.dtype.bytes)
        units = {}
        if case.apart is not None and case.apart[0] in tensor.names:
            units[_item_of(spec, tensor, *case.apart)] = align_unit(tensor)
        tensor = replace(tensor, align=case.align_of(tensor))
        shape = tensor.extents(case.sizes)
        strides = strides_for(tensor, case.sizes, case.layout, index, units)
        shifted = case.shifted in tensor.names
        made.append(
            with_parts(
                spec,
                guarded(
                    tensor,
                    shape,
                    strides,
                    device,
                    data=_data_of(spec, tensor, case, index) if tensor.reads else None,
                    layout=case.layout,
                    run=run,
                    number=index,
                    shift=least if shifted else 0,
                ),
                case.sizes,
            )
        )
    return with_indices(made)


def _item_of(spec: KernelSpec, argument: Tensor, name: str, mode: str) -> str:
    """The item of an argument's shape along a mode of the tensor of that name, which may be a view of it."""
    view = next((view for view in argument.views if view.name == name), None)
    return mode if view is None else next(c.item for c in cuts(argument, view, spec.static) if mode in c.modes)


def _data_of(spec: KernelSpec, argument: Tensor, case: Case, index: int) -> torch.Tensor:
    """The data of an argument; of one that is packed each view has its own."""
    if not argument.views:
        return _data_for(spec, argument, case, index)
    data = data_for(argument, argument.extents(case.sizes), case.data, case.seed * 97 + index)
    for number, view in enumerate(argument.views):
        if view.reads:
            own = _data_for(spec.by_view, view, case, index + (number + 1) * len(spec.tensors))
            view_of(spec, argument, view, data, case.sizes).copy_(own)
    return data


def _data_for(spec: KernelSpec, tensor: Tensor, case: Case, index: int) -> torch.Tensor:
    """The data of a tensor that has that number."""
    summed, shape = op_of(spec).summed(spec), tensor.extents(case.sizes)
    along = tuple(i for i, mode in enumerate(tensor.spread) if mode in summed)
    most = largest_factor(spec, tensor, case.sizes)
    data = data_for(tensor, shape, case.data, case.seed * 97 + index, along, most)
    places = places_for(spec, tensor.name, case.sizes, case.seed * 83 + index, case.ends)
    if places is not None:
        data = places
    elif case.data != "integers":
        data = with_telling_operands(spec, tensor.name, data, case.seed * 89 + index)
    if places is None and case.data in ("random", "rows"):
        data = _near_the_end(data, [case.sizes[mode] for mode in compared_with(spec, tensor.name)])
    if tensor.name in case.infinite:
        rows = op_of(spec).reduced_together(spec)
        own = tuple(i for i, mode in enumerate(tensor.shape) if mode in rows)
        data = with_infinities(data, own, case.infinite.index(tensor.name))
    return without_the_rest(spec, tensor, case, data)


def with_parts(spec: KernelSpec, made: Guarded, sizes: Mapping[str, int]) -> Guarded:
    """A tensor with its views, if it is a packed argument."""
    found = []
    for view in made.tensor.views:
        own = view_of(spec.by_argument, made.tensor, view, made.view, sizes)
        offset = int(own.storage_offset()) * made.tensor.dtype.bytes
        found.append(replace(made, tensor=view, view=own, offset=offset, poison=made.poison if view.writes else None))
    return replace(made, parts=tuple(found))


def by_view(made: Iterable[Guarded]) -> Iterator[Guarded]:
    """The tensors of the kernel: views instead of packed arguments."""
    for one in made:
        yield from one.parts or (one,)


def with_indices(made: Sequence[Guarded]) -> tuple[Guarded, ...]:
    """The tensors, each with the index of its elements if it is taken at the places of another, or if it has rows that
    belong to no segment.
    """
    views = {one.tensor.name: one.view for one in made}
    return tuple(replace(one, index=index_of(one.tensor, views)) for one in made)


def largest_factor(spec: KernelSpec, tensor: Tensor, sizes: Mapping[str, int]) -> int:
    """The largest whole number of a tensor of a case with exact results.

    Of the factors of a matrix product they are as large as may be, so that its sums need many more bits than the
    factors have, and rounding on the way is revealed; but not so large that the sums are not exact, or overflow.
    """
    import torch

    if (own := op_of(spec).largest_whole(spec, tensor)) is not None:
        return own
    products = [node for value in spec.compute.values for node in walk(value) if isinstance(node, MatMul)]
    along = [mode for mode in op_of(spec).contracted(spec) if mode in tensor.shape]
    if not along or not any(tensor.name in (node.a, node.b) for node in products):
        return SMALL
    factors = [spec.tensor(name) for node in products for name in (node.a, node.b)]
    if not all(factor.dtype.is_float for factor in factors):
        return SMALL
    bits = min([_BITS, *(order.fused.whole_bits for order in family_of(spec).sum_orders(spec))])
    terms = math.prod(sizes[mode] for mode in along)
    most = min(largest_whole(factor.dtype, terms, bits) for factor in factors)
    most = min(most, 1 << (family_of(spec).factor_bits(spec) or _BITS))
    # Sums of random signs are about as far from 0 as the root of the number of terms; five times that is seldom
    narrow = [torch.finfo(getattr(torch, out.dtype.torch)).max for out in spec.outputs if out.dtype.is_float]
    room = min([2.0**_BITS, *narrow])
    return max(min(most, SMALL), min(most, math.isqrt(int(room / (10 * math.sqrt(terms or 1))))))


def compared_with(spec: KernelSpec, name: str) -> tuple[str, ...]:
    """The modes whose coordinates the spec compares with the elements of a tensor of whole numbers."""
    return modes_compared(spec.compute, name) if spec.tensor(name).dtype.is_integer else ()


def _near_the_end(data: torch.Tensor, sizes: Sequence[int]) -> torch.Tensor:
    """Integers; one in four is a coordinate near the end of one of those sizes, or beyond it, where a last tile may be
    filled up, or is none at all: below 0, as -100 that torch ignores, and the ends of the type.
    """
    import torch

    if not sizes or not data.numel():
        return data
    flat = data.flatten().clone()
    number = torch.arange(0, flat.numel(), 4)
    size = torch.tensor(sizes)[number // 4 % len(sizes)]
    info = torch.iinfo(data.dtype)
    beyond = torch.tensor([-1, 0, 1, 7, 100, 1000, 2500])
    none = torch.tensor([-1, -100, info.min, info.max])
    turn = number // 4 % (len(beyond) + len(none))
    wanted = torch.where(turn < len(beyond), size + beyond[turn % len(beyond)], none[turn % len(none)])
    flat[::4] = wanted.clamp(info.min, info.max).to(data.dtype)
    return flat.reshape(data.shape)


def guarded(
    tensor: Tensor,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
    device: str,
    *,
    data: torch.Tensor | None,
    layout: Layout = "compact",
    run: int = 0,
    number: int = 0,
    shift: int = 0,
) -> Guarded:
    """A tensor between guards; without `data` it is poisoned.

    The base address is a multiple of 256 bytes, or for `offset` of `align` and not of twice that; `shift` bytes are
    added to it.
    """
    import torch

    size, align = tensor.dtype.bytes, max(tensor.align or 1, tensor.dtype.bytes)
    whole = math.lcm(WELL_ALIGNED, 2 * align)
    room = GUARD + 2 * whole + _extent(shape, strides) * size + GUARD + abs(shift)
    buffer = _pattern(-(-room // 256) * 256, tensor.dtype, number, device)
    offset = -(-(buffer.data_ptr() + GUARD) // whole) * whole - buffer.data_ptr() + shift
    if layout == "offset":
        offset += align
    view = buffer.view(getattr(torch, tensor.dtype.torch)).as_strided(shape, strides, offset // size)
    poison: int | None = None
    if data is not None:
        view.copy_(data.to(device))
    else:
        kinds = _BOOL_POISONS if tensor.dtype is Dtype.bool else _INTEGER_POISONS
        poison = _float_poison(tensor.dtype) if _has_poison(tensor.dtype) else kinds[run % 2]
        if _has_poison(tensor.dtype):
            bits_of(view).fill_(poison)
        elif tensor.dtype is Dtype.bool:
            view.fill_(bool(poison))
        else:
            bits_of(view).fill_(int.from_bytes(bytes([poison]) * size, "little", signed=size > 1))
    return Guarded(tensor, buffer, offset, view, buffer.clone(), poison)


def _has_poison(dtype: Dtype) -> bool:
    """Whether a NaN of the type is to spare: f8e4m3 has one of each sign, both of which a conversion may give."""
    return dtype.is_float and dtype is not Dtype.f8e4m3


def _float_poison(dtype: Dtype) -> int:
    """The poison as `bits_of` shows it, which shows bytes without a sign."""
    return _FLOAT_POISON & 0xFF if dtype.bytes == 1 else _FLOAT_POISON


def _pattern(count: int, dtype: Dtype, number: int, device: str) -> torch.Tensor:
    """`count` bytes for the tensor of that number. Every float in it is a NaN, none of them the poison."""
    import torch

    flat, made = _period(dtype, number).to(device), torch.empty(count, dtype=torch.uint8, device=device)
    whole = count // len(flat) * len(flat)
    made[:whole].view(-1, len(flat)).copy_(flat)
    made[whole:].copy_(flat[: count - whole])
    return made


@lru_cache(maxsize=64)
def _period(dtype: Dtype, number: int) -> torch.Tensor:
    """The bytes that the pattern for the tensor of that number repeats, on the CPU, not to be changed."""
    import torch

    low = (torch.arange(_PERIOD, dtype=torch.int64) * 37 + 29 * number) % _PERIOD + 0x81
    if dtype.is_f8:
        nans = torch.tensor(_F8_NANS[dtype])
        low = nans[low % len(nans)]
    block = torch.full((_PERIOD, dtype.bytes), 0xFF, dtype=torch.uint8)
    block[:, 0] = low.to(torch.uint8)  # little end first: the byte that holds no exponent, but for bf16's last bit
    return block.flatten()


def _extent(shape: tuple[int, ...], strides: tuple[int, ...]) -> int:
    """Elements from the first to the last one of a view."""
    if 0 in shape:
        return 0
    return 1 + sum((n - 1) * s for n, s in zip(shape, strides, strict=True))


def _first(flags: torch.Tensor) -> int:
    import torch

    return int(flags.flatten().to(torch.uint8).argmax())


def _index(flags: torch.Tensor) -> str:
    import numpy as np

    flat = _first(flags.contiguous())
    return str([int(i) for i in np.unravel_index(flat, flags.shape)])
