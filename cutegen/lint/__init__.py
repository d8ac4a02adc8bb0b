"""Rules over a resolved spec, each with a stable code: what CuTeDSL would compile without a word, or die of.

Rules and their pages stand with the families; this room asks those of a spec's family, and prints what they say.
"""

from __future__ import annotations

from cutegen.language.cases import Cases, is_for_the_rest
from cutegen.language.model import KernelSpec
from cutegen.lint.advice import advise_on
from cutegen.lint.numbering import require_numbering
from cutegen.lint.rule import NoteRule, PerformanceRule, Rule, Say
from cutegen.lint.rules import all_note_rules, all_performance_rules, all_rules, rules_of, rules_of_all
from cutegen.planning import make_plan
from cutegen.planning.report import Report

__all__ = [
    "NoteRule",
    "PerformanceRule",
    "Rule",
    "all_note_rules",
    "all_performance_rules",
    "all_rules",
    "check",
    "rules_of",
]


def check(spec: KernelSpec, report: Report, *, advise: bool = True, performance: bool = False) -> None:
    """Report every rule that the kernel breaks. `spec` is as `planning.resolve` returned it, without errors.

    Without `advise` the diagnostics come without a `help`, which can take trying out other values. With `performance`,
    and without an error in the report, advice on speed is given too. Raises ValueError for a spec whose layouts no text
    can hold.
    """
    kernels = spec.family.kernels(spec, report)
    conditions = [case.conditions for case in spec.schedule.cases] if isinstance(spec.schedule, Cases) else []
    for number, (one, own) in enumerate(kernels):
        narrow = bool(conditions) and is_for_the_rest(conditions, number)  # which is no fault of its accesses
        _check(one, own, advise=advise, performance=performance and not narrow)
        if own is not report:
            report.diagnostics += [d for d in own.diagnostics if d not in report.diagnostics]
    if len(kernels) > 1:
        for rule in rules_of_all(spec.operation):
            rule.check(spec, Say(report, rule.code, rule.severity, advise))


def _check(spec: KernelSpec, report: Report, *, advise: bool, performance: bool) -> None:
    """Reports every rule that one kernel breaks, which is the spec's or that of one of its cases."""
    require_numbering(spec)
    rules = rules_of(spec.family)
    for basic in (True, False):
        if not basic and not spec.family.is_finished(spec):
            return  # the basic rules said why
        for rule in rules:
            if rule.basic is basic:
                rule.check(spec, Say(report, rule.code, rule.severity, advise))
    if performance and not report.failed:
        advise_on(spec, make_plan(spec), report)
