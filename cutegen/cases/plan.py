"""The plan of a kernel of several cases: the plan of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.language.cases import Conditions
from cutegen.planning.plan import Plan


@dataclass(frozen=True, kw_only=True)
class CasesPlan(Plan):
    """A kernel of several cases. What is said of all of them at once is the most that one of them has."""

    conditions: tuple[Conditions, ...]  # of each case, in their order
    cases: tuple[Plan, ...]

    @property
    def kernels(self) -> tuple[Plan, ...]:
        return self.cases

    def taken(self, sizes: Mapping[str, int]) -> Plan:
        """The plan of the first case that those sizes let be taken, whatever else its conditions are."""
        found = (plan for one, plan in zip(self.conditions, self.cases, strict=True) if one.takes_sizes(sizes))
        return next(found, self.cases[-1])

    def own_sizes(self, kernel: Plan, sizes: dict[str, int]) -> dict[str, int] | None:
        number = next(i for i, plan in enumerate(self.cases) if plan is kernel)
        own, targets = kernel.spec, set(kernel.spec.targets)
        changed = dict(sizes)
        for one in self.conditions[:number]:
            if one.targets and not targets & set(one.targets) or not one.sizes or not one.takes_sizes(changed):
                continue
            for mode in one.sizes:  # which a size beside it is not for, if the case itself can have that
                step = max(1, own.divisible.get(mode, 1))
                for size in (changed[mode] + step, changed[mode] - step):
                    other = {**changed, mode: size}
                    if own.takes(other) and not one.takes_sizes(other):
                        changed = other
                        break
        taken = [one for one in self.conditions[:number] if one.takes_sizes(changed)]
        elsewhere = all(one.align > 1 or one.targets and not targets <= set(one.targets) for one in taken)
        return changed if elsewhere else None
