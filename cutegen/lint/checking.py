"""Asks the rules of a spec's family about each of its kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cutegen.language.asked import op_of
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.model import KernelSpec
from cutegen.lint.asked import family_of
from cutegen.lint.numbering import require_numbering
from cutegen.lint.rule import Say
from cutegen.lint.rules import rules_of
from cutegen.planning.report import Report

Beside = Callable[[int, KernelSpec, Report], None]  # the number of a kernel, the kernel, and what is said of it


def check_rules(spec: KernelSpec, report: Report, *, advise: bool, beside: Beside = lambda *_: None) -> None:
    """Reports every rule that the kernel breaks, as `cutegen.lint.check` does; `beside` may say more of each kernel."""
    family = family_of(spec)
    kernels = family.kernels(spec, report)
    for number, (one, own) in enumerate(kernels):
        _check(one, own, advise=advise)
        beside(number, one, own)
    if len(kernels) > 1:
        report.diagnostics += _named(family.kernel_names(spec), [own.diagnostics for _, own in kernels])
        for rule in family.common_rules(op_of(spec)):
            rule.check(spec, Say(report, rule.code, rule.severity, advise))


def _named(names: Sequence[str], said: Sequence[Sequence[Diagnostic]]) -> list[Diagnostic]:
    """The diagnostics of several kernels, each once; one that is not about all of them names its kernels in a note."""
    of: dict[Diagnostic, list[str]] = {}
    for name, diagnostics in zip(names, said, strict=True):
        for diagnostic in dict.fromkeys(diagnostics):
            of.setdefault(diagnostic, []).append(name)
    return [d if len(of[d]) == len(names) else replace(d, notes=(*d.notes, f"in {', '.join(of[d])}")) for d in of]


def _check(spec: KernelSpec, report: Report, *, advise: bool) -> None:
    """Reports every rule that one kernel breaks, which is the spec's or that of one of its cases."""
    require_numbering(spec)
    rules = rules_of(family_of(spec))
    for basic in (True, False):
        if not basic and not family_of(spec).is_finished(spec):
            return  # the basic rules said why
        for rule in rules:
            if rule.basic is basic:
                rule.check(spec, Say(report, rule.code, rule.severity, advise))
