"""The checks that a module must pass before it is written: it compiles as expected, and computes the right thing.

Both take units and give what they found; what is wrong becomes diagnostics at places of the spec.
"""

from __future__ import annotations

import importlib.util
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.building.failures import compile_failures
from cutegen.building.project import shown
from cutegen.building.sources import Unit
from cutegen.compiling import Artefact, Cache, Compiled, Job, Outcome, check, compile_all
from cutegen.language.diagnostics import Diagnostic
from cutegen.verification import Job as VerificationJob
from cutegen.verification import KernelReport, verify_all

CODES = {
    "CG401": "the compiled kernel is not what the spec expects",
    "CG402": "the kernel does not compile",
    "CG403": "the kernel does not compute what its spec says",
}
_SHOWN_FAILURES = 8
_SHOWN_REASON = 300  # characters


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
    on_start: Callable[[int], None],
    on_done: Callable[[str, Outcome], None],
    target: str | None = None,
) -> list[Compilation]:
    """Compiles every unit for every target of its spec, or for one of them if `target` is given.

    `on_start` gets the number of those that the cache does not answer, if there are any; `on_done` gets
    `kernel for target` as each of them ends.

    Raises OSError where no worker process can be started.
    """
    wanted = [[t for t in unit.module.spec.targets if target in (None, t)] for unit in units]
    jobs = [Job(unit.module.text, unit.kernel, t) for unit, targets in zip(units, wanted, strict=True) for t in targets]
    known = {number: hit for number, job in enumerate(jobs) if (hit := _cached(job, cache)) is not None}
    rest = [job for number, job in enumerate(jobs) if number not in known]
    if rest:
        on_start(len(rest))
    compiled = iter(
        compile_all(
            rest,
            workers=workers,
            cache=cache,
            on_done=lambda job, outcome: on_done(f"{job.kernel} for {job.target}", outcome),
        )
        if rest
        else []
    )
    outcomes = iter([known[number] if number in known else next(compiled) for number in range(len(jobs))])
    found = []
    for unit, targets in zip(units, wanted, strict=True):
        mine = {t: next(outcomes) for t in targets}
        unexpected = [d for o in mine.values() if isinstance(o, Compiled) for d in _unexpected(unit, o.artefact)]
        found.append(Compilation(mine, (*compile_failures(unit, mine), *unexpected)))
    return found


def _cached(job: Job, cache: Cache | None) -> Compiled | None:
    start = time.perf_counter()
    found = None if cache is None else cache.get(job)
    return None if found is None else Compiled(found, time.perf_counter() - start, cached=True)


def _unexpected(unit: Unit, artefact: Artefact) -> list[Diagnostic]:
    return [
        unit.diagnostic(
            "CG401",
            f"{failure.kernel} on {failure.target}: {failure.key.removeprefix('expect.')}: "
            f"wanted {failure.wanted}, found {failure.found}",
            *failure.path,
            notes=(failure.hint,) if failure.hint else (),
            help=failure.help or None,
        )
        for failure in check(unit.module.spec.expect, artefact)
    ]


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


def emulator_missing() -> str | None:
    """Why kernels cannot run on the CPU emulator, or None if they can. Imports neither torch nor the compiler."""
    try:
        for package in ("torch", "cutlass"):
            if importlib.util.find_spec(package) is None:
                return f"the package {package} is not installed"
        from cutegen import emulator

        emulator.install  # noqa: B018 imports what it needs
    except Exception as error:
        return f"the emulator does not load: {type(error).__name__}: {error}"
    return None


def unexecuted(report: KernelReport) -> str:
    """Why a report says nothing about its kernel: what should have run it could not. Empty where it says something."""
    if any(case.status == "passed" for case in report.cases) or any(r.status == "failed" for r in report.results):
        return ""
    if report.reason in ("no executor", "cannot run"):
        return report.error[:_SHOWN_REASON]
    if report.cases and not report.error and all(case.reason == "too large" for case in report.cases):
        return f"every case is too large: {report.cases[0].message}"
    return ""


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
