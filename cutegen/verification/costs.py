"""The estimated time of a case where it takes longest: on the emulator, with its float64 reference."""

from __future__ import annotations

import math
from collections.abc import Mapping
from math import prod

from cutegen.expressions.tree import Call, walk
from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of, op_of

LARGEST_TENSOR = 10 << 20
"""Elements of the largest tensor that the emulator takes."""
# Seconds, measured on one core of a server. Of data and what guards them, of the reference, of the emulator.
_ELEMENT, _NODE = 50e-9, 15e-9
_THREAD, _MULTIPLY_ADD, _INSTRUCTION = 20e-9, 3.5e-9, 2e-9
_TURN = 1.3e-3  # of a loop of all blocks, independent of its body
_BESIDE = 2e-6  # of a thread of another kernel
_CALL = 25  # instructions of a function, about
_LANES = 4096  # threads: of fewer, calls of numpy take longer than what they do


def seconds(plan: Plan, sizes: Mapping[str, int]) -> float:
    """About how many seconds a case of these sizes takes, with most blocks only partly full.

    Infinite where a tensor is too large for the emulator, or a mode for the kernel's grids.
    """
    spec = plan.spec
    elements = [prod(tensor.extents(sizes)) for tensor in spec.tensors]
    largest = family_of(spec).largest(plan)
    if max(elements) > LARGEST_TENSOR or any(sizes[mode] > most for mode, most in largest.items()):
        return math.inf
    nodes = [node for statement in spec.compute.statements for node in walk(statement.value)]
    calls = sum(isinstance(node, Call) and node.function != "where" for node in nodes)
    covered = family_of(spec).reached(plan, sizes)
    deep = {m: -(-sizes[m] // covered[m]) * covered[m] for m in op_of(spec).contracted(spec) if covered[m]}
    blocks = family_of(spec).blocks(plan, sizes)
    one = _MULTIPLY_ADD if blocks * plan.threads > _LANES else 3 * _MULTIPLY_ADD
    block = _THREAD * plan.threads + one * op_of(spec).multiply_adds(spec, {**covered, **deep})
    value = _INSTRUCTION * (len(spec.tensors) + len(nodes) / 2 + _CALL * calls)
    computed = op_of(spec).computed_modes(spec)
    block += value * prod(covered[mode] for mode in computed)
    results = prod(sizes[mode] for mode in computed)
    turns = prod(max(1, covered[mode] // plan.tile[mode]) for mode in spec.lead.shape if mode in plan.tile)
    beside = _BESIDE * family_of(spec).threads_beside(plan, sizes)
    beside += family_of(spec).value_seconds(plan, sizes)
    return _ELEMENT * sum(elements) + _NODE * results * len(nodes) + block * blocks + _TURN * turns + beside
