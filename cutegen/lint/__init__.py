"""Rules over a resolved spec, each with a stable code: what CuTeDSL would compile without a word, or die of.

Rules and their pages stand with the families; this room asks those of a spec's family, and prints what they say.
"""

from __future__ import annotations

from cutegen.language.model import KernelSpec
from cutegen.lint.advice import advise_on
from cutegen.lint.asked import family_of
from cutegen.lint.checking import check_rules
from cutegen.lint.rule import NoteRule, PerformanceRule, Rule
from cutegen.lint.rules import all_note_rules, all_performance_rules, all_rules, rules_of
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

    def advised(number: int, one: KernelSpec, own: Report) -> None:
        if performance and not own.failed and family_of(spec).is_finished(spec):
            advise_on(spec, number, make_plan(one), own)

    check_rules(spec, report, advise=advise, beside=advised)
