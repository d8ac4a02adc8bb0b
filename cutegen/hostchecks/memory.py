"""Calls whose tensors share memory, which must be refused, and those that lie next to each other, which must not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import product
from typing import TYPE_CHECKING

from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Check, Host, unnamed
from cutegen.hostchecks.parts import COORDINATES
from cutegen.hostchecks.sizes import made_of
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.cases import WELL_ALIGNED, Case, align_unit, strides_for
from cutegen.verification.places import input_for
from cutegen.views.extents import size_of

if TYPE_CHECKING:
    import torch


def checks(host: Host) -> Iterator[Check]:
    yield from _aliases(host)
    yield from _by_an_element(host)
    yield from _of_one_element(host)
    yield _neighbours(host)
    yield from _windows(host)
    yield from _windows_by_a_column(host)
    if host.executor.chooses_blocks:
        yield from _large(host)


def _aliases(host: Host) -> Iterator[Check]:
    """Calls with each output over each other tensor: at the same address, and each of the two starting inside the
    other.
    """
    spec, case = host.spec, host.case
    for out, other in _pairs(spec):
        step = math.lcm(out.align or out.dtype.bytes, other.align or other.dtype.bytes)
        names = (out.argument, other.argument)
        for what, at in (
            ("at the same address", {out.name: 0, other.name: 0}),
            ("starting inside", {out.name: step, other.name: 0}),
            ("starting before the end of", {out.name: 0, other.name: step}),
        ):
            first = other if at[out.name] else out  # the one in which the second starts
            run = _size(first.contiguous, first.sized(case.sizes)) * first.dtype.bytes
            if max(at.values()) >= run:
                continue  # the second one would start in a gap
            made = _slices(spec, case, at, host.executor.device)
            yield host.refuses(out.argument, f"overlaps {other.argument}, {what}", made, names)


def _by_an_element(host: Host) -> Iterator[Check]:
    """Calls in which an output and another tensor share one element: the last of the one is the first of the other.

    Where no such sizes are taken, they share the fewest that the alignment allows.
    """
    for out, other in _pairs(host.spec):
        for first, second in ((out, other), (other, out)):
            step = math.lcm(align_unit(first) * first.dtype.bytes, align_unit(second) * second.dtype.bytes)
            if (sizes := _one_more_than(host, (first,), step)) is None:
                continue
            case = replace(host.case, sizes=sizes)
            last = (_bytes(first, case) - first.dtype.bytes) // step * step
            if last == 0:
                continue
            views = made_of(host, [t.name for t in host.spec.tensors], sizes)
            views |= _slices(host.spec, case, {first.name: 0, second.name: last}, host.executor.device)
            what = f"ends where {other.argument} starts" if first is out else f"starts where {other.argument} ends"
            yield host.refuses(out.argument, f"{what}, in the same element", views, (out.argument, other.argument))


def _one_more_than(host: Host, tensors: Sequence[Tensor], step: int) -> dict[str, int] | None:
    """Sizes with rows of these tensors that are an element longer than whole steps of bytes, else those of the case."""
    spec, sizes = host.spec, dict(host.case.sizes)
    for tensor in tensors:
        unit = max(1, step // tensor.dtype.bytes)
        row = _size(tensor.contiguous, tensor.sized(sizes))
        longer = -(-(row - 1) // unit) * unit + 1
        block = next((block for block in tensor.blocks if block.mode == tensor.contiguous), None)
        mode, each = (tensor.contiguous, 1) if block is None else (block.of, block.size)
        free = tensor.modes and mode in spec.modes and mode not in spec.static
        if free and each % spec.divisible.get(mode, 1) == 0:
            sizes[mode] = longer * each
    return sizes if family_of(spec).refused(spec.by_view, sizes) is None else None


def _of_one_element(host: Host) -> Iterator[Check]:
    """An output of one element, or one with another tensor of one element, at the same address."""
    spec = host.spec
    sizes = {m: spec.static.get(m, max(1, spec.divisible.get(m, 1))) for m in spec.modes}
    if (
        family_of(spec).refused(spec.by_view, sizes) is not None
        or (family_of(spec).accepted(spec.by_view, dict(sizes)) or sizes) != sizes
    ):
        return
    case = replace(host.case, sizes=sizes)
    for out, other in _pairs(spec):
        if 1 in (math.prod(t.extents(sizes)) for t in (out, other)):
            views = made_of(host, [t.name for t in spec.tensors], sizes)
            views |= _slices(spec, case, {out.name: 0, other.name: 0}, host.executor.device)
            names = (out.argument, other.argument)
            yield host.refuses(out.argument, f"overlaps {other.argument}, of one element", views, names)


def _pairs(spec: KernelSpec) -> Iterator[tuple[Tensor, Tensor]]:
    """All pairs of an output and another tensor; two outputs are paired once."""
    done: list[str] = []
    for out in spec.outputs:
        done.append(out.name)
        yield from ((out, other) for other in spec.tensors if other.name not in done)


def _neighbours(host: Host) -> Check:
    """All tensors side by side in one allocation, with no element in common."""
    at, end = {}, 0
    for tensor in host.spec.tensors:
        align = math.lcm(tensor.align or 1, tensor.dtype.bytes)
        at[tensor.name] = start = -(-end // align) * align
        end = start + _bytes(tensor, host.case)
    made = _slices(host.spec, host.case, at, host.executor.device)
    return host.takes(host.spec.output.argument, "slices of one allocation, side by side", made)


def _windows(host: Host) -> Iterator[Check]:
    """Each output beside another tensor of its shape and type, both windows of the columns of one buffer."""
    spec, sizes = host.spec, host.case.sizes
    for out, other in _pairs(spec):
        if (out.shape, out.major, out.dtype) != (other.shape, other.major, other.dtype) or len(out.modes) < 2:
            continue
        unit = math.lcm(align_unit(out), align_unit(other))
        width = -(-_row(out, sizes) // unit) * unit
        strides = _pitched(out, sizes, 2 * width)
        elements = 2 * width + sum((n - 1) * s for n, s in zip(out.extents(sizes), strides, strict=True))
        buffer = _buffer(elements * out.dtype.bytes, host.executor.device)
        made = {}
        for tensor, column in ((out, 0), (other, width)):
            made[tensor.name] = _view(buffer, spec, tensor, sizes, strides, column * tensor.dtype.bytes)
        yield host.takes(out.argument, f"columns of one buffer beside those of {other.argument}", made)


def _windows_by_a_column(host: Host) -> Iterator[Check]:
    """Windows of one buffer: two with a common column, on either side; and two without one, and without a gap."""
    spec = host.spec
    for out, other in _pairs(spec):
        if (out.shape, out.major, out.dtype) != (other.shape, other.major, other.dtype) or len(out.modes) < 2:
            continue
        mode, unit = out.contiguous, math.lcm(align_unit(out), align_unit(other))
        names = (out.argument, other.argument)
        sizes = _one_more_than(host, (out,), unit * out.dtype.bytes)
        n = _size(mode, sizes or {})
        if sizes is not None and not out.dense and (n - 1) % unit == 0 and n > 1:
            views = made_of(host, [t.name for t in spec.tensors], sizes)
            far = n - 1 + unit
            for what, column, pitch in (
                (f"has the first column of {other.argument} for its last", n - 1, -(-(2 * n - 1) // unit) * unit),
                (f"has the last column of {other.argument} for its first", far, far + n - 1),
            ):
                windows = _two_windows(host, (out, other), sizes, column, pitch)
                yield host.refuses(out.argument, what, {**views, **windows}, names)
        sizes = dict(host.case.sizes)
        if mode in spec.modes and mode not in spec.static:
            step = math.lcm(unit, max(1, spec.divisible.get(mode, 1)))
            sizes[mode] = -(-sizes[mode] // step) * step
        row = _row(out, sizes)
        if row % unit == 0 and (family_of(spec).accepted(spec.by_view, dict(sizes)) or sizes) == sizes:
            views = made_of(host, [t.name for t in spec.tensors], sizes)
            windows = _two_windows(host, (out, other), sizes, row, 2 * row)
            what = f"columns of one buffer next to those of {other.argument}"
            yield host.with_sizes(sizes).takes(out.argument, what, {**views, **windows})


def _row(tensor: Tensor, sizes: Mapping[str, int]) -> int:
    """How many elements of a tensor stand behind each other without gaps: its columns."""
    return math.prod(size_of(mode, sizes) for mode in tensor.dense or (tensor.contiguous,))


def _pitched(tensor: Tensor, sizes: Mapping[str, int], pitch: int) -> tuple[int, ...]:
    """The strides of a window of a buffer with rows of `pitch` elements."""
    row = tensor.dense or (tensor.contiguous,)
    wide = strides_for(tensor, {**sizes, **dict.fromkeys(row, 1), row[-1]: pitch}, "compact")
    own = strides_for(tensor, sizes, "compact")
    return tuple(own[i] if mode in row else wide[i] for i, mode in enumerate(tensor.shape))


def _two_windows(
    host: Host, tensors: tuple[Tensor, Tensor], sizes: Mapping[str, int], column: int, pitch: int
) -> dict[str, torch.Tensor]:
    """Windows of a buffer with rows of `pitch` elements: the first has its first columns, the second starts further."""
    first = tensors[0]
    strides = _pitched(first, sizes, pitch)
    reach = sum((n - 1) * s for n, s in zip(first.extents(sizes), strides, strict=True))
    room = (1 + column + reach) * first.dtype.bytes
    buffer = _buffer(room, host.executor.device)
    starts = zip(tensors, (0, column * first.dtype.bytes), strict=True)
    return {tensor.name: _view(buffer, host.spec, tensor, sizes, strides, start) for tensor, start in starts}


def _large(host: Host) -> Iterator[Check]:
    """Each output of 2^32 bytes or elements, which 32 bits take for 0, with another tensor that starts inside of it."""
    spec, covered = host.spec, family_of(host.spec).covered(host.plan)
    least = {m: spec.static.get(m, max(1, spec.divisible.get(m, 1))) for m in spec.modes}
    counts = (("bytes", lambda out: out.dtype.bytes), ("elements", lambda out: 1))
    for (out, other), (of, unit) in product(_pairs(spec), counts):
        free = [m for m in reversed(out.shape) if m not in spec.static]
        rest = math.prod(size_of(m, least) for m in out.shape if m not in free[:2]) * unit(out)
        elements = 2**32 // rest
        major = 2**16 if len(free) > 1 else elements
        if not {*out.shape} <= {*spec.modes} or not free or rest * elements != 2**32 or out.dtype != other.dtype:
            continue
        sizes = {**least, **dict(zip(free, (major, elements // major), strict=False))}
        most = family_of(spec).largest(host.plan)
        if any(size % least[m] or size > min(COORDINATES, most.get(m, COORDINATES)) for m, size in sizes.items()):
            continue
        if math.prod(-(-size // covered[m]) for m, size in sizes.items() if m in spec.lead.shape) >= COORDINATES:
            continue  # too many tiles, which is another thing to be told
        if (family_of(spec).accepted(spec.by_view, dict(sizes)) or sizes) != sizes:
            continue  # nor is a row too long
        views, apart = (_untouched(host, shared, other, sizes) for shared in ((out, other), ()))
        if views is not None and apart is not None:
            what = f"overlaps {other.argument}, as one of 2^32 {of}"
            yield Check(out.argument, what, partial(_taken, host, views, apart, (out.argument, other.argument)))


def _untouched(
    host: Host, shared: Sequence[Tensor], other: Tensor, sizes: Mapping[str, int]
) -> dict[str, torch.Tensor] | None:
    """Tensors without readable data; the `shared` ones are in one buffer, where `other` starts inside of the first;
    None without enough addresses.
    """
    spec, views = host.spec, {}
    step = math.lcm(*map(align_unit, shared))
    shapes = {t: t.extents(sizes) for t in spec.tensors}
    strides = {t: strides_for(t, sizes, "compact" if t in shared[:1] else "padded") for t in spec.tensors}
    room = {t: 1 + sum((n - 1) * s for n, s in zip(shapes[t], strides[t], strict=True)) for t in spec.tensors}
    buffer = host.executor.untouched(shared[0], (step + max(room[t] for t in shared),), (1,)) if shared else None
    for tensor in spec.tensors:
        view = buffer if tensor in shared else host.executor.untouched(tensor, (room[tensor],), (1,))
        if view is None:
            return None
        start = step if tensor in shared and tensor == other else 0
        views[tensor.name] = view.as_strided(shapes[tensor], strides[tensor], start)
    return views


def _taken(
    host: Host, views: Mapping[str, torch.Tensor], apart: Mapping[str, torch.Tensor], names: Sequence[str]
) -> str:
    """Checks that a call with the overlapping `views` launches nothing, and that its error names one of `names`.

    An error about sizes is right, too: a call with tensors of these sizes that lie `apart` is then rejected as well.
    """
    try:
        launches = host.executor.launched(host.module, host.spec, host.arguments(views))
    except (ValueError, TypeError) as error:
        said = unnamed(error, names)
        if not said:
            return ""
        try:
            host.executor.launched(host.module, host.spec, host.arguments(apart))
        except (ValueError, TypeError):
            return ""
        return said
    return "was accepted" if any(launches) else ""


def _bytes(tensor: Tensor, case: Case) -> int:
    strides = strides_for(tensor, case.sizes, "padded")
    return tensor.dtype.bytes * (1 + sum((n - 1) * s for n, s in zip(tensor.extents(case.sizes), strides, strict=True)))


def _size(mode: str, sizes: Mapping[str, int]) -> int:
    """The size along a mode of a tensor's shape; 1 where there are none."""
    try:
        return size_of(mode, sizes)
    except KeyError:
        return 1


def _slices(spec: KernelSpec, case: Case, at: Mapping[str, int], device: str) -> dict[str, torch.Tensor]:
    """Views of the tensors into one buffer, each at its byte position in `at`, which keeps its alignment."""
    buffer = _buffer(max(start + _bytes(spec.tensor(name), case) for name, start in at.items()), device)
    made = {}
    for name, start in at.items():
        tensor = spec.tensor(name)
        made[name] = _view(buffer, spec, tensor, case.sizes, strides_for(tensor, case.sizes, "padded"), start)
    return made


def _buffer(room: int, device: str) -> torch.Tensor:
    """Zeros that have that many bytes after the first well aligned one."""
    import torch

    return torch.zeros(-(-room // 8) * 8 + 2 * WELL_ALIGNED, dtype=torch.uint8, device=device)


def _view(
    buffer: torch.Tensor,
    spec: KernelSpec,
    tensor: Tensor,
    sizes: Mapping[str, int],
    strides: tuple[int, ...],
    start: int,
) -> torch.Tensor:
    """A tensor's view into a buffer, `start` bytes after its first well aligned one, filled if it is read."""
    import torch

    base = -buffer.data_ptr() % WELL_ALIGNED
    typed = buffer.view(getattr(torch, tensor.dtype.torch))
    shape = tensor.extents(sizes)
    view = typed.as_strided(shape, strides, (base + start) // tensor.dtype.bytes)
    if tensor.reads:
        view.copy_(input_for(spec, tensor, sizes, "integers", 11))
    return view
