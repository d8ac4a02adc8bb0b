"""The ways in which a row kernel runs, as plans of their own."""

from __future__ import annotations

from dataclasses import replace

from cutegen.families.common.narrowing import NARROW, of_spec, promising, with_copy
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.families.rowwise.planning import plan as planned
from cutegen.families.rowwise.rows import widest_tensor


def variants(plan: RowwisePlan) -> tuple[RowwisePlan, ...]:
    """The plan alone, or with the promises that its accesses need, and without them with accesses of one element."""
    spec = plan.spec
    if not spec.schedule.narrows:
        return (plan,)
    wide = promising(spec, plan.operands, plan.row, plan.vector)
    one = with_copy(spec, bits=widest_tensor(spec).dtype.bits, fallback=None)
    return replace(plan, spec=wide, operands=of_spec(plan.operands, wide)), replace(planned(one), way=NARROW)
