"""Notes on a kernel that is right: what it asks of its callers that nobody wrote, each with the line that lifts it and
its price, and what its family finds worth knowing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from cutegen.analysis import accesses
from cutegen.language.asked import op_of
from cutegen.language.cases import Cases
from cutegen.language.diagnostics import Diagnostic, has_errors
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec, Tensor
from cutegen.lint.asked import family_of
from cutegen.lint.rule import Say
from cutegen.lint.rules import all_note_rules
from cutegen.lint.trial import as_written, changed, is_written, try_out
from cutegen.planning import make_plan
from cutegen.planning.report import Report

SIZES, ADDRESSES, MAJORNESS = "CG225", "CG226", "CG227"
CONTRACT = (SIZES, ADDRESSES, MAJORNESS)


def notes(spec: KernelSpec, inferred: Mapping[Path, str]) -> list[Diagnostic]:
    """Every note on a kernel. `spec` is resolved, without errors; `inferred` is why planning filled in what it did."""
    found = [*narrowed(spec, inferred)]
    for one, _ in family_of(spec).kernels(spec, Report(spec.source, inferred=dict(inferred))):
        report = Report(one.source)
        for rule in family_of(one).note_rules():
            rule.check(one, Say(report, rule.code, rule.severity, advise=True))
        found += report.diagnostics
    return found


def note_codes() -> tuple[str, ...]:
    """The codes of all notes."""
    return (*CONTRACT, *(rule.code for rule in all_note_rules()))


def narrowed(spec: KernelSpec, inferred: Mapping[Path, str]) -> Iterator[Diagnostic]:
    """A note for each mode whose sizes, one for the tensors whose addresses, and one for those whose strides were
    narrowed by inference.
    """
    for mode, step in spec.divisible.items():
        why = inferred.get(("divisible", mode))
        if why is not None and step > 1:
            yield spec.source.diagnostic(
                SIZES,
                f"{mode} must be a multiple of {step} (inferred)",
                *_place(spec, mode),
                severity="note",
                notes=(why,),
                help=_any_size(spec, mode),
            )
    aligned = [t for t in spec.tensors if ("tensors", t.name, "align") in inferred and _align(t) > t.dtype.bytes]
    if aligned:
        names = ", ".join(t.name for t in aligned)
        steps = " or ".join(str(step) for step in sorted({_align(t) for t in aligned}))
        yield spec.source.diagnostic(
            ADDRESSES,
            f"{names}: addresses and strides must be multiples of {steps} bytes (inferred)",
            *("tensors", aligned[0].name),
            severity="note",
            notes=tuple(_reasons(aligned, inferred)),
            help=_any_address(spec, aligned),
        )
    turned = [t for t in spec.tensors if ("tensors", t.name, "major") in inferred and t.major != t.modes[-1]]
    if turned:
        first, major, last = turned[0], turned[0].major, turned[0].modes[-1]
        other = f"reduce along {last}" if op_of(spec).has_reductions else f"`major: {last}`"
        yield spec.source.diagnostic(
            MAJORNESS,
            f"{', '.join(t.name for t in turned)}: must be contiguous along {major} (inferred)",
            *("tensors", first.name),
            severity="note",
            notes=(inferred["tensors", first.name, "major"], f"torch's defaults are contiguous along {last}"),
            help=f"write `major: {major}` to keep it, or {other}",
        )


def _reasons(aligned: list[Tensor], inferred: Mapping[Path, str]) -> Iterator[str]:
    """Why tensors are aligned as they are: one reason, or several with the tensors of each."""
    reasons: dict[str, list[str]] = {}
    for tensor in aligned:
        reasons.setdefault(inferred["tensors", tensor.name, "align"], []).append(tensor.name)
    for why, names in reasons.items():
        yield why if len(reasons) == 1 else f"{', '.join(names)}: {why}"


def _place(spec: KernelSpec, mode: str) -> Path:
    """A place of the spec that names a mode: in the tensor that is contiguous along it, where there is one."""
    having = [t for t in (spec.lead, *spec.tensors) if mode in t.shape]
    tensor = next((t for t in having if t.major == mode), having[0])
    return ("tensors", tensor.name, "shape", tensor.shape.index(mode))


def _any_size(spec: KernelSpec, mode: str) -> str | None:
    """The line with which any size of a mode is taken, and what it costs; None where none was found."""
    if isinstance(spec.schedule, Cases):
        return None  # which line of which case it takes nobody has tried
    promised = {m: n for m, n in spec.divisible.items() if is_written(spec, "divisible", m)}
    values = {**spec.source.values, ("divisible", mode): spec.source.at("kernel")}
    line = f"write `divisible: {{{', '.join(f'{m}: {n}' for m, n in {**promised, mode: 1}.items())}}}`"

    def free(other: KernelSpec) -> KernelSpec:
        return replace(other, divisible={**promised, mode: 1}, source=replace(spec.source, values=values))

    fields = sorted(_written_fields(spec), key=lambda field: field != "copy.fallback")  # which takes no width away
    candidates = [] if "copy.fallback" in fields else [(line, free(as_written(spec)))]
    for field in fields:
        changed_spec = changed(spec, {field: None})
        candidates.append((f"leave out `schedule.{field}`", replace(changed_spec, divisible=promised)))
        candidates.append((f"leave out `schedule.{field}` and {line}", free(changed_spec)))
    for text, candidate in candidates:
        resolved, found = try_out(candidate)
        if not has_errors(found) and resolved.divisible.get(mode, 1) == 1:
            return f"{text} for any {mode}{_price(spec, resolved)}"
    return None


def _written_fields(spec: KernelSpec) -> list[str]:
    """The fields of the schedule that were written and hold no others, by dotted path."""
    paths = [path for path in spec.source.values if path[:1] == ("schedule",) and len(path) > 1]
    ends = [path for path in paths if not any(path == other[: len(path)] != other for other in paths)]
    return [".".join(map(str, path[1:])) for path in ends]


def _any_address(spec: KernelSpec, tensors: list[Tensor]) -> str | None:
    """The lines with which elements may have any alignment, and what they cost; None where they are refused."""
    if isinstance(spec.schedule, Cases):
        return None
    names = {t.name for t in tensors}
    free = [replace(t, align=t.dtype.bytes) if t.name in names else t for t in spec.tensors]
    promised = {m: n for m, n in spec.divisible.items() if is_written(spec, "divisible", m)}
    resolved, found = try_out(replace(as_written(spec), tensors=tuple(free), divisible=promised))
    if has_errors(found):
        return None
    by_width: dict[int, list[str]] = {}
    for t in tensors:
        by_width.setdefault(t.dtype.bytes, []).append(t.name)
    lines = [f"`align: {width}` for {', '.join(group)}" for width, group in by_width.items()]
    return f"write {' and '.join(lines)} to take any{_price(spec, resolved)}"


def _price(spec: KernelSpec, other: KernelSpec) -> str:
    """How many bytes less the accesses of another kernel to global memory move at a time, in words."""
    then = {access.name: access.bytes for access in accesses(make_plan(other))}
    narrower: dict[tuple[int, int], dict[str, None]] = {}
    for access in accesses(make_plan(spec)):
        if access.space == "global" and (bytes_ := then.get(access.name, access.bytes)) < access.bytes:
            narrower.setdefault((bytes_, access.bytes), {})[access.tensor] = None
    costs = [f"{new} bytes of {', '.join(names)}, not {old}" for (new, old), names in narrower.items()]
    return f"; one access then moves {'; '.join(costs)}" if costs else ""


def _align(tensor: Tensor) -> int:
    assert tensor.align is not None
    return tensor.align
