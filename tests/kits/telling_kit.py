"""The few cases that tell most of a kernel, for tests of kernels of many kinds."""

from __future__ import annotations

from cutegen.planning.plan import Plan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.telling import quick_part


def telling_cases(plan: Plan, longest: int = 1000) -> list[Case]:
    """The cases of `verify --quick`, of those in which no mode is longer than `longest`: each kind of data, each layout
    and each relation of a size to a tile is in one of them. All cases of a kernel run in `verify` of the specs.
    """
    cases = [case for case in derive_cases(plan) if max(case.sizes.values()) <= longest]
    return [cases[number] for number in quick_part(plan, cases)]
