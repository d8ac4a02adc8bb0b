"""The ways in which an elementwise kernel runs, as plans of their own."""

from __future__ import annotations

from dataclasses import replace

from cutegen.families.common.narrowing import NARROW, interleaved, of_spec, one_at_a_time, promising, with_copy
from cutegen.families.elementwise.plan import ElementwisePlan
from cutegen.families.elementwise.tiles import widest_bits


def variants(plan: ElementwisePlan) -> tuple[ElementwisePlan, ...]:
    """The plan alone, or with the promises that its accesses need, and without them with accesses of one element."""
    spec = plan.spec
    if not spec.schedule.narrows:
        return (plan,)
    point = plan.pointwise
    wide = promising(spec, point.operands, str(spec.lead.major), point.vector)
    tv_layout = None if plan.tv_layout is None else interleaved(plan.tv_layout)
    one = replace(point, vector=1, operands=one_at_a_time(point.operands))
    vectors = replace(point, operands=of_spec(point.operands, wide))
    narrow = with_copy(spec, bits=widest_bits(spec), fallback=None)
    return (
        replace(plan, spec=wide, pointwise=vectors),
        replace(plan, spec=narrow, pointwise=one, tv_layout=tv_layout, way=NARROW),
    )
