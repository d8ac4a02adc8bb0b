"""The calls that the cases of a schedule tell apart, and which case each of them is for.

What is said here of sizes, targets and alignment is exact: sizes that no condition tells apart are looked at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from cutegen.language.cases import Conditions
from cutegen.language.kinds import MAX_INT


@dataclass(frozen=True)
class Call:
    """A call that stands for all those which no condition tells from it."""

    target: str
    sizes: Mapping[str, int]
    align: int  # bytes that the address and strides of every tensor are a multiple of

    def __str__(self) -> str:
        sizes = [f"{mode} = {size}" for mode, size in self.sizes.items()]
        return ", ".join([self.target, *sizes, *([f"aligned to {self.align} bytes"] if self.align else [])])


def taken(cases: Sequence[Conditions], call: Call) -> int | None:
    """The number of the case that a call is for, or of the first of those among which their cost tells; None if there
    is none.
    """
    for number, one in enumerate(cases):
        aligned = one.align == 1 or one.align <= call.align
        if aligned and one.takes_target(call.target) and one.takes_sizes(call.sizes):
            return number
    return None


def of_group(cases: Sequence[Conditions], number: int) -> list[int]:
    """The numbers of the cases among which their cost tells, if that of `number` is one of them; else its own."""
    return [i for i, one in enumerate(cases) if one.by_cost] if cases[number].by_cost else [number]


def calls(
    cases: Sequence[Conditions],
    targets: Sequence[str],
    static: Mapping[str, int],
    divisible: Mapping[str, int],
    align: int = 1,
) -> Iterator[Call]:
    """Calls that represent all possible calls of a kernel with these targets and promises.

    `align` is what all tensors of any call are aligned to, in bytes.
    """
    modes = list(dict.fromkeys(mode for one in cases for mode in one.sizes))
    each = [_sizes(cases, mode, static.get(mode), divisible.get(mode, 1)) for mode in modes]
    asked = {one.align for one in cases if one.align > 1}
    aligned = sorted({max(align, other) for other in (align, *asked)}, reverse=True) if asked else [0]
    for target, sizes, bytes_ in itertools.product(targets, itertools.product(*each), aligned):
        yield Call(target, dict(zip(modes, sizes, strict=True)), bytes_)


def _sizes(cases: Sequence[Conditions], mode: str, fixed: int | None, step: int) -> list[int]:
    """Sizes of a mode that represent all others: one for each set of conditions that can hold together.

    They are 1 at the least: what has no elements is nothing to choose a schedule for.
    """
    if fixed is not None:
        return [fixed]
    conditions = list(dict.fromkeys(one for case in cases for one in case.sizes.get(mode, ())))
    bounds = sorted({1, *(low for c in conditions for low in (c.within[0], c.within[1] + 1) if 1 <= low <= MAX_INT)})
    divisors = [c.number for c in conditions if c.relation == "%"]
    multiples = {step}  # what divides a size: a least common multiple of some of the divisors
    for divisor in divisors:
        multiples |= {several for one in multiples if (several := math.lcm(one, divisor)) <= MAX_INT}
    found: dict[tuple[bool, ...], int] = {}
    for (low, high), multiple in itertools.product(itertools.pairwise([*bounds, MAX_INT + 1]), sorted(multiples)):
        for size in range(-(-low // multiple) * multiple, high, multiple):
            found.setdefault(tuple(c.holds(size) for c in conditions), size)
            if all(size % divisor or multiple % divisor == 0 for divisor in divisors):
                break  # nothing else divides it: what follows is like it, or like a size of another multiple
    return sorted(found.values())


def left_by(cases: Sequence[Conditions], number: int, mode: str) -> tuple[int, int]:
    """The least and the largest size of a mode that the case of that number gets.

    Of the cases before it those count that are for all its targets and have conditions on this mode alone, which leave
    sizes on one side.
    """
    own = cases[number]
    low, high = own.within(mode)
    for other in cases[:number]:
        only = set(other.sizes) == {mode} and other.align == 1 and other.divisor(mode) == 1
        if own.by_cost and other.by_cost:
            continue  # either may have it
        if not only or other.targets and not set(own.targets or ("",)) <= set(other.targets):
            continue
        first, last = other.within(mode)
        if first <= low <= last:
            low = last + 1
        if first <= high <= last:
            high = first - 1
    return low, high
