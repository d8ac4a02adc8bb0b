"""What a case costs to run where it costs most: on the emulator, and in the float64 reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

from cutegen.planning.plan import Plan

LARGEST_TENSOR = (1 << 22) + (1 << 16)
"""Elements of the largest tensor that the emulator takes."""
# About a quarter of a second each: elements of all tensors, and instructions of all threads
_ELEMENTS, _INSTRUCTIONS = 4.2e6, 2.4e8
_PER_THREAD, _PER_MULTIPLY_ADD = 80, 1.6  # instructions, as the kernels of elementwise specs and of products have them


def costs(plan: Plan, sizes: Mapping[str, int]) -> float:
    """What a case of these sizes costs, of which most blocks have little to do: 1 is about a quarter of a second.

    Infinite where a tensor is too large for the emulator.
    """
    spec = plan.spec
    elements = [prod(sizes[mode] for mode in tensor.shape) for tensor in spec.tensors]
    if max(elements) > LARGEST_TENSOR:
        return math.inf
    covered = {mode: size if sizes[mode] else 0 for mode, size in spec.family.covered(plan).items()}
    each = _PER_THREAD * plan.threads + _PER_MULTIPLY_ADD * spec.operation.multiply_adds(spec, covered)
    return max(sum(elements) / _ELEMENTS, spec.family.blocks(plan, sizes) * each / _INSTRUCTIONS)
