"""A case by its cost that says nothing but what multiplies, alone: it stands for all schedules that are compared."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.choosing.choice import Choice, having, tried
from cutegen.choosing.sources import spread, spread_paths
from cutegen.choosing.taken import taken_for_some_sizes
from cutegen.family import family_of
from cutegen.language.cases import MAX_CASES, Case, Cases
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Schedule
from cutegen.planning.report import Report


def compared_cases(spec: KernelSpec[Cases], ones: Sequence[KernelSpec], report: Report) -> KernelSpec[Cases]:
    """The spec with a case for each schedule that its only case by cost stands for; else as it is. `ones` are its cases
    as specs of their own.

    Schedules that the spec's types or statements do not allow are left out.
    """
    numbers = [number for number, case in enumerate(spec.schedule.cases) if case.conditions.by_cost]
    if len(numbers) != 1 or not _says_nothing(ones[numbers[0]].schedule):
        return spec
    (number,) = numbers
    found = schedules_of(ones[number])
    if not found:
        return spec
    if len(found) + len(ones) - 1 > MAX_CASES:
        message = (
            f"the case stands for {len(found)} schedules, and with the others there would be more than {MAX_CASES}"
        )
        help = f"write at most {MAX_CASES - len(found)} other cases, or the schedules that are to be compared"
        report.say("CG301", message, "schedule", number, "for", "cost", help=help)
        return spec
    cases, conditions = list(spec.schedule.cases), spec.schedule.cases[number].conditions
    if len(found) == 1:
        conditions = replace(conditions, by_cost=False)
    cases[number : number + 1] = [Case(conditions, schedule) for schedule in found]
    written = list(range(len(ones)))
    written[number : number + 1] = [number] * len(found)
    origins: list[Path] = [("schedule", one) for one in written]
    report.source, report.inferred = spread(spec.source, origins), spread_paths(report.inferred, origins)
    for place in range(number, number + len(found)):
        report.infer("one of the schedules compared for a case by cost without other keys", "schedule", place)
    return replace(spec, schedule=Cases(tuple(cases)), source=report.source)


def with_one_compared(spec: KernelSpec, choices: Sequence[Choice]) -> list[Choice]:
    """The choices, the first suitable one turned into a case by cost that stands for all schedules compared.

    That case takes calls of any alignment. Without conditions on sizes it takes every call, so that later choices for
    its targets are dropped. A choice for which a single schedule is best gets that schedule instead.
    """
    found: list[Choice] = []
    for place, choice in enumerate(choices):
        compared = _by_cost(spec, choice, len(choices) - 1)
        found.append(compared)
        if compared.conditions.by_cost:
            every = not compared.conditions.sizes
            return found + [one for one in choices[place + 1 :] if not every or one.targets != choice.targets]
    return found


def _by_cost(spec: KernelSpec, choice: Choice, others: int) -> Choice:
    """The choice as a case that stands for all schedules which are compared, where a spec says nothing of its schedule,
    its family compares several, and with so many other cases there is room for these; else as it is. Where they are but
    one, the choice has that.
    """
    nothing = not any(path[:1] == ("schedule",) for path in spec.source.values) and _says_nothing(choice.schedule)
    if spec.tune or not nothing:
        return choice
    steps = {mode: choice.conditions.divisor(mode) for mode in choice.conditions.sizes}
    one = having(replace(spec, divisible={**spec.divisible, **steps}), choice.schedule, choice.targets)
    found = schedules_of(one)
    if len(found) == 1:
        return replace(choice, schedule=found[0], why=f"{choice.why}; with the lowest estimate for these sizes")
    if not found or len(found) > MAX_CASES - others:
        return choice
    return replace(choice, conditions=replace(choice.conditions, align=1, by_cost=True))


def schedules_of(one: KernelSpec) -> list[Schedule]:
    """The schedules that are compared for a spec: those that its types and statements allow, and calls take."""
    schedules = list(family_of(one).compared(one))
    each = [tried(having(one, schedule, one.targets)) for schedule in schedules]
    allowed = [(schedule, spec) for schedule, (spec, error) in zip(schedules, each, strict=True) if error is None]
    return taken_for_some_sizes([spec for _, spec in allowed], [schedule for schedule, _ in allowed])


def _says_nothing(schedule: Schedule) -> bool:
    """Whether a schedule has no words but that on what multiplies."""
    written = schedule.as_data()
    return set(written) <= {"mma"} and set(written.get("mma", ())) <= {"atom"}
