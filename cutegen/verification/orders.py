"""Which case runs in several orders of blocks and warps: all of them would take long, and one can be chosen well."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of, op_of
from cutegen.verification.cases import Case
from cutegen.verification.costs import seconds
from cutegen.verification.forms import runners_of_forms

ORDERS = 3  # their own, a random one, and that one backwards


def cases_for_orders(plan: Plan, cases: Sequence[Case]) -> list[Case]:
    """Of each of a plan's kernels the one of `cases` in which the order of blocks and warps can matter most; of kernels
    that differ in numbers alone, of the one that runs the cases of their form.
    """
    # What fits a kernel but for one thing has no way of it: another kernel runs it
    kernels = [plan.kernels[place] for place in sorted(runners_of_forms(plan))]
    own = [[case for case in cases if case.of[0] == kernel.case and case.of[1] >= 0] for kernel in kernels]
    found = [case_for_orders(kernel, of) for kernel, of in zip(kernels, own, strict=True)]
    return [case for i, case in enumerate(found) if case is not None and case not in found[:i]]


def case_for_orders(plan: Plan, cases: Sequence[Case]) -> Case | None:
    """The one of `cases` in which the order of blocks and warps can matter most; None if none of them has an element.

    That is, before all else, one of tiles that few blocks walk in turn; then one of several blocks; then of blocks side
    by side along the most modes of the output; then of more tiles of k than stages, so that every stage is used again,
    as it also is from tile to tile; then the one that takes the least time; then the first.
    """
    spec, family = plan.spec, family_of(plan.spec)
    one_block, contracted = family.covered(plan), op_of(spec).contracted(spec)

    def rank(case: Case) -> tuple[bool, bool, int, bool, float]:
        along = sum(case.sizes[mode] > one_block[mode] for mode in spec.lead.shape)
        deep = any(case.sizes[mode] > (plan.stages or 1) * one_block[mode] for mode in contracted)
        reused, walked = deep or case.blocks is not None, case.blocks is not None
        return not walked, family.blocks(plan, case.sizes) == 1, -along, not reused, seconds(plan, case.sizes)

    return min((case for case in cases if not case.empty), key=rank, default=None)
