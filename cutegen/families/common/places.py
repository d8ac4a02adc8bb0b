"""Sizes of modes along which elements are taken at places: how many places calls have that tell something."""

from __future__ import annotations

from math import prod

from cutegen.language.model import KernelSpec

PLACES, FEW_PLACES = 61, 7
"""Places along a mode that is taken, of which a kernel has no tiles; and along each of several."""


def several_places(spec: KernelSpec) -> dict[str, int]:
    """A size for each mode that is taken."""
    return {mode: PLACES if len(tensor.at) == 1 else FEW_PLACES for tensor in spec.tensors for mode, _ in tensor.at}


def with_places(spec: KernelSpec, sizes: dict[str, int]) -> dict[str, int] | None:
    """`sizes` with a place for each element that is written at one, and one place at least for those that are read."""
    found = dict(sizes)
    for tensor in spec.tensors:
        for number, (mode, index) in enumerate(tensor.at):
            count = prod(sizes[m] for m in spec.tensor(index).shape)
            others = prod(max(1, found[m]) for i, (m, _) in enumerate(tensor.at) if i != number)
            least = -(-count // others) if tensor.writes else min(count, 1)
            if found[mode] < least and mode in spec.static:
                return None
            step = spec.divisible.get(mode, 1)
            found[mode] = max(found[mode], -(-least // step) * step)
    return found
