"""Rules over a resolved spec, each with a stable code: what CuTeDSL would compile without a word, or die of."""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.lint.rule import Rule, Say
from cutegen.lint.table import RULES
from cutegen.planning.report import Report
from cutegen.planning.sound import is_sound

__all__ = ["RULES", "Rule", "check"]


def check(spec: KernelSpec, report: Report, *, advise: bool = True) -> None:
    """Report every rule that the kernel breaks. `spec` is as `planning.resolve` returned it, without errors.

    Without `advise` the diagnostics come without a `help`, which can take trying out other values.
    """
    for basic in (True, False):
        if not basic and not is_sound(spec):
            return  # the basic rules said why
        for rule in RULES:
            if rule.basic is basic and spec.op in rule.ops:
                rule.check(spec, Say(report, rule.code, rule.severity, advise))
