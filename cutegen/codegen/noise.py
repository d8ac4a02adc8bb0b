"""The noise by which a module's program finds how far right outputs may be from its `reference`."""

from __future__ import annotations

from cutegen.codegen.asked import family_of
from cutegen.codegen.exactness import inexact, is_exact
from cutegen.dtypes import Dtype
from cutegen.expressions.parsing import Expr, Local, MatMul
from cutegen.expressions.reducing import without_definitions
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan

_STEP = {Dtype.f64: -52, Dtype.f32: -23}  # from 1 to the next number, as a power of two
_SUMS = 10  # doublings of a step that sums in another order, and functions of such sums, may differ by
_FUSED_SUMS = 7  # the same of tensor cores that cut each term of a sum


def noise(plan: Plan) -> int | None:
    """The noise of each float operation of `reference`, in parts of its result, as a power of two.

    None where every right kernel computes all outputs alike.
    """
    if not plan.statements:  # all that such a family computes is taken for f32
        return _STEP[Dtype.f32] + _SUMS
    found: list[int] = []
    exact: set[str] = set()
    for typed in without_definitions(plan.statements):
        exact.discard(typed.target)
        if is_exact(typed.value, exact):
            exact.add(typed.target)
        whole = typed.value if typed.stored is None else typed.stored
        found += [_of(plan.spec, node) for node in inexact(whole, exact) if not isinstance(node, Local)]
    return max(found, default=None)


def _of(spec: KernelSpec, node: Expr) -> int:
    assert node.dtype is not None
    least = _STEP.get(node.dtype, _STEP[Dtype.f64 if node.dtype.is_integer else Dtype.f32]) + _SUMS
    if not isinstance(node, MatMul):
        return least
    fused = [1 - order.fused.bits + _FUSED_SUMS for order in family_of(spec).sum_orders(spec)]
    bits = family_of(spec).factor_bits(spec)
    return max([least, *fused, *([] if bits is None else [4 - bits])])


def noise_context(plan: Plan) -> dict[str, object]:
    """What `templates/main.j2` prints of the noise."""
    power = noise(plan)
    return {"noise": "" if power is None else f"2**{power}"}
