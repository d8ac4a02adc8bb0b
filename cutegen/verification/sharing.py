"""A kernel's cases and host checks in shares, which several processes do, and one report of what these found."""

from __future__ import annotations

import math
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import NamedTuple, Protocol, TypeVar

from cutegen.planning.plan import Plan
from cutegen.verification.cases import derive_cases
from cutegen.verification.costs import seconds
from cutegen.verification.report import CaseReport, KernelReport

_WORTH = 0.5  # seconds: a kernel that takes less is not shared
_MEAN = 2  # a kernel that takes longer than 1 / (2 processes) of the time of all is shared
_CASE = 0.1  # seconds: what a case takes whatever its size is, and the host checks that there are for each case

_MOST = 1 << 14  # cases or checks
_NUMBER = struct.Struct("!H")

_Entry = TypeVar("_Entry")


class Share(Protocol):
    """Which of a kernel's cases, and of its host checks, a process does."""

    def of(self, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        """Those of the cases, and where it is called again, of the checks."""


class _Whole:
    def of(self, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        yield from entries


WHOLE: Share = _Whole()


class Turns:
    """The cases and checks of one of several processes, each of which takes the next number that none of them has.

    `queues` are descriptors from which these numbers are read, that of cases and that of checks, as `Turns.queue` has
    made them. `taken` has the numbers of those that it did, and `counts` how many there were in all.
    """

    def __init__(self, queues: Sequence[int]) -> None:
        self._queues = list(queues)
        self.taken: list[list[int]] = []
        self.counts: list[int] = []

    @staticmethod
    def queue() -> int:
        """A descriptor with numbers, which all processes that have it can read."""
        with tempfile.TemporaryFile() as numbers:
            numbers.write(b"".join(map(_NUMBER.pack, range(_MOST))))
            numbers.seek(0)
            return os.dup(numbers.fileno())  # which all read on from where one of them has read

    def of(self, entries: Iterable[_Entry]) -> Iterator[_Entry]:
        queue, count = self._queues[len(self.taken)], 0
        mine: list[int] = []
        self.taken.append(mine)
        turn = self._next(queue)
        for count, entry in enumerate(entries, 1):
            if turn == count - 1:
                yield entry
                mine.append(turn)
                turn = self._next(queue)
        self.counts.append(count)

    @staticmethod
    def _next(queue: int) -> int:
        read = os.read(queue, _NUMBER.size)
        return int(_NUMBER.unpack(read)[0]) if len(read) == _NUMBER.size else _MOST


class Part(NamedTuple):
    """The report of a process on what it did, with the numbers of its cases and of its checks, and their counts."""

    report: KernelReport
    taken: Sequence[Sequence[int]]
    counts: Sequence[int]


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


def together(plan: Plan, parts: Sequence[Part], passed: float) -> KernelReport | None:
    """The report of a whole kernel from those of several processes: the one that a single process would give, except
    that it took as many seconds as `passed` while they ran beside each other.

    None where one of them did not come to its end, and so does not say what would have run after that, or lacked
    memory, of which one process alone has more.
    """
    if any(part.report.error for part in parts) or len({tuple(part.counts) for part in parts}) > 1:
        return None
    if any(result.reason == "no memory" for part in parts for result in part.report.results):
        return None
    whole = replace(
        parts[0].report,
        cases=_in_order((part.taken[0], part.report.cases) for part in parts),
        host_checks=_in_order((part.taken[1], part.report.host_checks) for part in parts),
        seconds=passed,
    )
    if [len(whole.cases), len(whole.host_checks)] != list(parts[0].counts):
        return None
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


def _in_order(parts: Iterable[tuple[Sequence[int], Sequence[_Entry]]]) -> tuple[_Entry, ...]:
    """The entries of several sequences in the order of their numbers."""
    found = [pair for numbers, entries in parts for pair in zip(numbers, entries, strict=True)]
    return tuple(entry for _, entry in sorted(found, key=lambda pair: pair[0]))
