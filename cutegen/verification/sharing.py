"""A kernel's cases and host checks in shares, which several processes do."""

from __future__ import annotations

import math
import os
import struct
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from cutegen.planning.plan import Plan
from cutegen.verification.cases import derive_cases
from cutegen.verification.costs import seconds

_WORTH = 0.5  # seconds: a kernel that takes less is not shared
_MEAN = 2  # a kernel that takes longer than 1 / (2 processes) of the time of all is shared
_CASE = 0.1  # seconds: the part of a case that does not depend on its size, and of its host checks

_MOST = 1 << 14  # cases or checks
_NUMBER = struct.Struct("!H")

_Entry = TypeVar("_Entry")


class Share(Protocol):
    """Which of a kernel's cases, and of its host checks, a process does."""

    def of(self, entries: Iterable[_Entry]) -> Iterator[tuple[int, _Entry]]:
        """Those of the cases, and where it is called again, of the checks, with their numbers. It goes through all
        entries, also where it is to do none of them any more.
        """

    def stop(self) -> None:
        """Lets no process begin another one, neither of the cases nor of the checks."""


class Whole:
    """All cases and checks, for the only process."""

    def __init__(self) -> None:
        self._stopped = False

    def of(self, entries: Iterable[_Entry]) -> Iterator[tuple[int, _Entry]]:
        for number, entry in enumerate(entries):
            if not self._stopped:
                yield number, entry

    def stop(self) -> None:
        self._stopped = True


class Turns:
    """The cases and checks of one of several processes, each of which takes the next number that none of them has.

    `queues` are descriptors from which these numbers are read, that of cases and that of checks, as `Turns.queue` has
    made them.
    """

    def __init__(self, queues: Sequence[int]) -> None:
        self._queues = list(queues)
        self._rest = iter(queues)

    @staticmethod
    def queue() -> int:
        """A descriptor with numbers, which all processes that have it can read."""
        with tempfile.TemporaryFile() as numbers:
            numbers.write(b"".join(map(_NUMBER.pack, range(_MOST))))
            numbers.seek(0)
            return os.dup(numbers.fileno())  # which all read on from where one of them has read

    def of(self, entries: Iterable[_Entry]) -> Iterator[tuple[int, _Entry]]:
        queue = next(self._rest)
        turn = self._next(queue)
        for number, entry in enumerate(entries):
            if turn == number:
                yield number, entry
                turn = self._next(queue)

    def stop(self) -> None:
        for queue in self._queues:
            os.lseek(queue, 0, os.SEEK_END)

    @staticmethod
    def _next(queue: int) -> int:
        read = os.read(queue, _NUMBER.size)
        return int(_NUMBER.unpack(read)[0]) if len(read) == _NUMBER.size else _MOST


def deal(plans: Sequence[Plan], workers: int, shares: bool) -> list[tuple[int, int]]:
    """The work for so many processes: the numbers of the plans in the best order to begin them, each with how many
    processes share its kernel.

    Plans that take longest come first, so that nothing is left to run alone at the end. A kernel that would still take
    much of the total time, as the only one does, is shared where `shares` allows it.
    """
    times = [_about(plan) for plan in plans]
    longest = max(_WORTH, sum(times) / workers / _MEAN)
    turns = sorted(enumerate(times), key=lambda turn: -turn[1])
    return [(number, workers if shares and time > longest else 1) for number, time in turns]


def _about(plan: Plan) -> float:
    """About how many seconds the verification of a kernel takes."""
    taken = [seconds(plan, case.sizes) for case in derive_cases(plan)]
    return sum(_CASE + time for time in taken if math.isfinite(time))  # what is too large is not run
