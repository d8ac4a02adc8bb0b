"""Which kernels of a module differ in numbers alone, so that a case of their form needs to run on one of them only."""

from __future__ import annotations

from collections.abc import Sequence

from cutegen.planning.plan import Plan
from cutegen.verification.asked import family_of


def firsts_of_form(kernels: Sequence[Plan]) -> frozenset[int]:
    """The places of the kernels that none before them is like but for numbers, as `Family.verified_form` has it."""
    forms = [family_of(kernel.spec).verified_form(kernel) for kernel in kernels]
    return frozenset(i for i, form in enumerate(forms) if form is None or form not in forms[:i])
