"""Calls with as many places along a mode as there can be, of which a few are there: each bit of a place tells."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from itertools import islice
from math import prod

from cutegen.hostchecks.judging import Check, Host
from cutegen.hostchecks.parts import Parts, allowed, largest, telling, wrong
from cutegen.language.model import KernelSpec
from cutegen.language.taken import indices, lacking, modes_at, needed

_FEW = (1, 3, 1 << 8, (1 << 15) + 1, (1 << 16) + 1, (1 << 24) + 1)  # places that bytes, halves and floats do not hold


def checks(host: Host) -> Iterator[Check]:
    """A check for each mode that is taken at places of its own."""
    spec = host.spec
    for index in indices(spec.tensors) if host.executor.chooses_blocks else ():
        mode, *others = modes_at(spec.tensors, index)
        call = None if others or mode in spec.static else _call(host, mode, index)
        if call is not None:
            last = call.coordinates[-1]
            argument = next(t.argument for t in spec.tensors if mode in t.shape)
            yield Check(argument, f"accepts places along {mode} up to {last}", partial(wrong, host, call))


def _call(host: Host, mode: str, index: str) -> Parts | None:
    """A call with some places along a mode and few elements; None where no sizes are such."""
    spec = host.spec
    least = dict.fromkeys(spec.modes, 1)
    size = largest(host, mode, allowed(host, least))
    coordinates = telling(size, *_FEW)
    written = any(t.writes for t in spec.tensors if mode in dict(t.at))
    few = allowed(host, {**least, **_holding(spec, index, len(coordinates) * (1 if written else 2))})
    if written:  # each element at a place of its own
        more = (n for n in range(size) if n not in coordinates)
        coordinates = sorted([*coordinates, *islice(more, max(0, needed(spec.tensors, index, few) - len(coordinates)))])
    near = {**few, mode: len(coordinates)}
    if lacking(spec.tensors, near) or prod(near[m] for m in spec.lead.shape) > 1 << 20:
        return None
    return Parts({**few, mode: size}, mode, coordinates)


def _holding(spec: KernelSpec, index: str, places: int) -> dict[str, int]:
    """A size for one of the modes of a tensor of places, such that it holds so many of them."""
    free = [m for m in spec.tensor(index).shape if m not in spec.static]
    return {free[-1]: places} if free else {}
