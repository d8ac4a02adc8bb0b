"""Inference over all cases: each as its family infers it, with one set of promises that the host checks for all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import lcm

from cutegen.cases.calls import calls, of_group, taken
from cutegen.cases.splitting import Spec, inside, of_case
from cutegen.choosing.compared import compared_cases
from cutegen.choosing.resolving import chosen_cases
from cutegen.family import family_of
from cutegen.language.cases import Case, Cases
from cutegen.language.model import KernelSpec, Source
from cutegen.planning.report import Report
from cutegen.planning.targets import infer_targets
from cutegen.registry import families

FAR = 2**31 - 2**22  # the largest size that is asked about: larger ones are refused of any kernel
ROUNDS = 4  # of inference: what one case needs of callers is a promise to all, which may let others need more


def resolve(spec: Spec, report: Report) -> Spec:
    """The spec with every field of every case filled in.

    What a case needs of its callers beyond its own conditions, a size's divisor or an alignment, the host asks of all
    calls, since which case is taken is not what a caller should have to know.
    """
    spec = _known_targets(infer_targets(_only_targets(spec, report), report)) if not spec.targets else spec
    spec = chosen_cases(spec, [of_case(spec, number) for number in range(len(spec.schedule.cases))], report)
    spec = compared_cases(spec, [of_case(spec, number) for number in range(len(spec.schedule.cases))], report)
    check_cases(spec, report)
    if report.failed:
        return spec
    promised = spec.divisible
    for _ in range(ROUNDS):
        own = [of_case(spec, number) for number in range(len(spec.schedule.cases))]
        reports = [Report(one.source) for one in own]
        found = [family_of(one).resolve(one, told) for one, told in zip(own, reports, strict=True)]
        _tell(report, reports)
        if report.failed:
            return spec
        more = _promising(spec, own, found, reports, report)
        if more == spec:
            break
        spec = more
    cases = [Case(case.conditions, one.schedule) for case, one in zip(spec.schedule.cases, found, strict=True)]
    resolved = replace(_anywhere(spec, found, reports, report), schedule=Cases(tuple(cases)))
    check_cases(resolved, report, promised)
    check_costs(resolved, report)
    if not report.failed:
        check_largest(resolved, report)
    return resolved


def _only_targets(spec: Spec, report: Report) -> Spec:
    """The spec for the targets of its cases' family, where all are of one that has no others; else as it is."""
    families = {family_of(of_case(spec, number)).only_targets for number in range(len(spec.schedule.cases))}
    if len(families) != 1 or not (targets := families.pop()):
        return spec
    report.infer("no case is for others", "targets")
    return replace(spec, targets=targets)


def _known_targets(spec: Spec) -> Spec:
    """The spec, whose targets are inferred, with cases for some of these: what is written for others is left out."""
    cases = []
    for case in spec.schedule.cases:
        targets = tuple(target for target in case.conditions.targets if target in spec.targets)
        conditions = replace(case.conditions, targets=targets) if targets else case.conditions
        cases.append(replace(case, conditions=conditions))
    return replace(spec, schedule=Cases(tuple(cases)))


def check_cases(spec: Spec, report: Report, promised: Mapping[str, int] | None = None) -> None:
    """Reports sizes and targets that no case is for, and cases that nothing is left for. `promised` has the divisors of
    sizes that the spec states itself; the other divisors are required by some case.
    """
    conditions = [case.conditions for case in spec.schedule.cases]
    named = {mode for one in conditions for mode in one.sizes}
    more = {m: n for m, n in spec.divisible.items() if promised is not None and promised.get(m, 1) % n}
    asked = {mode: step for mode, step in more.items() if mode in named}
    met: set[int] = set()
    least = min(t.align or t.dtype.bytes for t in spec.tensors)
    met_alone: set[int] = set()
    for call in calls(conditions, spec.targets, spec.static, spec.divisible, least):
        met_alone |= {i for i, one in enumerate(conditions) if taken([one], call) is not None}
        number = taken(conditions, call)
        if number is None:
            help = "add a last case without `for`"
            report.say("CG295", f"no case matches {call}", "schedule", help=help)
            return
        met |= {i for i in of_group(conditions, number) if conditions[i].takes_target(call.target)}
    for number, one in enumerate(conditions):
        if number in met:
            continue
        where = ("schedule", number) if one.always else ("schedule", number, "for")
        why, help = "earlier cases match all of its calls", "remove it, or move it up"
        if one.targets and not set(one.targets) & set(spec.targets):
            why, help = f"the kernel is for {', '.join(spec.targets)}", "remove it"
        elif number not in met_alone:
            promised = {**spec.divisible, **spec.static}
            known = [f"{m} {'==' if m in spec.static else '%'} {n}" for m, n in promised.items() if m in one.sizes]
            promises = f", as {' and '.join(known)} is promised" if known else ""
            why = f"no size satisfies it{promises}"
            help = "remove it, or change it"
        elif asked:
            needed = " and ".join(f"{mode} % {step} == 0" for mode, step in asked.items())
            why = f"{why}: some case demands {needed} of all calls"
            free = ", ".join(f"{mode}: 1" for mode in asked)
            help = f"write `divisible: {{{free}}}`, which narrows accesses where possible, or remove it"
        report.say("CG296", f"the case for {one} is never taken", *where, notes=(why,), help=help)


def check_costs(spec: Spec, report: Report) -> None:
    """Reports cases by their cost without an estimate, with targets of no kernel, or with other conditions besides."""
    compared = [(i, case.conditions) for i, case in enumerate(spec.schedule.cases) if case.conditions.by_cost]
    for number, one in compared:
        number_of_first, first = compared[0]
        family = family_of(of_case(spec, number))
        where = ("schedule", number, "for", "cost")
        if not family.estimated:
            estimated = ", ".join(atom for other in families() if other.estimated for atom in other.atoms)
            notes = (f"there are estimates of kernels with the mma atom {estimated}",)
            help = f"write `mma: {{atom: {estimated}}}`, or a condition on sizes instead of the cost"
            report.say("CG301", "the case's kernel has no estimate of its time", *where, notes=notes, help=help)
        elif family.only_targets and (others := set(of_case(spec, number).targets) - set(family.only_targets)):
            told, only = ", ".join(sorted(others)), ", ".join(family.only_targets)
            message = f"the case is for {told} as well, and its kernel for {only} alone"
            help = f"write `target: {family.only_targets[0]}` beside the cost, and a case for the rest"
            report.say("CG301", message, *where, help=help)
        elif one.align > 1:
            help = "write a separate case for these alignments before all that are compared by cost"
            report.say("CG301", "a case compared by cost must take calls of any alignment", *where, help=help)
        elif {m: set(several) for m, several in one.sizes.items()} != {m: set(s) for m, s in first.sizes.items()}:
            message = f"this case by cost and case {number_of_first + 1} have different conditions on sizes"
            help = "write the same sizes in all cases by their cost, or a case of its own for these before them"
            report.say("CG301", message, *where, help=help)
    numbers = [i for i, _ in compared]
    for number, case in enumerate(spec.schedule.cases):
        if not numbers or number in numbers or not numbers[0] < number < numbers[-1]:
            continue  # it stands before or behind all of them
        if any(case.conditions.takes_target(target) for target in compared[0][1].targets or spec.targets):
            message = f"the case for {case.conditions} is among the cases compared by cost"
            help = f"move it before case {numbers[0] + 1}, or behind case {numbers[-1] + 1}"
            report.say("CG301", message, "schedule", number, help=help)


def check_largest(spec: Spec, report: Report) -> None:
    """Reports cases that are for sizes which their own schedule does not take."""
    for number, case in enumerate(spec.schedule.cases):
        one = of_case(spec, number)
        if not family_of(one).is_finished(one):
            continue  # the rules say why
        for mode in (m for m in one.modes if m not in one.static):
            high, step = one.sizes_of(mode)[1], one.divisible.get(mode, 1)
            sizes = {m: one.static.get(m, max(1, one.sizes_of(m)[0])) for m in one.modes}
            refused = family_of(one).refused(one, {**sizes, mode: min(high, FAR) // step * step})
            if refused is not None:
                help = f"add a bound on {mode} to its `for`, and a case for the rest"
                message = f"the case for {case.conditions} matches sizes that its kernel rejects"
                report.say("CG297", message, "schedule", number, notes=(refused,), help=help)
                break


def _tell(report: Report, reports: Sequence[Report]) -> None:
    """Adds to a report what was said of each case, and why what was inferred is so."""
    for number, told in enumerate(reports):
        report.diagnostics += [d for d in told.diagnostics if d not in report.diagnostics]
        for path, why in told.inferred.items():
            where = inside(path, number)
            if where != path or path not in report.inferred:
                report.inferred[where] = why


def _promising(
    spec: Spec, own: Sequence[KernelSpec], found: Sequence[KernelSpec], reports: Sequence[Report], report: Report
) -> Spec:
    """The spec with what its cases need of all callers, as if it were written: majorness, alignment and divisors. The
    report has for each alignment the reason of the case that needs it.
    """
    tensors, values = [], dict(spec.source.values)
    for tensor in spec.tensors:
        major, align = tensor.major or found[0].tensor(tensor.name).major, tensor.align
        for number, (given, resolved) in enumerate(zip(own, found, strict=True), 1):
            before, after = given.tensor(tensor.name).align or tensor.dtype.bytes, resolved.tensor(tensor.name).align
            if after is not None and after > max(before, align or 1):
                align = after
                where = ("tensors", tensor.name, "align")
                values[where] = spec.source.at("tensors", tensor.name)
                if (why := reports[number - 1].inferred.get(where)) is not None:
                    report.inferred[where] = f"{why}, in case {number}"
        tensors.append(replace(tensor, major=major, align=align, dense=found[0].tensor(tensor.name).dense))
    divisible = dict(spec.divisible)
    for given, resolved in zip(own, found, strict=True):
        for mode, step in resolved.divisible.items():
            if mode not in given.static and given.divisible.get(mode, 1) % step:
                divisible[mode] = lcm(divisible.get(mode, 1), step)
                values["divisible", mode] = spec.source.at("schedule")
    source = Source(spec.source.path, spec.source.keys, values)
    return replace(spec, tensors=tuple(tensors), divisible=divisible, source=source)


def _anywhere(spec: Spec, found: Sequence[KernelSpec], reports: Sequence[Report], report: Report) -> Spec:
    """The spec with element alignment for tensors whose alignment was not written, or of which a case takes any: a call
    copies a misaligned tensor before its case is known.
    """
    tensors = []
    for tensor in spec.tensors:
        where = ("tensors", tensor.name, "align")
        least, number = min((one.tensor(tensor.name).align or 1, number) for number, one in enumerate(found))
        if tensor.align is None:
            tensor = replace(tensor, align=tensor.dtype.bytes)
            report.infer("elements may have any alignment", *where)
        elif least < tensor.align:
            tensor = replace(tensor, align=least)
            if (why := reports[number].inferred.get(where)) is not None:
                report.inferred[where] = why
        tensors.append(tensor)
    return replace(spec, tensors=tuple(tensors))
