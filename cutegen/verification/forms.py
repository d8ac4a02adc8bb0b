"""Which kernels of a module differ in numbers alone, so that a case of their form needs to run on one of them only."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of
from cutegen.verification.case_requests import tiles_of

_LARGER = 8  # times as many elements as a tile has: from there on, a kernel's cases are too large to run them all


def runners_of_forms(plan: Plan) -> frozenset[int]:
    """The places of the kernels that run what tests their form: cases, orders of blocks, and checks of many tiles.

    Each is the first kernel of its form, or if calls of about one tile do not get that one, the first that they get.
    """
    kernels = plan.kernels
    small = (
        next((i for i in places if not _needs_more(plan, kernels[i])), places[0]) for places in kernels_by_form(kernels)
    )
    return frozenset(small)


def kernels_by_form(kernels: Sequence[Plan]) -> list[list[int]]:
    """The places of the kernels of each form, which is `Family.verified_form`. A kernel without a form is alone."""
    forms: list[object] = []
    found: list[list[int]] = []
    for place, kernel in enumerate(kernels):
        form = family_of(kernel.spec).verified_form(kernel)
        if form is None or form not in forms:
            forms.append(form)
            found.append([place])
        else:
            found[forms.index(form)].append(place)
    return found


def _needs_more(plan: Plan, kernel: Plan) -> bool:
    """Whether calls get a kernel only with far more elements than its tile has."""
    tiles = tiles_of(kernel)
    own = plan.own_sizes(kernel, tiles)
    return own is not None and prod(own.values()) > _LARGER * prod(tiles.values())
