"""Help that works: a value is suggested only after planning and every rule have accepted it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from math import log2
from typing import Any, TypeVar

from tensor_layouts import Layout

from cutegen.language import edits
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Schedule
from cutegen.layouts import format_layout
from cutegen.lint.checking import check_rules
from cutegen.lint.rule import Candidate
from cutegen.planning import resolve
from cutegen.planning.report import Report

S = TypeVar("S", bound=Schedule)


def first_that_works(code: str, candidates: Iterable[Candidate]) -> str | None:
    """The text of the first candidate without any error; else of the first that breaks other rules than `code`."""
    second = None
    for text, spec in candidates:
        resolved, found = try_out(spec)
        errors = {d.code for d in found if d.severity == "error"}
        if code in {d.code for d in found}:
            continue
        if not errors:
            return text(resolved)
        if second is None and not any(c.startswith("CG22") for c in errors):
            second = text(resolved)
    return second


def try_out(spec: KernelSpec) -> tuple[KernelSpec, list[Diagnostic]]:
    """A candidate as planning completes it, and what is said about it, without advice on speed."""
    report = Report(spec.source)
    resolved = resolve(spec, report)
    if not report.failed:
        check_rules(resolved, report, advise=False)
    return resolved, report.diagnostics


def as_written(spec: KernelSpec[S]) -> KernelSpec[S]:
    """A resolved spec without what planning filled in, so that a changed value is inferred around anew."""
    schedule = edits.as_written(spec.schedule, ("schedule",), lambda path: is_written(spec, *path))
    tensors = (t if is_written(spec, "tensors", t.name, "align") else replace(t, align=None) for t in spec.tensors)
    return replace(spec, schedule=schedule, tensors=tuple(tensors))


def is_written(spec: KernelSpec, *path: str | int) -> bool:
    return path in spec.source.values


def changed(spec: KernelSpec[S], fields: Mapping[str, Any]) -> KernelSpec[S]:
    """The spec as it was written, with other values at dotted paths of the schedule, such as `mma.thread_layout`.

    None leaves a field to planning, and takes an entry out of a mapping.
    """
    written = as_written(spec)
    schedule = written.schedule
    for path, value in fields.items():
        schedule = edits.with_value(schedule, tuple(path.split(".")), value)
    return replace(written, schedule=schedule)


def written(text: str) -> Callable[[KernelSpec], str]:
    """The words for a candidate that do not depend on what is inferred."""
    return lambda _: text


def say_layout(name: str, layout: Layout) -> str:
    """Words that suggest a layout, in the quotes that YAML wants inside of { } and takes anywhere."""
    return f'write `{name}: "{format_layout(layout)}"`'


def nearest_first(widths: Iterable[int], given: int) -> list[int]:
    """Widths in bits as they are to be suggested instead of `given`: the nearest by factor first, of two the wider."""
    return sorted(widths, key=lambda width: (abs(log2(width / given)), -width))


def first_written(spec: KernelSpec, *paths: Path) -> Path:
    """The first of the places that was written in the spec; the last where none was."""
    return next((path for path in paths if is_written(spec, *path)), paths[-1])
