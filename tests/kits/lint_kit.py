"""Shared code for tests of rules: the diagnostics of a text or a spec, and one case of a rule."""

from __future__ import annotations

from cutegen.codegen import generate
from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.lint import all_performance_rules, all_rules, check
from cutegen.planning import resolve
from cutegen.planning.report import Report

ADVICE = {rule.code for rule in all_performance_rules()}


def found_in(text: str) -> tuple[Diagnostic, ...]:
    try:
        return generate(text, "x.yaml").warnings
    except SpecError as error:
        return error.diagnostics


def advice(text: str) -> list[Diagnostic]:
    """The advice on speed for a correct kernel."""
    reports = [resolved(spec, performance=True)[1] for spec in read_specs(text, "x.yaml")]
    return [d for report in reports for d in report.diagnostics if d.code in ADVICE]


def resolved(spec: KernelSpec, *, performance: bool = False) -> tuple[KernelSpec, Report]:
    """A resolved spec and its report, as `generate` has them, which takes longer since it prints the module.

    Raises SpecError as `generate` does.
    """
    report = Report(spec.source)
    found = resolve(spec, report)
    if not report.failed:
        check(found, report, performance=performance)
    if report.failed:
        raise SpecError(report.diagnostics)
    return found, report


def checked(spec: KernelSpec) -> list[Diagnostic]:
    report = Report(spec.source)
    check(resolve(spec, report), report)
    return report.diagnostics


def hit_of_case(base: str, changes: dict[str, str], code: str, words: str, before: str, after: str) -> Diagnostic:
    """The diagnostic with `code` of a changed base spec, at its exact place, marked by `«` in the replacement.
    Replacing `before` by `after` takes it away.
    """
    text = base
    for old, new in changes.items():
        assert text.count(old) == 1, (old, "the case must say what it changes")
        text = text.replace(old, new)
    at, text = text.find("«"), text.replace("«", "")
    found = found_in(text)
    hits = [d for d in found if d.code == code]
    assert hits, [(d.code, d.message, d.span) for d in found]
    hit = hits[0]
    assert words in " ".join([hit.message, *hit.notes]), hit
    line, column = text[:at].count("\n") + 1, at - text.rfind("\n", 0, at)
    assert (hit.span.line, hit.span.column, hit.path) == (line, column, "x.yaml"), hit
    rule = next((r for r in all_rules() if r.code == code), None)
    assert hit.severity == (rule.severity if rule else "error")
    assert hit.help is not None
    assert text.count(before) == 1, before
    assert found_in(text.replace(before, after)) == (), "the help must work"
    return hit
