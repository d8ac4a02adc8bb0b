"""Which kernels of a module differ in numbers alone, so that a case of their form needs to run on one of them only."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of
from cutegen.verification.case_requests import tiles_of

_LARGER = 8  # times as many elements as a tile has, from which on a kernel's cases are large


def firsts_of_form(kernels: Sequence[Plan]) -> frozenset[int]:
    """The places of the kernels that none before them is like but for numbers, as `Family.verified_form` has it."""
    forms = [family_of(kernel.spec).verified_form(kernel) for kernel in kernels]
    return frozenset(i for i, form in enumerate(forms) if form is None or form not in forms[:i])


def runners_of_forms(plan: Plan) -> frozenset[int]:
    """The places of the kernels that run the cases of their forms: of each form the first one that takes sizes of a
    tile, or the first one, where each of them needs larger sizes to be chosen by a call.
    """
    kernels = plan.kernels
    forms = [family_of(kernel.spec).verified_form(kernel) for kernel in kernels]
    found: set[int] = set()
    for first in firsts_of_form(kernels):
        alike = [first] if forms[first] is None else [i for i, form in enumerate(forms) if form == forms[first]]
        found.add(next((i for i in alike if not _needs_more(plan, kernels[i])), first))
    return frozenset(found)


def _needs_more(plan: Plan, kernel: Plan) -> bool:
    """Whether a call of much more than a tile is the least one that gets a kernel."""
    tiles = tiles_of(kernel)
    own = plan.own_sizes(kernel, tiles)
    return own is not None and prod(own.values()) > _LARGER * prod(tiles.values())
