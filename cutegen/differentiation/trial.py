"""Whether a spec that was derived is one that builds, read as a user's."""

from __future__ import annotations

from cutegen.language.diagnostics import Diagnostic, SpecError
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.writer import write_spec
from cutegen.lint import check
from cutegen.planning import resolve
from cutegen.planning.report import Report


def error_in(made: KernelSpec) -> Diagnostic | None:
    """The first error of a spec as it would be written; None where there is none."""
    return tried(made)[1]


def tried(made: KernelSpec) -> tuple[KernelSpec, Diagnostic | None]:
    """A spec as it would be read again, and its first error; one that cannot be read is as it was made."""
    try:
        spec = read_specs(write_spec(made))[0]
    except SpecError as refused:
        return made, next(d for d in refused.diagnostics if d.severity == "error")
    report = Report(spec.source)
    resolved = resolve(spec, report)
    if not report.failed:
        check(resolved, report, advise=False)
    return spec, next((d for d in report.diagnostics if d.severity == "error"), None)
