"""Sizes of modes along which elements are taken at places: how many places calls have that tell something."""

from __future__ import annotations

from math import prod

from cutegen.language.model import KernelSpec
from cutegen.language.taken import indices, lacking, modes_at, needed, places

PLACES, FEW_PLACES = 61, 7
"""Places along a mode that is taken, of which a kernel has no tiles; and along each of several."""


def several_places(spec: KernelSpec) -> dict[str, int]:
    """A size for each mode that is taken."""
    return {mode: PLACES if len(tensor.at) == 1 else FEW_PLACES for tensor in spec.tensors for mode, _ in tensor.at}


def enough_places(spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None:
    """`sizes` with a place for each element that is written at one, and one place at least for those that are read.

    A tensor that is read at places at which another is written has as many. None if static sizes leave no way.
    """
    found, tensors = dict(sizes), spec.tensors

    def grow(index: str, least: int) -> None:
        for mode in modes_at(tensors, index):
            if mode not in spec.static:
                step = spec.divisible.get(mode, 1)
                found[mode] = max(found[mode], -(-least // step) * step)

    for index in indices(tensors):
        grow(index, min(needed(tensors, index, sizes), 1))
    for tensor in (tensor for tensor in tensors if tensor.writes):
        together = dict.fromkeys(index for _, index in tensor.at)
        for index in together:
            others = prod(max(1, places(tensors, other, found)) for other in together if other != index)
            grow(index, -(-needed(tensors, index, sizes) // others))
    return None if lacking(tensors, found) else found
