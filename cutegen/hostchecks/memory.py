"""Calls whose tensors share memory, which must be refused, and those that lie next to each other, which must not."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

from cutegen.hostchecks.judging import Check, Host, unnamed
from cutegen.hostchecks.parts import COORDINATES
from cutegen.language.model import KernelSpec, Tensor
from cutegen.verification.cases import WELL_ALIGNED, Case, align_unit, strides_for
from cutegen.verification.data import data_for

if TYPE_CHECKING:
    import torch


def checks(host: Host) -> Iterator[Check]:
    yield from _aliases(host)
    yield _neighbours(host)
    yield from _windows(host)
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
            run = case.sizes[first.major or first.shape[-1]] * first.dtype.bytes
            if max(at.values()) >= run:
                continue  # the second one would start in a gap
            made = _slices(spec, case, at, host.executor.device)
            yield host.refuses(out.argument, f"overlaps {other.argument}, {what}", made, names)


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
        if (out.shape, out.major, out.dtype) != (other.shape, other.major, other.dtype) or len(out.shape) < 2:
            continue
        unit = math.lcm(align_unit(out), align_unit(other))
        width = -(-sizes[out.major or out.shape[-1]] // unit) * unit
        wide = {**sizes, out.major or out.shape[-1]: 2 * width}
        strides = strides_for(out, wide, "compact")
        room = (1 + sum((wide[m] - 1) * s for m, s in zip(out.shape, strides, strict=True))) * out.dtype.bytes
        buffer = _buffer(room, host.executor.device)
        made = {}
        for tensor, column in ((out, 0), (other, width)):
            shape = tuple(sizes[m] for m in tensor.shape)
            made[tensor.name] = _view(buffer, tensor, shape, strides, column * tensor.dtype.bytes)
        yield host.takes(out.argument, f"columns of one buffer beside those of {other.argument}", made)


def _large(host: Host) -> Iterator[Check]:
    """Each output of 2^32 bytes, which 32 bits take for 0, with another tensor that starts inside of it."""
    spec, covered = host.spec, host.spec.family.covered(host.plan)
    least = {m: spec.static.get(m, max(1, spec.divisible.get(m, 1))) for m in spec.modes}
    for out, other in _pairs(spec):
        free = [m for m in reversed(out.shape) if m not in spec.static]
        rest = math.prod(least[m] for m in out.shape if m not in free[:2]) * out.dtype.bytes
        elements = 2**32 // rest
        major = 2**16 if len(free) > 1 else elements
        if not free or rest * elements != 2**32 or out.dtype != other.dtype:
            continue
        sizes = {**least, **dict(zip(free, (major, elements // major), strict=False))}
        most = spec.family.largest(host.plan)
        if any(size % least[m] or size > min(COORDINATES, most.get(m, COORDINATES)) for m, size in sizes.items()):
            continue
        if math.prod(-(-size // covered[m]) for m, size in sizes.items() if m in spec.lead.shape) >= COORDINATES:
            continue  # too many tiles, which is another thing to be told
        if (views := _untouched(host, out, other, sizes)) is not None:
            what = f"overlaps {other.argument}, as one of 2^32 bytes"
            yield Check(out.argument, what, partial(_taken, host, views, (out.argument, other.argument)))


def _untouched(host: Host, out: Tensor, other: Tensor, sizes: Mapping[str, int]) -> dict[str, torch.Tensor] | None:
    """Tensors of which one starts inside of an output, not to be looked into; None without so many addresses."""
    spec, views, shared = host.spec, {}, (out, other)
    step = math.lcm(align_unit(out), align_unit(other))
    shapes = {t: tuple(sizes[m] for m in t.shape) for t in spec.tensors}
    strides = {t: strides_for(t, sizes, "compact" if t == out else "padded") for t in spec.tensors}
    room = {t: 1 + sum((n - 1) * s for n, s in zip(shapes[t], strides[t], strict=True)) for t in spec.tensors}
    buffer = host.executor.untouched(out, (step + max(room[t] for t in shared),), (1,))
    for tensor in spec.tensors:
        view = buffer if tensor in shared else host.executor.untouched(tensor, (room[tensor],), (1,))
        if view is None:
            return None
        views[tensor.name] = view.as_strided(shapes[tensor], strides[tensor], step * (tensor == other))
    return views


def _taken(host: Host, views: Mapping[str, torch.Tensor], names: Sequence[str]) -> str:
    """What is wrong if a launch is made with these tensors, or refused without a word of the names."""
    try:
        launches = host.executor.launched(host.module, host.spec, host.arguments(views))
    except (ValueError, TypeError) as error:
        return unnamed(error, names)
    return "was accepted" if any(launches) else ""


def _bytes(tensor: Tensor, case: Case) -> int:
    strides = strides_for(tensor, case.sizes, "padded")
    return tensor.dtype.bytes * (1 + sum((case.sizes[m] - 1) * s for m, s in zip(tensor.shape, strides, strict=True)))


def _slices(spec: KernelSpec, case: Case, at: Mapping[str, int], device: str) -> dict[str, torch.Tensor]:
    """Views of the tensors into one buffer, each at its byte position in `at`, which keeps its alignment."""
    buffer = _buffer(max(start + _bytes(spec.tensor(name), case) for name, start in at.items()), device)
    made = {}
    for name, start in at.items():
        tensor = spec.tensor(name)
        shape = tuple(case.sizes[m] for m in tensor.shape)
        made[name] = _view(buffer, tensor, shape, strides_for(tensor, case.sizes, "padded"), start)
    return made


def _buffer(room: int, device: str) -> torch.Tensor:
    """Zeros that have that many bytes after the first well aligned one."""
    import torch

    return torch.zeros(-(-room // 8) * 8 + 2 * WELL_ALIGNED, dtype=torch.uint8, device=device)


def _view(
    buffer: torch.Tensor, tensor: Tensor, shape: tuple[int, ...], strides: tuple[int, ...], start: int
) -> torch.Tensor:
    """A tensor's view into a buffer, `start` bytes after its first well aligned one, filled if it is read."""
    import torch

    base = -buffer.data_ptr() % WELL_ALIGNED
    typed = buffer.view(getattr(torch, tensor.dtype.torch))
    view = typed.as_strided(shape, strides, (base + start) // tensor.dtype.bytes)
    if tensor.reads:
        view.copy_(data_for(tensor, shape, "integers", 11))
    return view
