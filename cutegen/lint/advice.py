"""Advice on speed: what costs it, told where a change is known that costs less.

One number orders all kernels: how much they spend beyond what would do, over all rules. A change is suggested only if
it lowers that number, and of several the one that lowers it most. So advice never leads in a circle, and a cost that
nothing lowers, such as that of a transpose, is left to `explain`.
"""

from __future__ import annotations

from dataclasses import dataclass

from cutegen.analysis import accesses
from cutegen.language.diagnostics import has_errors
from cutegen.language.model import KernelSpec
from cutegen.lint.asked import family_of
from cutegen.lint.rule import Finding, PerformanceRule
from cutegen.lint.trial import as_written, try_out
from cutegen.planning import make_plan
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report

WORTH = 0.01  # of what would do: the least that a change has to save


@dataclass(frozen=True)
class Standing:
    """All that costs a kernel speed, whether or not something can be done about it."""

    found: tuple[tuple[PerformanceRule, Finding], ...]
    unsaid: float  # excess that is no finding

    @property
    def excess(self) -> float:
        return self.unsaid + sum(finding.excess for _, finding in self.found)

    def of(self, code: str) -> float:
        return sum(finding.excess for rule, finding in self.found if rule.code == code)


def standing(spec: KernelSpec, plan: Plan) -> Standing:
    """All that costs speed in a kernel, given its resolved spec and its plan."""
    made = accesses(plan)
    rules = family_of(spec).performance_rules()
    found = tuple((rule, finding) for rule in rules for finding in rule.find(spec, plan, made))
    return Standing(found, family_of(spec).unreported_cost(plan, made))


def advise_on(spec: KernelSpec, number: int, plan: Plan, report: Report) -> None:
    """Reports what costs speed and can be mended, in the kernel of that number of a resolved spec and its plan.

    Each change is tried on the whole spec. Where nothing of the kernel's schedule was written, no change of it is
    suggested: it would take the place of all that is inferred, such as several cases.
    """
    now = standing(plan.spec, plan)
    for rule, finding in now.found:
        help = _best(spec, number, plan.spec, now, rule.code, finding)
        if help is not None:
            report.say(
                rule.code, finding.message, *finding.path, notes=finding.notes, help=help, severity=rule.severity
            )


def _best(spec: KernelSpec, number: int, kernel: KernelSpec, now: Standing, code: str, finding: Finding) -> str | None:
    """The words for the candidate that costs least of all and less of `code` too, if it lowers the cost by `WORTH`."""
    least, words = now.excess - WORTH, None
    written, count = _has_schedule(kernel), len(family_of(spec).kernels(spec, Report(spec.source)))
    for text, other in finding.others:
        if not written and other.schedule != as_written(kernel).schedule:
            continue
        resolved, diagnostics = try_out(family_of(spec).with_kernel(spec, number, other))
        if has_errors(diagnostics):
            continue
        kernels = family_of(resolved).kernels(resolved, Report(resolved.source))
        if len(kernels) != count:
            continue
        one = kernels[number][0]
        then = standing(one, make_plan(one))
        if then.excess < least and then.of(code) < now.of(code):
            least, words = then.excess, text(one)
    return words


def _has_schedule(kernel: KernelSpec) -> bool:
    """Whether anything of a kernel's schedule was written, apart from the conditions of a case."""
    return any(path[:1] == ("schedule",) and len(path) > 1 and path[1] != "for" for path in kernel.source.values)
