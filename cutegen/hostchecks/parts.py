"""Calls with tensors that have only some coordinates of a mode, larger than any that can run whole."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from cutegen.contract import choosing
from cutegen.hostchecks.asked import family_of
from cutegen.hostchecks.judging import Host
from cutegen.language.model import KernelSpec
from cutegen.language.taken import indices, modes_at
from cutegen.reference.bounds import Expected, evaluate
from cutegen.verification import costs
from cutegen.verification.asked import op_of
from cutegen.verification.case_request import Layout
from cutegen.verification.case_requests import between
from cutegen.verification.cases import strides_for
from cutegen.verification.compare import compare
from cutegen.verification.executor import CannotRun, Far
from cutegen.verification.places import input_for
from cutegen.verification.tensors import Guarded, guarded, with_indices
from cutegen.views.extents import modes_of

if TYPE_CHECKING:
    import torch

    from cutegen.emulator import Launch

TILES = (1 << 24) + 3
"""Tiles of a mode with numbers that f32 does not tell apart, if they are of fewer than 2^7 coordinates."""
COORDINATES = (1 << 31) - (1 << 21)
"""Coordinates along a mode, at most: those of 32 bits, but for a tile beyond the last."""
RAISED = 64.0  # what is raised above zeros: whole in each type of factors, as is its square in f32
_ORDER = 2.0**-20  # of a bound: what the order of a sum changes in float64, at most
_BYTES = 1 << 37  # of addresses, of a tensor


@dataclass(frozen=True)
class Parts:
    """The sizes of a call, and which `coordinates` of a mode its tensors have, in rising order.

    Those of the range `elsewhere`, if there is one, are among them, are zeros and stand for all that are not there.
    """

    sizes: Mapping[str, int]
    mode: str
    coordinates: Sequence[int]
    elsewhere: range | None = None

    @property
    def near(self) -> dict[str, int]:
        """The sizes of what is there."""
        return {**self.sizes, self.mode: len(self.coordinates)}

    def seconds(self, host: Host) -> float:
        """About how long a call takes; infinite if the tensors are too large to run."""
        return costs.seconds(host.plan, self.near)


def telling(tiles: int, *more: int) -> list[int]:
    """Numbers of tiles; at least two become equal if they are truncated to fewer bits than the largest has.

    One of them has all of those fewer bits. `more` are there too, where there are so many tiles.
    """
    highest = 1 << max(0, (tiles - 1).bit_length() - 1)
    return sorted(n for n in {0, 1, *more, highest - 1, highest, highest + 1, tiles - 1} if n < tiles)


def of_tiles(tiles: Sequence[int], extent: int, size: int) -> Sequence[int]:
    """The coordinates of a mode of that size that tiles of `extent` have, given by their numbers in rising order."""
    if len(tiles) * extent >= size:
        return range(size)
    return [i for tile in tiles for i in range(tile * extent, min(size, (tile + 1) * extent))]


def allowed(host: Host, wanted: Mapping[str, int]) -> dict[str, int]:
    """Sizes of at least those that are wanted, which both the kernel and its module accept. Where its cases differ in
    alignment only, a module requires of every call what one of its kernels requires.
    """
    spec, sizes = host.spec, {}
    for mode, least in wanted.items():
        step = max(1, spec.divisible.get(mode, 1))
        sizes[mode] = spec.static.get(mode, between(spec, mode, -(-least // step) * step))
    sizes = family_of(spec).accepted(spec.by_view, sizes) or sizes
    if host.whole is None or host.whole.spec is host.plan.spec:
        return sizes
    whole = family_of(host.whole.spec).accepted(host.whole.spec, dict(sizes))
    return whole if whole is not None and spec.takes(whole) else sizes


def is_packed(host: Host, mode: str) -> bool:
    """Whether a size that is computed of a mode's says how large an argument is: none has some of its coordinates."""
    return any(mode in modes_of(item) for t in host.spec.tensors if t.views for item in t.shape)


def largest(host: Host, mode: str, sizes: Mapping[str, int]) -> int:
    """The largest size of a mode that a kernel takes, of tensors that can be addressed; the others are of `sizes`."""
    most = family_of(host.spec).largest(host.plan).get(mode, COORDINATES)
    most = min(COORDINATES, most, host.spec.sizes_of(mode)[1])
    for number, tensor in enumerate(host.spec.tensors):
        axis = tensor.spread.index(mode) if mode in tensor.spread else None
        if axis is not None:
            strides, extents = strides_for(tensor, sizes, _layout(host), number), tensor.extents(sizes)
            others, own = prod(n for i, n in enumerate(extents) if i != axis), tensor.unit(mode)
            most = min(most, own * (_BYTES // (tensor.dtype.bytes * max(strides[axis], others))))
    step = max(1, host.spec.divisible.get(mode, 1))
    return most // step * step


def launches(host: Host, call: Parts) -> Sequence[Sequence[Launch]]:
    """The launches that a call would make, for each target whose code differs; empty where the module refuses the call.

    Raises NoMemory where the machine has not the memory for the call, and CannotRun where nothing tells its launches.
    """
    parts: tuple[Guarded, ...] = ()
    try:
        given, parts = _made(host, call)
        with choosing(host.module, host.chosen):
            return host.executor.launched(host.module, host.spec, given)
    except CannotRun:
        raise
    except Exception as error:
        host.look_at_memory(error, [part.buffer for part in parts], call.sizes)
        return ()


def _layout(host: Host) -> Layout:
    """How the tensors of a call stand: where another kernel of the module is for tensors that are better aligned than
    any that this kernel tells apart, as the kernel's own need be and no better, so that the other one is not taken.
    """
    others = host.whole.kernels if host.whole is not None else ()
    own = {t.name: max(way.spec.tensor(t.name).align or 1 for way in host.plan.ways) for t in host.plan.spec.tensors}
    better = any((t.align or 1) > own[t.name] for other in others for t in other.spec.tensors)
    return "offset" if better else "padded"


def _made(host: Host, call: Parts) -> tuple[list[object], tuple[Guarded, ...]]:
    """The arguments of a call, and what is there of each tensor.

    Raises MemoryError where there are not so many addresses left, and CannotRun where the executor has none.
    """
    spec, mode = host.spec, call.mode
    near = call.near if mode in spec.taken else _with_few_places(spec, call.near)
    views, parts, layout = {}, [], _layout(host)
    for number, tensor in enumerate(spec.tensors):
        unit, here = tensor.unit(mode), near
        there, elsewhere = call.coordinates, call.elsewhere
        if unit > 1:  # one value for each block that has one of the coordinates
            there = sorted({c // unit for c in there})
            elsewhere = elsewhere and range(elsewhere.start // unit, (elsewhere.stop - 1) // unit + 1)
            here = {**near, mode: len(there) * unit}
        shape, strides = tensor.extents(here), strides_for(tensor, here, layout, number)
        data = input_for(spec, tensor, here, "random", 7 + number) if tensor.reads else None
        if data is not None and call.elsewhere is not None and (raised := op_of(spec).raised(spec, tensor)):
            data.select(tensor.shape.index(raised), 0).fill_(RAISED)
        if data is not None and call.elsewhere is not None and mode in tensor.shape:
            zeros = [i for i, c in enumerate(call.coordinates) if c in call.elsewhere]
            data.narrow(tensor.shape.index(mode), zeros[0], len(zeros)).zero_()
        part = guarded(tensor, shape, strides, host.executor.device, data=data, layout=layout, number=number)
        parts.append(part)
        views[tensor.name] = part.view
        if mode in tensor.spread and near != call.sizes:
            shape = tensor.extents(call.sizes)
            strides = strides_for(tensor, call.sizes, layout, number)
            far = Far(tensor, shape, strides, tensor.spread.index(mode), there, elsewhere)
            view = host.executor.part_of(far, part.view)
            if view is None:
                raise CannotRun(f"no {shape} of {tensor.dtype} can be addressed here")
            views[tensor.name] = view
    for name in (name for name in indices(spec.tensors) if modes_at(spec.tensors, name) == (mode,)):
        views[name] = _far_places(host, call, next(part for part in parts if part.tensor.name == name))
    return host.arguments(views), with_indices(parts)


def _far_places(host: Host, call: Parts, near: Guarded) -> torch.Tensor:
    """The places of the whole call that a tensor of them has, which in what is there are `near`."""
    import torch

    places = torch.tensor(call.coordinates).to(near.view.device)[near.view.long()].to(near.view.dtype)
    return guarded(near.tensor, tuple(places.shape), near.view.stride(), host.executor.device, data=places).view


def _with_few_places(spec: KernelSpec, near: Mapping[str, int]) -> Mapping[str, int]:
    """The sizes with as few places as the elements in memory need; the sizes of the whole call may need more."""
    indices = {index for tensor in spec.tensors if tensor.writes for _, index in tensor.at}
    written = [mode for tensor in spec.tensors for mode, index in tensor.at if index in indices]
    few = {m: max(1, spec.static.get(m, spec.divisible.get(m, 1))) for m in written}
    return (family_of(spec).accepted(spec.by_view, {**near, **few}) or near) if written else near


def _expected(
    host: Host, call: Parts, parts: Sequence[Guarded], kept: Sequence[int] | None = None
) -> Mapping[str, Expected]:
    """The expected values and error bound of each output, at the coordinates that the tensors hold, or at those of
    them that are `kept`.
    """
    import torch

    scalars = {name: value for name, value in host.scalars.items() if isinstance(value, (bool, int, float))}
    given = {part.tensor.name: part.view for part in parts}
    if kept is not None:
        axes = {t.name: t.shape.index(call.mode) for t in (part.tensor for part in parts) if call.mode in t.shape}
        given |= {name: given[name].index_select(axis, torch.tensor(kept)) for name, axis in axes.items()}
    return evaluate(host.spec, given, scalars, {call.mode: call.coordinates}, whole=call.sizes)


def _zeros_count(host: Host, call: Parts, parts: Sequence[Guarded], expected: Mapping[str, Expected]) -> bool:
    """Whether results depend on how many of the coordinates are zeros: then those that stand for many are too few, and
    no round of a loop over them is like another.
    """
    tensors = [part.tensor for part in parts]
    if call.elsewhere is None or host.spec.taken or any(t.at or t.unit(call.mode) > 1 for t in tensors):
        return False
    kept = [i for i, c in enumerate(call.coordinates) if c not in call.elsewhere]
    some = Parts(call.sizes, call.mode, [call.coordinates[i] for i in kept])
    without = _expected(host, some, parts, kept)
    apart = {name: (one.value - without[name].value).abs() for name, one in expected.items()}
    return any(not bool((apart[name] <= _ORDER * one.bound).all()) for name, one in expected.items())


def wrong(host: Host, call: Parts, blocks: Sequence[int] | None = None, grid: int | None = None) -> str:
    """Runs a call and returns what is wrong; empty if nothing is.

    Only the blocks numbered `blocks` run, by default all. A persistent kernel is launched with `grid` blocks if given.
    Raises CannotRun.
    """
    problems: list[str] = []
    parts: tuple[Guarded, ...] = ()
    try:
        given, parts = _made(host, call)
        expected = _expected(host, call, parts)
        if _zeros_count(host, call, parts, expected):
            raise CannotRun(f"results depend on how much of {call.mode} is zeros")

        def judge(by: str) -> None:
            host.executor.synchronize()
            for made in (part for part in parts if part.tensor.name in expected):
                which = f" in {made.tensor.name}" * (len(expected) > 1)
                result = compare(made.elements, *expected[made.tensor.name])
                if said := result.reason or made.unwritten():
                    problems.append(f"{by or 'it'} gives a wrong result{which}: {said}")

        with choosing(host.module, host.chosen):
            host.executor.run(host.module, host.spec, given, 1, judge, blocks, grid)
    except CannotRun:
        raise
    except Exception as error:
        host.look_at_memory(error, [part.buffer for part in parts], call.sizes)
        return f"{type(error).__name__}: {str(error)[:600]}"
    return "; ".join([*problems, *(problem for part in parts if (problem := part.problem()))])
