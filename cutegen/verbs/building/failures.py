"""Turns a failed compile into a diagnostic of the spec, at the key that the generated line comes from."""

from __future__ import annotations

from collections.abc import Mapping

from cutegen.codegen import Region
from cutegen.compiling import Failed, Outcome
from cutegen.language.diagnostics import Diagnostic
from cutegen.language.kinds import Path
from cutegen.project.paths import quoted, shown
from cutegen.project.sources import Unit

_TRACE_LINES = 6
_LOG_LINES = 8


def compile_failures(unit: Unit, outcomes: Mapping[str, Outcome]) -> list[Diagnostic]:
    """Makes an error, `CG402`, for each way in which a unit failed to compile; it names the targets that failed so."""
    ways: dict[tuple[object, ...], list[str]] = {}
    for target, outcome in outcomes.items():
        if isinstance(outcome, Failed):
            ways.setdefault((outcome.kind, outcome.message, outcome.line), []).append(target)
    return [_diagnostic(unit, targets, outcomes[targets[0]]) for targets in ways.values()]


def _diagnostic(unit: Unit, targets: list[str], failed: Outcome) -> Diagnostic:
    """The error of one way to fail, at the place of the spec that the generated line is from."""
    assert isinstance(failed, Failed)
    region = _region(unit, failed)
    notes, help = [], "`cutegen build --no-compile` writes the module, to look at the line"
    if failed.line is not None:
        notes.append(f"{shown(unit.path)}:{failed.line}: {failed.text.strip()}")
    place = _place(unit, region, targets)
    if region is not None:
        notes.append(f"the line is from `{region.key}`: {region.name}")
        if region.path not in unit.module.spec.source.keys:
            reasons = inferred_below(unit, region.path)
            notes.append(f"`{region.key}` was left out{', and inferred' if reasons else ''}")
            notes += reasons
            help = f"`cutegen explain {quoted(unit.source.file)} --kernel {unit.kernel}` writes out what was inferred"
    notes += [f"called from line {line}: {text.strip()}" for line, text in failed.trace[-_TRACE_LINES:-1]]
    notes += failed.log.strip().splitlines()[-_LOG_LINES:]
    message = f"{unit.kernel} does not compile for {', '.join(targets)}: {failed.message}"
    return unit.diagnostic("CG402", message, *place, key=_has_parts(unit, place), notes=tuple(notes), help=help)


def _region(unit: Unit, failed: Failed) -> Region | None:
    """The region of the line that failed; in a function that several keys share, that of the call, which says whose."""
    found = None
    for line in [failed.line, *(number for number, _ in reversed(failed.trace))]:
        region = None if line is None else unit.module.region_at(line)
        below = region is not None and found is not None and region.path[: len(found.path)] == found.path
        if region is not None and (found is None or (below and len(region.path) > len(found.path))):
            found = region
    return found


def _place(unit: Unit, region: Region | None, targets: list[str]) -> Path:
    """The key in the spec of a region of the module, or the nearest one around it that was written.

    Without a region it is the target, or the kernel.
    """
    written = unit.module.spec.source.keys
    if region is not None and region.path[0] != "targets":
        for depth in range(len(region.path), 0, -1):
            if region.path[:depth] in written:
                return region.path[:depth]
    elif ("targets",) in written:
        return ("targets", unit.module.spec.targets.index(targets[0]))
    return ("kernel",)


def _has_parts(unit: Unit, path: Path) -> bool:
    """Whether the value at a place is a mapping, which its key stands for better than its first line does."""
    return any(key[: len(path)] == path and len(key) > len(path) for key in unit.module.spec.source.keys)


def inferred_below(unit: Unit, path: Path) -> list[str]:
    """The reasons for what was inferred at a key or below it, a line each: `bits: the alignment of A`."""
    return [
        f"{'.'.join(map(str, key[len(path) :])) or path[-1]}: {why}"
        for key, why in unit.module.inferred.items()
        if key[: len(path)] == path
    ]
