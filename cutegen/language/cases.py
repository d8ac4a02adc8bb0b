"""One kernel, several schedules: which case a call is for, by target when it is compiled and by sizes when it is made.

The cases of a schedule are asked in their order, and the first one whose conditions all hold is taken. What is said
here of sizes, targets and alignment is exact: sizes that no condition tells apart are looked at once.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cutegen.language.kinds import MAX_INT
from cutegen.language.model import Schedule

Relation = Literal["==", "<=", "<", ">=", ">", "%"]
RELATIONS = get_args(Relation)
MAX_CASES = 16
MAX_DIVISOR = 1 << 16  # of a size
OWN_KEYS = ("target", "align")  # of `for`, besides the modes


@dataclass(frozen=True)
class SizeIs:
    """One condition on the size of a mode: `<= 64`, `== 4096`, or `% 8 == 0`, which says `%` and 8."""

    relation: Relation
    number: int

    def holds(self, size: int) -> bool:
        """Whether a size is as the condition says."""
        if self.relation == "%":
            return size % self.number == 0
        low, high = self.within
        return low <= size <= high

    @property
    def within(self) -> tuple[int, int]:
        """The least and the largest size that it leaves."""
        n = self.number
        return {
            "==": (n, n),
            "<=": (0, n),
            "<": (0, n - 1),
            ">=": (n, MAX_INT),
            ">": (n + 1, MAX_INT),
            "%": (0, MAX_INT),
        }[self.relation]

    def text(self, size: str) -> str:
        """A Python expression of whether `size`, an expression, is so."""
        return f"{size} % {self.number} == 0" if self.relation == "%" else f"{size} {self.relation} {self.number}"

    def text_of_not(self, size: str) -> str:
        """A Python expression of whether `size`, an expression, is not so."""
        opposite = {"==": "!=", "<=": ">", "<": ">=", ">=": "<", ">": "<="}
        if self.relation == "%":
            return f"{size} % {self.number} != 0"
        return f"{size} {opposite[self.relation]} {self.number}"

    def __str__(self) -> str:
        return f"% {self.number} == 0" if self.relation == "%" else f"{self.relation} {self.number}"


@dataclass(frozen=True)
class Conditions:
    """What must hold for a case to be taken; without any it always may be.

    `targets` are the architectures that it is for, none for all; `sizes` has the conditions on the size of a mode, by
    its name; `align` is the number of bytes that every tensor's address and strides are a multiple of.
    """

    targets: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[SizeIs, ...]] = field(default_factory=dict)
    align: int = 1

    @property
    def always(self) -> bool:
        """Whether the case is for whatever no other one takes."""
        return not self.targets and self.on_calls == 0

    @property
    def on_calls(self) -> int:
        """How many conditions there are on what a call gives, besides the target."""
        return sum(map(len, self.sizes.values())) + (self.align > 1)

    def takes_target(self, target: str) -> bool:
        """Whether the case may be compiled for an architecture."""
        return not self.targets or target in self.targets

    def takes_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Whether the sizes of a call are as the conditions say, whatever its target and alignment are."""
        return all(one.holds(sizes[mode]) for mode, several in self.sizes.items() for one in several)

    def within(self, mode: str) -> tuple[int, int]:
        """The least and the largest size of a mode that the conditions leave."""
        ranges = [one.within for one in self.sizes.get(mode, ())]
        return max([0, *(low for low, _ in ranges)]), min([MAX_INT, *(high for _, high in ranges)])

    def divisor(self, mode: str) -> int:
        """What the size of a mode is a multiple of."""
        return math.lcm(*(one.number for one in self.sizes.get(mode, ()) if one.relation == "%"))

    def as_data(self) -> dict[str, Any]:
        """The conditions as `for` writes them."""
        data: dict[str, Any] = {}
        if self.targets:
            data["target"] = self.targets[0] if len(self.targets) == 1 else list(self.targets)
        for mode, several in self.sizes.items():
            data[mode] = str(several[0]) if len(several) == 1 else [str(one) for one in several]
        return data | ({"align": self.align} if self.align > 1 else {})

    def __str__(self) -> str:
        """The conditions in words, such as `sm_90a, N <= 64`."""
        said = [" or ".join(self.targets)] if self.targets else []
        said += [f"{mode} {one}" for mode, several in self.sizes.items() for one in several]
        said += [f"aligned to {self.align} bytes"] if self.align > 1 else []
        return ", ".join(said) or "all else"


@dataclass(frozen=True)
class Case:
    """A schedule, and when it is taken."""

    conditions: Conditions
    schedule: Schedule


@dataclass(frozen=True)
class Cases(Schedule):
    """A schedule that is a list of cases."""

    cases: tuple[Case, ...] = ()

    @property
    def narrows(self) -> bool:
        return any(case.schedule.narrows for case in self.cases)

    @property
    def fast_math(self) -> bool:
        return any(case.schedule.fast_math for case in self.cases)

    def as_data(self) -> list[dict[str, Any]]:
        """The list as a spec writes it."""
        data = []
        for case in self.cases:
            conditions = case.conditions.as_data()
            data.append(({"for": conditions} if conditions else {}) | case.schedule.as_data())
        return data


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
    """The number of the case that a call is for; None if there is none."""
    for number, one in enumerate(cases):
        aligned = one.align == 1 or one.align <= call.align
        if aligned and one.takes_target(call.target) and one.takes_sizes(call.sizes):
            return number
    return None


def calls(
    cases: Sequence[Conditions],
    targets: Sequence[str],
    static: Mapping[str, int],
    divisible: Mapping[str, int],
    align: int = 1,
) -> Iterator[Call]:
    """Calls of which at least one is like any that there can be, of a kernel with these targets and promises.

    `align` is what all tensors of any call are aligned to, in bytes.
    """
    modes = list(dict.fromkeys(mode for one in cases for mode in one.sizes))
    each = [_sizes(cases, mode, static.get(mode), divisible.get(mode, 1)) for mode in modes]
    asked = {one.align for one in cases if one.align > 1}
    aligned = sorted({max(align, other) for other in (align, *asked)}, reverse=True) if asked else [0]
    for target, sizes, bytes_ in itertools.product(targets, itertools.product(*each), aligned):
        yield Call(target, dict(zip(modes, sizes, strict=True)), bytes_)


def _sizes(cases: Sequence[Conditions], mode: str, fixed: int | None, step: int) -> list[int]:
    """Sizes of a mode of which one is like any other: one for each set of conditions that can hold together.

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
        if not only or other.targets and not set(own.targets or ("",)) <= set(other.targets):
            continue
        first, last = other.within(mode)
        if first <= low <= last:
            low = last + 1
        if first <= high <= last:
            high = first - 1
    return low, high
