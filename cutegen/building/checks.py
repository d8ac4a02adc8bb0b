"""The checks that a module must pass before it is written: it compiles as expected, and computes the right thing.

Both take units and give what they found; what is wrong becomes diagnostics at places of the spec.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.building.project import shown
from cutegen.building.sources import Unit
from cutegen.compiling import Artefact, Cache, Compiled, Failed, Job, Outcome, check, compile_all
from cutegen.language.diagnostics import Diagnostic
from cutegen.verification import Job as VerificationJob
from cutegen.verification import KernelReport, verify_all

CODES = {
    "CG401": "the compiled kernel is not what the spec expects",
    "CG402": "the kernel does not compile",
    "CG403": "the kernel does not compute what its spec says",
}
_TRACE_LINES = 6
_LOG_LINES = 8
_SHOWN_FAILURES = 8


@dataclass(frozen=True)
class Compilation:
    """How one unit compiled, by target; and what of it the spec does not accept."""

    outcomes: Mapping[str, Outcome]
    diagnostics: tuple[Diagnostic, ...]


def compile_units(
    units: Sequence[Unit],
    *,
    workers: int | None,
    cache: Cache | None,
    on_done: Callable[[str, Outcome], None],
) -> list[Compilation]:
    """Compiles every unit for every target of its spec. `on_done` gets `kernel for target` as each one ends.

    Raises OSError where no worker process can be started.
    """
    jobs = [Job(unit.module.text, unit.kernel, target) for unit in units for target in unit.module.spec.targets]
    done = compile_all(
        jobs,
        workers=workers,
        cache=cache,
        on_done=lambda job, outcome: on_done(f"{job.kernel} for {job.target}", outcome),
    )
    outcomes = iter(done)
    found = []
    for unit in units:
        mine = {target: next(outcomes) for target in unit.module.spec.targets}
        problems = [d for target, outcome in mine.items() for d in _judge(unit, target, outcome)]
        found.append(Compilation(mine, tuple(problems)))
    return found


def _judge(unit: Unit, target: str, outcome: Outcome) -> list[Diagnostic]:
    if isinstance(outcome, Failed):
        return [_failed(unit, target, outcome)]
    return _unexpected(unit, outcome.artefact)


def _unexpected(unit: Unit, artefact: Artefact) -> list[Diagnostic]:
    return [
        unit.diagnostic(
            "CG401",
            f"{failure.kernel} on {failure.target}: wanted {failure.wanted}, found {failure.found}",
            *failure.path,
            notes=(failure.hint,) if failure.hint else (),
        )
        for failure in check(unit.module.spec.expect, artefact)
    ]


def _failed(unit: Unit, target: str, failed: Failed) -> Diagnostic:
    notes = []
    if failed.line is not None:
        notes.append(f"{shown(unit.path)}:{failed.line}: {failed.text.strip()}")
    notes += [f"called from line {line}: {text.strip()}" for line, text in failed.trace[-_TRACE_LINES:-1]]
    notes += failed.log.strip().splitlines()[-_LOG_LINES:]
    targets = unit.module.spec.targets
    return unit.diagnostic(
        "CG402",
        f"{unit.kernel} does not compile for {target}: {failed.message}",
        *(("targets", targets.index(target)) if unit.module.spec.source.keys.get(("targets",)) else ("kernel",)),
        notes=tuple(notes),
        help="`cutegen build --no-compile` writes the module, to look at the line",
    )


def verify_units(
    units: Sequence[Unit], on: str, *, workers: int, on_done: Callable[[KernelReport], None]
) -> list[KernelReport]:
    """Runs every unit's verification plan on `on`. `on_done` is called, in another thread, as each kernel ends."""
    with tempfile.TemporaryDirectory(prefix="cutegen-modules-") as folder:
        jobs = []
        for number, unit in enumerate(units):
            # A folder each: units of several output folders may have one name. Modules run from files only.
            path = Path(folder, str(number), unit.module.name)
            path.parent.mkdir()
            path.write_bytes(unit.module.text.encode())
            plan = unit.module.plan
            jobs.append(VerificationJob(unit.module.spec, plan.tile, getattr(plan, "stages", None), path, on))
        reports = verify_all(jobs, workers=workers, done=on_done)
    return [replace(r, module=shown(unit.path)) for unit, r in zip(units, reports, strict=True)]


def wrong(unit: Unit, report: KernelReport) -> list[Diagnostic]:
    """A diagnostic if the kernel failed its verification or if nothing of it could be run."""
    if report.ok:
        return []
    failures = report.failures or ("not one case ran",)
    more = len(failures) - _SHOWN_FAILURES
    notes = failures[:_SHOWN_FAILURES] + ((f"and {more} more",) if more > 0 else ())
    return [
        unit.diagnostic("CG403", f"{unit.kernel} failed its verification on {report.executor}", "kernel", notes=notes)
    ]


def compiled(outcome: Outcome) -> Artefact | None:
    return outcome.artefact if isinstance(outcome, Compiled) else None
