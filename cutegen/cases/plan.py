"""The plan of a kernel of several cases: the plan of each."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cutegen.analysis.cost import Cost, Moved, estimates
from cutegen.language.cases import Conditions
from cutegen.language.model import KernelSpec
from cutegen.planning.estimate import Estimate
from cutegen.planning.plan import Plan


@dataclass(frozen=True, kw_only=True)
class CasesPlan(Plan):
    """A kernel of several cases. What is said of all of them at once is the most that one of them has."""

    conditions: tuple[Conditions, ...]  # of each case, in their order
    cases: tuple[Plan, ...]
    costs: tuple[Cost, ...] = ()  # of the cases compared by cost
    moved: Moved | None = None  # what these move alike

    @property
    def kernels(self) -> tuple[Plan, ...]:
        return self.cases

    def taken(self, sizes: Mapping[str, int], target: str | None = None, multiprocessors: int | None = None) -> Plan:
        number = self._first(sizes, target, len(self.cases) - 1)
        if self.conditions[number].by_cost and (chosen := self.chosen_for(sizes, multiprocessors)) is not None:
            number = self.by_cost[chosen]
        return self.cases[number]

    def _first(self, sizes: Mapping[str, int], target: str | None, otherwise: int) -> int:
        """The number of the first case for these sizes and the target, if one is given."""
        fitting = (i for i, one in enumerate(self.conditions) if target is None or one.takes_target(target))
        return next((i for i in fitting if self.conditions[i].takes_sizes(sizes)), otherwise)

    def estimates(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> tuple[tuple[str, float], ...]:
        if self.moved is None or not self.conditions[self._first(sizes, None, 0)].by_cost:
            return ()
        found = estimates(self.costs, self.moved, sizes, multiprocessors)
        return tuple((self.cases[i].case, us) for i, us in zip(self.by_cost, found, strict=True))

    def estimate(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> Estimate | None:
        if self.moved is None or not self.estimates(sizes):
            return None
        chosen = self.chosen_for(sizes, multiprocessors)
        assert chosen is not None
        moved = self.moved
        return self.costs[chosen].parts(sizes, moved.memory(sizes), moved.crossed(sizes), multiprocessors)

    def chosen_for(self, sizes: Mapping[str, int], multiprocessors: int | None = None) -> int | None:
        if self.moved is None:
            return None
        if not self.compares(sizes):
            return len(self.by_cost)
        found = estimates(self.costs, self.moved, sizes, multiprocessors)
        return found.index(min(found))

    @property
    def assumed_multiprocessors(self) -> int | None:
        return self.costs[0].multiprocessors if self.costs else None

    @property
    def by_cost(self) -> list[int]:
        """The numbers of the cases compared by cost."""
        return [number for number, one in enumerate(self.conditions) if one.by_cost]

    @property
    def told_by_sizes(self) -> tuple[int, ...]:
        """The numbers of the cases not compared by cost that calls take by their sizes alone: those before the compared
        ones that have no other condition, and all behind them, which get the sizes that the compared ones are not for.
        """
        if not self.by_cost:
            return ()
        first, last = self.by_cost[0], self.by_cost[-1]
        targets = set(self.conditions[first].targets)
        every = ((i, one) for i, one in enumerate(self.conditions) if not one.by_cost)
        return tuple(
            i
            for i, one in every
            if i > last or one.sizes and one.align == 1 and (not one.targets or targets and targets <= set(one.targets))
        )

    def compares(self, sizes: Mapping[str, int]) -> bool:
        """Whether a call of these sizes takes one of the cases that are compared by cost, if its target and its
        alignments do not give it to another one.
        """
        first = self.by_cost[0]
        before = (self.conditions[i] for i in self.told_by_sizes if i < first)
        return self.conditions[first].takes_sizes(sizes) and not any(one.takes_sizes(sizes) for one in before)

    def chosen_as(self, kernel: Plan) -> int | None:
        number = next(i for i, plan in enumerate(self.cases) if plan is kernel)
        return self.by_cost.index(number) if number in self.by_cost else None

    def own_sizes(self, kernel: Plan, sizes: dict[str, int]) -> dict[str, int] | None:
        own, targets = kernel.spec, set(kernel.spec.targets)
        changed = dict(sizes)
        before = self._before(kernel)
        for one in before:
            if one.targets and not targets & set(one.targets) or not one.sizes or not one.takes_sizes(changed):
                continue
            for mode in one.sizes:  # which a size beside it is not for, if the case itself can have that
                step = max(1, own.divisible.get(mode, 1))
                for size in (changed[mode] + step, changed[mode] - step):
                    other = {**changed, mode: size}
                    if own.takes(other) and not one.takes_sizes(other):
                        changed = other
                        break
            if one.takes_sizes(changed):
                changed = _beyond(one, own, changed) or changed
        taken = [one for one in before if one.takes_sizes(changed)]
        elsewhere = all(one.align > 1 or one.targets and not targets <= set(one.targets) for one in taken)
        return changed if elsewhere else None

    def targets_of(self, kernel: Plan, sizes: Mapping[str, int]) -> tuple[str, ...]:
        sure = [one for one in self._before(kernel) if one.align == 1 and one.takes_sizes(sizes)]
        return tuple(t for t in kernel.spec.targets if not any(one.takes_target(t) for one in sure))

    def _before(self, kernel: Plan) -> list[Conditions]:
        """The conditions of the cases that calls get rather than that one, but for those it is compared with."""
        number = next(i for i, plan in enumerate(self.cases) if plan is kernel)
        by_cost = self.conditions[number].by_cost
        return [one for one in self.conditions[:number] if not (one.by_cost and by_cost)]


def _beyond(one: Conditions, own: KernelSpec, sizes: Mapping[str, int]) -> dict[str, int] | None:
    """The sizes with one mode moved out of the range of the conditions: just above it, or where `own` does not take
    that, just below it. None where neither works for any mode. Modes of size 0 keep it.
    """
    for mode in (mode for mode in one.sizes if sizes[mode] > 0):
        step, (low, high) = max(1, own.divisible.get(mode, 1)), one.within(mode)
        for size in ((high // step + 1) * step, (low - 1) // step * step):
            other = {**sizes, mode: size}
            if size > 0 and own.takes(other) and not one.takes_sizes(other):
                return other
    return None
