"""Checks of a plan's pointwise part, for the claims of every kernel that has one."""

from __future__ import annotations

from collections.abc import Iterator

from tensor_layouts import Layout

from cutegen import layouts
from cutegen.analysis.words import count
from cutegen.families.common.pointwise import PointwisePlan
from cutegen.language.model import Tensor


def miscounted(plan: PointwisePlan, layout: Layout) -> Iterator[str]:
    """How the kernel's own count of a thread's values differs from that of the layout, in words.

    The count must also be whole accesses.
    """
    values = layouts.mode_sizes(layout)[1]
    if plan.pointwise.values != values:
        yield f"the kernel stores {count(plan.pointwise.values, 'value')}"
    if values % plan.pointwise.vector:
        yield f"{count(values, 'value')}: no whole number of accesses of {plan.pointwise.vector}"


def not_stored(plan: PointwisePlan, *outputs: Tensor) -> Iterator[str]:
    """Says which tensors the kernel does not store to which the spec assigns; nothing where it stores all."""
    stored = {o.tensor.name for o in plan.pointwise.operands if o.write}
    yield from (f"the kernel does not store {output.name}" for output in outputs if output.name not in stored)


def share_predicates(plan: PointwisePlan) -> bool:
    """Whether each access of every operand lies within the values that one predicate covers, along the same mode."""
    point, major = plan.pointwise, plan.spec.lead.major
    return all(o.vector == 1 or (o.tensor.major == major and point.vector % o.vector == 0) for o in point.operands)
