"""Which family a schedule without an mma atom is given: the fastest that takes the spec, for each target."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.choosing.any_size import split
from cutegen.choosing.choice import Choice, having, tried
from cutegen.choosing.choices import Choices, Spec
from cutegen.choosing.compared import with_one_compared
from cutegen.choosing.sources import spread
from cutegen.family import family_of
from cutegen.language.cases import MAX_CASES, Case, Cases
from cutegen.language.edits import with_value
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets
from cutegen.registry import family_of_cases

ATOM: Path = ("mma", "atom")


def resolve(spec: Spec, report: Report) -> KernelSpec:
    """The spec with one schedule of its options, or a case for each target and for calls of any size, filled in."""
    known = targeted(spec)
    choices = by_target(known)
    if not spec.tune:
        known, choices = split(known, choices)
    elif len(choices) > 1:  # what `tune` has values for is one schedule
        choices = [replace(choices[-1], targets=known.targets)]
    choices = with_one_compared(known, choices)
    whole: KernelSpec = replace(known, targets=spec.targets)
    if len(choices) == 1 and not choices[0].conditions.by_cost:
        report.infer(choices[0].why, "schedule", *ATOM)
        chosen = replace(whole, schedule=choices[0].schedule)
        return family_of(chosen).resolve(chosen, report)
    family_of_cases()
    source = spread(known.source, [("schedule",)] * len(choices))
    report.source = source
    what = "the fastest atom of each target, and for each call a kernel that fits its sizes and addresses"
    compared = any(choice.conditions.by_cost for choice in choices)
    uncompared = any(not choice.conditions.by_cost for choice in choices)
    report.infer(
        f"{what}; of those that are compared, the one with the lowest estimate" if compared else what, "schedule"
    )
    for number, choice in enumerate(choices):
        report.infer(choice.why, "schedule", number, *ATOM)
    for path in known.source.values.keys() - spec.source.values.keys():
        what = "any address" if path[0] == "tensors" else "any size"
        rest = "; a promised multiple makes the case for the rest unnecessary" if uncompared else ""
        report.infer(f"{what} is taken{rest}", *path)
    cases = Cases(tuple(Case(choice.conditions, choice.schedule) for choice in choices))
    chosen = replace(whole, schedule=cases, source=source)
    return family_of(chosen).resolve(chosen, report)


def chosen_cases(spec: KernelSpec[Cases], ones: Sequence[KernelSpec], report: Report) -> KernelSpec[Cases]:
    """The spec with a family for each of its cases, `ones`, that names no mma atom: of one that has several by its
    targets each is a case of its own.
    """
    every = [by_target(one) if isinstance(one.schedule, Choices) else None for one in ones]
    if sum(len(choices or (None,)) for choices in every) > MAX_CASES:
        every = [choices and [replace(choices[-1], targets=())] for choices in every]
    cases: list[Case] = []
    origins: list[Path] = []
    for number, (case, choices) in enumerate(zip(spec.schedule.cases, every, strict=True)):
        for choice in choices or ():
            report.infer(choice.why, "schedule", len(cases), *ATOM)
            own = replace(case.conditions, targets=choice.targets) if len(choices or ()) > 1 else case.conditions
            cases.append(Case(own, choice.schedule))
        if choices is None:
            cases.append(case)
        origins += [("schedule", number)] * len(choices or (None,))
    if all(choices is None for choices in every):
        return spec
    report.source = spread(spec.source, origins)
    return replace(spec, schedule=Cases(tuple(cases)), source=report.source)


def targeted(spec: Spec) -> Spec:
    """The spec with targets: those that its options are for, where all are for the same ones only, or the usual."""
    only = {option.family.only_targets for option in spec.schedule.options}
    if not spec.targets and len(only) == 1 and (targets := only.pop()):
        return replace(spec, targets=targets)
    return infer_targets(spec, Report(spec.source))


def by_target(spec: Spec) -> list[Choice]:
    """The fastest schedule that each target takes, once for all targets that have the same; the fastest first."""
    found: list[Choice] = []
    for target in spec.targets:
        choice = fastest(spec, target)
        alike = next((one for one in found if one.schedule == choice.schedule), None)
        if alike is None:
            found.append(choice)
        else:
            found[found.index(alike)] = replace(alike, targets=(*alike.targets, target))
    order = [option.family.name for option in spec.schedule.options]
    found.sort(key=lambda choice: order.index(choice.schedule.family.name))
    return [choice if len(found) == 1 else choice.told_by_target() for choice in found]


def fastest(spec: Spec, target: str) -> Choice:
    """The fastest schedule that a target takes; the last one, which lint then says what is wrong with, if it takes
    none.
    """
    refused = list(spec.schedule.unmeant)
    for option in spec.schedule.options:
        family = option.family
        if family.only_targets and target not in family.only_targets:
            continue
        schedule = with_value(option, ATOM, family.atoms[0])
        error = tried(having(spec, schedule, (target,)))[1]
        if error is None:
            why = ["the fastest for the types and the targets", *[family.caution] * bool(family.caution), *refused]
            return Choice(schedule, (target,), "; ".join(why))
        refused.append(f"not {family.atoms[0]}: {error}")
    last = spec.schedule.options[-1]
    return Choice(with_value(last, ATOM, last.family.atoms[0]), (target,), "; ".join(refused))
