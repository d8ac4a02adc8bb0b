"""A kernel's cases and host checks in shares, which several processes do, and one report of what these found."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from itertools import chain
from typing import NamedTuple, TypeVar

from cutegen.planning.plan import Plan
from cutegen.verification.cases import derive_cases
from cutegen.verification.costs import seconds
from cutegen.verification.report import CaseReport, KernelReport

SHARES = 8
"""Of a kernel that is shared: so few that each is worth a process, so many that all processes end at about once."""
_WORTH = 0.5  # seconds
_MEAN = 2  # kernels of that length that each process would have: fewer, and one waits for the other for long
_CASE = 0.1  # seconds: what a case takes whatever its size is, and the host checks that there are for each case

_Entry = TypeVar("_Entry")


class Share(NamedTuple):
    """Every `of`-th of a kernel's cases, and of its host checks, from the one with that number on."""

    number: int = 0
    of: int = 1

    @property
    def places(self) -> slice:
        """Which entries of a sequence those are."""
        return slice(self.number, None, self.of)


WHOLE = Share()


def deal(plans: Sequence[Plan], workers: int, shares: bool) -> list[tuple[int, int]]:
    """What that many processes are to do: the numbers of the plans, in the order in which they had best begin, each
    with how many processes are to share its kernel.

    What takes longest comes first, so that nothing is left to run alone at the end. A kernel that would all the same
    take much of the time of all, as the only one does, is shared where `shares` says that it may be.
    """
    times = [_about(plan) for plan in plans]
    longest = max(_WORTH, sum(times) / workers / _MEAN)
    turns = sorted(enumerate(times), key=lambda turn: -turn[1])
    return [(number, workers if shares and time > longest else 1) for number, time in turns]


def together(plan: Plan, reports: Sequence[KernelReport | None], passed: float) -> KernelReport | None:
    """The report of a whole kernel from those of its shares, in their order: the one that a single process would give,
    except that it took as many seconds as `passed` while the shares ran beside each other.

    None where a share did not come to its end, or has no report, and so does not say what would have run after that.
    """
    parts = [report for report in reports if report is not None and not report.error]
    if len(parts) < len(reports):
        return None
    whole = replace(
        parts[0],
        cases=_in_turn([part.cases for part in parts]),
        host_checks=_in_turn([part.host_checks for part in parts]),
        seconds=passed,
    )
    why = unjudged(plan, whole.cases)
    return replace(whole, error=why, reason="open") if why else whole


def unjudged(plan: Plan, cases: Sequence[CaseReport]) -> str:
    """Says that of some output not one element was judged, in all cases together; empty where each output was."""
    ran = [case for case in cases if case.status == "passed" and case.elements]
    never = [t.name for t in plan.spec.outputs if ran and all(t.name in case.unjudged for case in ran)]
    if not never:
        return ""
    what = f"in no case does the bound say anything about an element of {', '.join(never)}"
    return f"{what}: the spec leaves open what each is, as a number divided by a zero of either sign"


def _about(plan: Plan) -> float:
    """About how many seconds the verification of a kernel takes."""
    taken = [seconds(plan, case.sizes) for case in derive_cases(plan)]
    return sum(_CASE + time for time in taken if math.isfinite(time))  # what is too large is not run


def _in_turn(parts: Sequence[Sequence[_Entry]]) -> tuple[_Entry, ...]:
    """The entries of several sequences, one of each in turn, of which the first ones may have one more."""
    most = max(len(part) for part in parts)
    return tuple(chain.from_iterable((part[i] for part in parts if i < len(part)) for i in range(most)))
