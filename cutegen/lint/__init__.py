"""Rules over a resolved spec, each with a stable code: what CuTeDSL would compile without a word, or die of."""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.lint.advice import advise_on
from cutegen.lint.performance import PERFORMANCE_RULES
from cutegen.lint.rule import PerformanceRule, Rule, Say
from cutegen.lint.table import RULES
from cutegen.lint.whole import require_numbering
from cutegen.planning import make_plan
from cutegen.planning.report import Report
from cutegen.planning.sound import is_finished

__all__ = ["ALL_RULES", "PERFORMANCE_RULES", "RULES", "PerformanceRule", "Rule", "check"]

ALL_RULES: tuple[Rule | PerformanceRule, ...] = (*RULES, *PERFORMANCE_RULES)


def check(spec: KernelSpec, report: Report, *, advise: bool = True, performance: bool = False) -> None:
    """Report every rule that the kernel breaks. `spec` is as `planning.resolve` returned it, without errors.

    Without `advise` the diagnostics come without a `help`, which can take trying out other values. With `performance`,
    and without an error in the report, advice on speed is given too. Raises ValueError for a spec whose layouts no text
    can hold.
    """
    require_numbering(spec)
    for basic in (True, False):
        if not basic and not is_finished(spec):
            return  # the basic rules said why
        for rule in RULES:
            if rule.basic is basic and spec.op in rule.ops:
                rule.check(spec, Say(report, rule.code, rule.severity, advise))
    if performance and not report.failed:
        advise_on(spec, make_plan(spec), report)
