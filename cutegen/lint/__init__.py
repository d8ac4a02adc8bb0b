"""Rules over a resolved spec, each with a stable code: what CuTeDSL would compile without a word, or die of.

Rules and their pages stand with the families; this room asks those of a spec's family, and prints what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cutegen.language.diagnostics import Diagnostic
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
    for number, (one, own) in enumerate(kernels):
        _check(one, own, advise=advise)
        if performance and not own.failed and spec.family.is_finished(spec):
            advise_on(spec, number, make_plan(one), own)
    if len(kernels) > 1:
        report.diagnostics += _named(spec.family.kernel_names(spec), [own.diagnostics for _, own in kernels])
        for rule in rules_of_all(spec.operation):
            rule.check(spec, Say(report, rule.code, rule.severity, advise))


def _named(names: Sequence[str], said: Sequence[Sequence[Diagnostic]]) -> list[Diagnostic]:
    """What is said of several kernels, each thing once, with the names of those of which it is said if not of all."""
    of: dict[Diagnostic, list[str]] = {}
    for name, diagnostics in zip(names, said, strict=True):
        for diagnostic in dict.fromkeys(diagnostics):
            of.setdefault(diagnostic, []).append(name)
    return [d if len(of[d]) == len(names) else replace(d, notes=(*d.notes, f"in {', '.join(of[d])}")) for d in of]


def _check(spec: KernelSpec, report: Report, *, advise: bool) -> None:
    """Reports every rule that one kernel breaks, which is the spec's or that of one of its cases."""
    require_numbering(spec)
    rules = rules_of(spec.family)
    for basic in (True, False):
        if not basic and not spec.family.is_finished(spec):
            return  # the basic rules said why
        for rule in rules:
            if rule.basic is basic:
                rule.check(spec, Say(report, rule.code, rule.severity, advise))
