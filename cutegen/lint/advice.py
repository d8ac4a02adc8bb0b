"""Advice on speed: what costs it, told where a change is known that costs less.

One number orders all kernels: how much they spend beyond what would do, over all rules. A change is suggested only if
it lowers that number, and of several the one that lowers it most. So advice never leads in a circle, and a cost that
nothing lowers, such as that of a transpose, is left to `explain`.
"""

from __future__ import annotations

from cutegen.analysis import accesses
from cutegen.language.diagnostics import has_errors
from cutegen.language.model import KernelSpec
from cutegen.lint.performance import PERFORMANCE_RULES
from cutegen.lint.rule import Finding, PerformanceRule
from cutegen.lint.trial import try_out
from cutegen.planning import make_plan
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

Found = list[tuple[PerformanceRule, Finding]]
WORTH = 0.01  # of what would do: the least that a change has to save


def findings(spec: KernelSpec, plan: Plan) -> Found:
    """All that costs speed, whether or not something can be done about it."""
    made = accesses(plan)
    rules = [rule for rule in PERFORMANCE_RULES if spec.op in rule.ops]
    return [(rule, found) for rule in rules for found in rule.find(spec, plan, made)]


def excess(found: Found, code: str | None = None) -> float:
    """Of all findings, or of those of one code."""
    return sum(finding.excess for rule, finding in found if code in (None, rule.code))


def advise_on(spec: KernelSpec, plan: Plan, report: Report) -> None:
    """Report what costs speed and can be mended, with the change that mends most."""
    found = findings(spec, plan)
    for rule, finding in found:
        help = _best(found, rule.code, finding)
        if help is not None:
            report.error(
                rule.code, finding.message, *finding.path, notes=finding.notes, help=help, severity=rule.severity
            )


def _best(found: Found, code: str, finding: Finding) -> str | None:
    """The words for the candidate that costs least of all, and less of `code` too."""
    least, words = excess(found) - WORTH, None
    for text, other in finding.others:
        resolved, diagnostics = try_out(other)
        if has_errors(diagnostics):
            continue
        after = findings(resolved, make_plan(resolved))
        if excess(after) < least and excess(after, code) < excess(found, code):
            least, words = excess(after), text(resolved)
    return words
