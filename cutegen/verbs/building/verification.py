"""Running the kernels of a project on their verification plans."""

from __future__ import annotations

import importlib.util
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

from cutegen import compiling
from cutegen.compiling import Cache, Outcome
from cutegen.console import Progress
from cutegen.language.diagnostics import Diagnostic
from cutegen.project.paths import shown
from cutegen.project.sources import Unit
from cutegen.verbs.building.compilation import compiled_before
from cutegen.verification import UNTIL_FAILURE, Extent, KernelReport
from cutegen.verification.kept import Kept
from cutegen.verifying.ahead import Ahead
from cutegen.verifying.jobs import Job
from cutegen.verifying.pool import SoFar, verify_all

_SHOWN_FAILURES = 8
_SHOWN_REASON = 300  # characters

Verdict = Literal["passed", "failed", "not executed"]
Where = Literal["gpu", "cpu"]


@dataclass(frozen=True)
class Verification:
    """Whether a kernel is right.

    `why` says why it was not executed, if it was not; there may be a report of the attempt.
    """

    verdict: Verdict
    why: str = ""
    report: KernelReport | None = None


def run_verification(
    units: Sequence[Unit],
    on: Where,
    jobs: int | None,
    progress: Progress,
    compiled: Sequence[Mapping[str, Outcome]] | None = None,
    extent: Extent = UNTIL_FAILURE,
    ahead: Ahead | None = None,
) -> tuple[list[Verification], list[Diagnostic]]:
    """Runs every unit's verification plan on `on`, as far as `extent` says; gives the verifications, and an error for
    each kernel that did not pass.

    `jobs` is how many kernels run at a time; by default a few on a GPU, one a processor on the CPU emulator. It does
    not compile units again that were `compiled` for a target: by default what the cache has; `ahead` has prepared the
    only unit for it.
    """
    from cutegen.emulator.native.building import compile_beside
    from cutegen.verifying.pool import WORKERS
    from cutegen.workers import processors

    workers = jobs or (WORKERS if on == "gpu" else processors())
    if on == "cpu":
        compile_beside()
        compiled = compiled_before(units, Cache()) if compiled is None else compiled
    progress.start(f"verifying on the {'GPU' if on == 'gpu' else 'CPU emulator'}", len(units))
    try:
        reports = verify_units(
            units,
            on,
            extent=extent,
            workers=workers,
            on_done=lambda report: progress.step(_ended_line(report), report.kernel),
            going=lambda so_far: _tell(so_far, progress),
            compiled=compiled if on == "cpu" else None,
            ahead=ahead if on == "cpu" else None,
        )
    finally:
        progress.stop()
    verifications = [_verification(report) for report in reports]
    found = [
        diagnostic
        for unit, verification, report in zip(units, verifications, reports, strict=True)
        if verification.verdict == "failed"
        for diagnostic in verification_failures(unit, report)
    ]
    return verifications, found


def verify_here(
    units: Sequence[Unit],
    jobs: int | None,
    progress: Progress,
    compiled: Sequence[Mapping[str, Outcome]] | None = None,
    extent: Extent = UNTIL_FAILURE,
    ahead: Ahead | None = None,
) -> tuple[list[Verification], list[Diagnostic], list[str]]:
    """Runs every unit's verification plan on the GPU of this machine, or on the CPU emulator where there is none;
    `compiled` and `ahead` are as for `run_verification`.

    Gives the verifications, an error for each kernel that did not pass, and notices of where and why not they ran.
    """
    from cutegen.verification import gpu_missing

    notices = []
    no_gpu = gpu_missing()
    if no_gpu is not None:
        no_emulator = emulator_missing()
        if no_emulator is not None:
            why = f"there is no GPU here ({no_gpu}), and {no_emulator}"
            return [Verification("not executed", why)] * len(units), [], []
        notices.append(f"there is no GPU here ({no_gpu}): kernels run on the CPU emulator")
    where: Where = "gpu" if no_gpu is None else "cpu"
    verifications, diagnostics = run_verification(units, where, jobs, progress, compiled, extent, ahead)
    notices += [
        f"{unit.kernel} was not executed: {verification.why}"
        for unit, verification in zip(units, verifications, strict=True)
        if verification.verdict == "not executed"
    ]
    return verifications, diagnostics, notices


def _verification(report: KernelReport) -> Verification:
    """The verdict that follows from a report."""
    if report.ok:
        return Verification("passed", "", report)
    why = why_unexecuted(report)
    return Verification("not executed" if why else "failed", why, report)


def _tell(so_far: SoFar, progress: Progress) -> None:
    """Shows how far the verification of a kernel is: its cases come first, then its host checks, which nobody counts
    before.
    """
    if so_far.checks:
        progress.part(so_far.kernel, "host checks", so_far.checks, None)
    else:
        progress.part(so_far.kernel, "cases", so_far.cases, so_far.planned)


def _ended_line(report: KernelReport) -> str:
    """A line about a kernel that has ended."""
    why = why_unexecuted(report)
    return f"not executed: {report.kernel} on {report.executor}: {why}" if why else report.text


def verify_units(
    units: Sequence[Unit],
    on: str,
    *,
    extent: Extent = UNTIL_FAILURE,
    workers: int,
    on_done: Callable[[KernelReport], None],
    going: Callable[[SoFar], None] | None = None,
    compiled: Sequence[Mapping[str, Outcome]] | None = None,
    ahead: Ahead | None = None,
) -> list[KernelReport]:
    """Runs every unit's verification plan on `on`, as far as `extent` says; gives their reports. `on_done` is called as
    each kernel ends, and `going` after each of its cases and checks.

    The emulator does not compile again what units were `compiled` to, by target. `ahead` has prepared the only one.
    """
    compiled = compiled or [{}] * len(units)
    with module_files(units) if ahead is None else nullcontext([ahead.job.module]) as files:
        jobs = [
            Job(unit.module.plan, file, on, extent, kept=_kept(unit, units, compiled))
            for unit, file in zip(units, files, strict=True)
        ]
        reports = verify_all(jobs, workers=workers, done=on_done, going=going, ahead=ahead)
    return [replace(r, module=shown(unit.path)) for unit, r in zip(units, reports, strict=True)]


@contextmanager
def module_files(units: Sequence[Unit]) -> Iterator[list[Path]]:
    """The modules of units in files, from which alone they run, in a temporary folder."""
    with tempfile.TemporaryDirectory(prefix="cutegen-modules-") as folder:
        # A folder each: units of several output folders may have one name
        files = [Path(folder, str(number), unit.module.name) for number, unit in enumerate(units)]
        for file, unit in zip(files, units, strict=True):
            file.parent.mkdir()
            file.write_bytes(unit.module.text.encode())
        yield files


def _kept(unit: Unit, units: Sequence[Unit], compiled: Sequence[Mapping[str, Outcome]]) -> Kept:
    """The compiled outcomes of a unit and of the kernels that compute its op's gradients."""
    wanted = {unit.kernel, *(one.by.kernel for one in unit.module.plan.gradients)}
    return Kept(
        (compiling.Job(other.module.text, other.kernel, target), outcome)
        for other, outcomes in zip(units, compiled, strict=True)
        if other.kernel in wanted
        for target, outcome in outcomes.items()
    )


def emulator_missing() -> str | None:
    """The reason why kernels cannot run on the CPU emulator, or None if what it needs is installed.

    This imports nothing, which would take a while: where something does not load, the processes that verify tell it.
    """
    for package in ("torch", "cutlass", "numpy"):
        try:
            found = importlib.util.find_spec(package)
        except ValueError:  # what is in its place is no module
            found = None
        if found is None:
            return f"the package {package} is not installed"
    return None


def why_unexecuted(report: KernelReport) -> str:
    """The reason why a report says nothing about its kernel: what should have run it could not.

    Empty where it says something.
    """
    if any(case.status == "passed" for case in report.cases) or any(r.status == "failed" for r in report.results):
        return ""
    if report.reason in ("no executor", "cannot run"):
        return report.error[:_SHOWN_REASON]
    if report.cases and not report.error and all(case.reason == "too large" for case in report.cases):
        return f"every case is too large: {report.cases[0].message}"
    lacking = [case for case in report.cases if case.reason == "no memory"]
    if lacking and not report.error and all(case.status == "not run" for case in report.cases):
        return f"there is no memory for any case: {lacking[0].name} {lacking[0].message}"
    return ""


def verification_failures(unit: Unit, report: KernelReport) -> list[Diagnostic]:
    """Makes an error, `CG403`, if the kernel failed its verification or if nothing of it could be run."""
    if report.ok:
        return []
    failures = report.failures or ("not one case ran",)
    more = len(failures) - _SHOWN_FAILURES
    notes = failures[:_SHOWN_FAILURES] + ((f"and {more} more",) if more > 0 else ())
    notes += (report.left_out,) if report.left_out else ()
    return [
        unit.diagnostic("CG403", f"{unit.kernel} failed its verification on {report.executor}", "kernel", notes=notes)
    ]
