"""What a case costs to run where it costs most: on the emulator, and in the float64 reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

from cutegen.planning.plan import Plan

LARGEST_TENSOR = (1 << 22) + (1 << 16)
"""Elements of the largest tensor that the emulator takes."""
_GRID = 65535  # blocks of the second extent of a grid
# About half a second each: elements of all tensors, and instructions of all threads
_ELEMENTS, _INSTRUCTIONS = 8.6e6, 1.4e9
# Instructions of elementwise kernels; those of products, which take more time each, for multiply-adds and for outputs
_PER_THREAD, _PER_MULTIPLY_ADD, _PER_OUTPUT = 80, 10, 5


def costs(plan: Plan, sizes: Mapping[str, int]) -> float:
    """What a case of these sizes costs, of which most blocks have little to do: 1 is about half a second.

    Infinite where a tensor is too large for the emulator, or the tiles of a mode of a product for a grid's extent.
    """
    spec = plan.spec
    elements = [prod(sizes[mode] for mode in tensor.shape) for tensor in spec.tensors]
    tiles = [-(-sizes[mode] // size) for mode, size in spec.family.covered(plan).items() if mode in spec.output.shape]
    if max(elements) > LARGEST_TENSOR or (spec.operation.has_product and max(tiles) > _GRID):
        return math.inf
    covered = {mode: size if sizes[mode] else 0 for mode, size in spec.family.covered(plan).items()}
    each = _PER_THREAD * plan.threads + _PER_MULTIPLY_ADD * spec.operation.multiply_adds(spec, covered)
    if spec.operation.has_product:
        each += _PER_OUTPUT * prod(covered[mode] for mode in spec.output.shape)
    return max(sum(elements) / _ELEMENTS, spec.family.blocks(plan, sizes) * each / _INSTRUCTIONS)
