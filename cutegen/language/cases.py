"""One kernel, several schedules: which case a call is for, by target when it is compiled and by sizes when it is made.

The cases of a schedule are asked in their order, and the first one whose conditions all hold is taken; among cases
compared by cost, the one with the lowest estimate.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from cutegen.language.kinds import MAX_INT
from cutegen.language.model import Schedule

Relation = Literal["==", "<=", "<", ">=", ">", "%"]
RELATIONS = get_args(Relation)
MAX_CASES = 40
MAX_DIVISOR = 1 << 16  # of a size
OWN_KEYS = ("target", "align", "cost")  # of `for`, besides the modes
LEAST = "least"  # what `cost` says


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
    """The conditions under which a case is taken; without any it always may be.

    `targets` are the architectures that it is for, empty for all; `sizes` maps the name of a mode to the conditions on
    its size; `align` is the number of bytes that every tensor's address and strides are a multiple of. A case with
    `by_cost` is taken where its estimated time is the least of all such cases, which all have the same `sizes`.
    """

    targets: tuple[str, ...] = ()
    sizes: Mapping[str, tuple[SizeIs, ...]] = field(default_factory=dict)
    align: int = 1
    by_cost: bool = False

    @property
    def always(self) -> bool:
        """Whether the case takes all calls that no other one takes."""
        return not self.targets and self.on_calls == 0

    @property
    def on_calls(self) -> int:
        """How many conditions there are on what a call gives, besides the target."""
        return sum(map(len, self.sizes.values())) + (self.align > 1)

    def takes_target(self, target: str) -> bool:
        """Whether the case may be compiled for an architecture."""
        return not self.targets or target in self.targets

    def takes_sizes(self, sizes: Mapping[str, int]) -> bool:
        """Whether the sizes of a call are as the conditions say, independent of target and alignment."""
        return all(one.holds(sizes[mode]) for mode, several in self.sizes.items() for one in several)

    def within(self, mode: str) -> tuple[int, int]:
        """The least and the largest size of a mode that the conditions leave."""
        ranges = [one.within for one in self.sizes.get(mode, ())]
        return max([0, *(low for low, _ in ranges)]), min([MAX_INT, *(high for _, high in ranges)])

    def divisor(self, mode: str) -> int:
        """The number that the conditions make the size of a mode a multiple of; 1 without such a condition."""
        return math.lcm(*(one.number for one in self.sizes.get(mode, ()) if one.relation == "%"))

    def as_data(self) -> dict[str, Any]:
        """The conditions as `for` writes them."""
        data: dict[str, Any] = {}
        if self.targets:
            data["target"] = self.targets[0] if len(self.targets) == 1 else list(self.targets)
        for mode, several in self.sizes.items():
            data[mode] = str(several[0]) if len(several) == 1 else [str(one) for one in several]
        data |= {"align": self.align} if self.align > 1 else {}
        return data | ({"cost": LEAST} if self.by_cost else {})

    def __str__(self) -> str:
        """The conditions in words, such as `sm_90a, N <= 64`."""
        said = [" or ".join(self.targets)] if self.targets else []
        said += [f"{mode} {one}" for mode, several in self.sizes.items() for one in several]
        said += [f"aligned to {self.align} bytes"] if self.align > 1 else []
        said += ["the least cost"] if self.by_cost else []
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

    @property
    def fast_elements(self) -> bool:
        return any(case.schedule.fast_elements for case in self.cases)

    def as_data(self) -> list[dict[str, Any]]:
        """The list as a spec writes it."""
        data = []
        for case in self.cases:
            conditions = case.conditions.as_data()
            data.append(({"for": conditions} if conditions else {}) | case.schedule.as_data())
        return data
