"""The flow of `cutegen build`: generate, compile, check expectations, verify, then write all modules or nothing."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from cutegen.codegen.render import marked
from cutegen.compiling import Cache, Compiled, Outcome
from cutegen.console import Progress
from cutegen.emulator.native.building import compile_beside
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.language.diagnostics import Diagnostic, has_errors
from cutegen.project.paths import quoted, shown
from cutegen.project.selection import Selection
from cutegen.project.sources import Gathered, Unit, gather, notes_on
from cutegen.project.state import FileState, advice
from cutegen.project.write import locked, write_all
from cutegen.receipts.beside_modules import compare_all, remove_empty, units_by_file
from cutegen.verbs.building.ahead import Meanwhile
from cutegen.verbs.building.compilation import Compilation, compile_and_tell, notices_on
from cutegen.verbs.building.verification import Verification, verify_here
from cutegen.verification import UNTIL_FAILURE, Extent
from cutegen.verifying.ahead import Ahead


@dataclass(frozen=True)
class Options:
    """Options of a build.

    Compiled kernels are verified, too, as far as `extent` says, unless `verify` is false; others are not. `jobs` is
    how many worker processes there are at most, None one a processor; `force` lets the build overwrite files that
    were edited by hand.
    """

    compile: bool = True
    verify: bool = True
    jobs: int | None = None
    cache: bool = True
    force: bool = False
    extent: Extent = UNTIL_FAILURE


@dataclass(frozen=True)
class Problem:
    """Something is wrong that is no text of a spec: a file, a folder, the machine."""

    message: str
    help: str | None = None
    path: str = ""


@dataclass(frozen=True)
class KernelResult:
    """The result of a build for one kernel.

    `outcomes` are by target, and empty where it was not compiled; `action` is what happened to its file.
    """

    unit: Unit
    outcomes: Mapping[str, Outcome]
    verification: Verification
    action: Literal["written", "unchanged", "not written"]


@dataclass(frozen=True)
class BuildReport:
    """The findings and results of a build.

    `exit_code` is 0 where all is built; it is 1 for a finding and 2 for broken input, and nothing was written then.
    """

    exit_code: int
    diagnostics: tuple[Diagnostic, ...]
    texts: Mapping[str, str]
    kernels: tuple[KernelResult, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()
    removed: tuple[Path, ...] = ()


@dataclass
class _Findings:
    """The findings of a build so far."""

    gathered: Gathered
    diagnostics: list[Diagnostic] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def report(self, code: int, kernels: Sequence[KernelResult] = (), removed: Sequence[Path] = ()) -> BuildReport:
        """The report of a build that ends here, with that exit code."""
        diagnostics = (*self.gathered.diagnostics, *self.diagnostics)
        return BuildReport(
            code,
            diagnostics,
            self.gathered.texts,
            tuple(kernels),
            tuple(self.problems),
            tuple(self.notices),
            tuple(removed),
        )


def build(selection: Selection, options: Options, progress: Progress) -> BuildReport:
    """Builds the selection. On failure, nothing is written. `progress` was started for as many specs as there are.

    What is wrong is in the report; raises only what no check foresees (KeyboardInterrupt, MemoryError).
    """
    try:
        gathered = gather(selection, read=lambda: progress.step(None))
    finally:
        progress.stop()
    found = _Findings(gathered)
    units = [unit for unit in gathered.units if unit.has_file]
    if gathered.failed:
        return found.report(BROKEN)
    # Asked before the long part, so that nobody waits for a compile that could not be written.
    try:
        states = compare_all(gathered.units, selection.scopes)
        found.problems += _in_the_way(states, units, options.force) or _unwritable(states)
    except OSError as error:
        found.problems.append(_disk_problem(error))
    if found.problems:
        in_the_way = any(p.path for p in found.problems)
        return found.report(FINDINGS if in_the_way else BROKEN, _untouched(units, "the build stopped before"))

    with Meanwhile(units, options.jobs, options.extent) as meanwhile:
        compilations = [Compilation({}, ()) for _ in units]
        if options.compile:
            try:
                compilations = _compile(units, options, progress, found, meanwhile)
            except OSError as error:
                found.problems.append(Problem(f"no compiler process can run: {error}"))
                return found.report(FINDINGS, _untouched(units, "the build stopped before"))
        outcomes = [compilation.outcomes for compilation in compilations]
        if has_errors(found.diagnostics):
            stopped = [Verification("not executed", _stopped(compilation)) for compilation in compilations]
            return found.report(FINDINGS, _results(units, outcomes, stopped, None))
        verifications = _verify(units, outcomes, options, progress, found, meanwhile.ahead)
    if has_errors(found.diagnostics):
        return found.report(FINDINGS, _results(units, outcomes, verifications, None))

    try:
        with locked(unit.path.parent for unit in units):
            states = compare_all(gathered.units, selection.scopes)  # again: another build may have been faster
            found.problems += _in_the_way(states, units, options.force)
            found.problems += _unverified(units, verifications, states, options)
            if found.problems:
                return found.report(FINDINGS, _results(units, outcomes, verifications, None))
            changes = _changes(states, options)
            write_all(changes)
    except OSError as error:
        found.problems.append(_disk_problem(error))
        return found.report(BROKEN, _results(units, outcomes, verifications, None))
    removed = [state.path for state in states if state.wanted is None]
    remove_empty(state.path for state in states if state.wanted is None and state.kind == "receipt")
    found.notices += _stale_receipts(states, units) + _in_part(units, states, changes) + _without_files(gathered.units)
    found.diagnostics += notes_on([unit for unit in units if unit.path in changes])
    return found.report(OK, _results(units, outcomes, verifications, changes), removed)


def _compile(
    units: Sequence[Unit], options: Options, progress: Progress, found: _Findings, meanwhile: Meanwhile
) -> list[Compilation]:
    """Compiles all units; what is wrong goes to `found`. Raises OSError where no worker process can be started."""

    def begun(count: int) -> None:
        if options.verify:
            compile_beside()  # not before: imports need the processors, and no kernel runs until it is compiled
            meanwhile.begin(count)

    cache = Cache() if options.cache else None
    compilations = compile_and_tell(units, progress, workers=options.jobs, cache=cache, on_start=begun)
    found.notices += notices_on(compilations, cache)
    found.diagnostics += [d for compilation in compilations for d in compilation.diagnostics]
    return compilations


def _stopped(compilation: Compilation) -> str:
    """The reason why a kernel was not run although it was asked for: what is wrong with it, or with another one."""
    if any(not isinstance(outcome, Compiled) for outcome in compilation.outcomes.values()):
        return "the compile failed"
    return "an expectation failed" if compilation.diagnostics else "the build stopped before"


def _verify(
    units: Sequence[Unit],
    outcomes: Sequence[Mapping[str, Outcome]],
    options: Options,
    progress: Progress,
    found: _Findings,
    ahead: Ahead | None,
) -> list[Verification]:
    """Runs all units, which compiled to these outcomes, on the GPU, or on the CPU emulator where there is none; what is
    wrong goes to `found`. `ahead` has prepared the only one.
    """
    if not options.verify or not options.compile:
        flag = "--no-verify" if not options.verify else "--no-compile"
        return [Verification("not executed", flag)] * len(units)
    verifications, diagnostics, notices = verify_here(units, options.jobs, progress, outcomes, options.extent, ahead)
    found.diagnostics += diagnostics
    found.notices += notices
    return verifications


def _results(
    units: Sequence[Unit],
    outcomes: Sequence[Mapping[str, Outcome]],
    verifications: Sequence[Verification],
    changes: Mapping[Path, bytes | None] | None,
) -> list[KernelResult]:
    """The result of each kernel. `changes` is what was written, None where the build failed."""
    results = []
    for unit, outcome, verification in zip(units, outcomes, verifications, strict=True):
        action: Literal["written", "unchanged", "not written"] = "not written"
        if changes is not None:
            action = "written" if unit.path in changes else "unchanged"
        results.append(KernelResult(unit, outcome, verification, action))
    return results


def _untouched(units: Sequence[Unit], why: str) -> list[KernelResult]:
    """The results of a build that stopped before it compiled anything."""
    return _results(units, [{}] * len(units), [Verification("not executed", why)] * len(units), None)


def _in_the_way(states: Sequence[FileState], units: Sequence[Unit], force: bool) -> list[Problem]:
    """A problem for each file that must not be overwritten: foreign ones never, those edited by hand only if forced."""
    made = units_by_file(states, units)
    return [
        Problem(f"{shown(state.path)}: {state.why}", advice(state, made.get(state.path)), str(state.path))
        for state in states
        if state.state == "foreign" or (state.state in ("edited", "invalid") and not force)
    ]


def _unverified(
    units: Sequence[Unit], verifications: Sequence[Verification], states: Sequence[FileState], options: Options
) -> list[Problem]:
    """A problem for each reason why kernels that would be written were not executed, although nobody asked for that."""
    if not (options.compile and options.verify):
        return []
    kept = ("current", "partial") if options.extent.quick else ("current",)
    current = {state.path for state in states if state.state in kept}
    kernels: dict[str, list[str]] = {}
    for unit, verification in zip(units, verifications, strict=True):
        if verification.verdict == "not executed" and unit.path not in current:
            kernels.setdefault(verification.why, []).append(unit.kernel)
    help = "`--no-verify` writes what nothing has executed"
    return [Problem(f"{', '.join(names)}: not verified: {why}", help) for why, names in kernels.items()]


def _changes(states: Sequence[FileState], options: Options) -> dict[Path, bytes | None]:
    """The bytes of all files that are to be other ones, None for those that are to go.

    A module that was verified in part is marked. The mark goes once all of it is verified, and only then. None is put
    on a module that is current already: its build left no mark.
    """
    changes: dict[Path, bytes | None] = {}
    verified = options.compile and options.verify
    for state in states:
        if state.state == "current" or (state.state == "partial" and (options.extent.quick or not verified)):
            continue
        text = state.wanted
        if text is not None and state.kind == "module" and verified and options.extent.quick:
            text = marked(text)
        changes[state.path] = None if text is None else text.encode()
    return changes


def _in_part(units: Sequence[Unit], states: Sequence[FileState], changes: Mapping[Path, bytes | None]) -> list[str]:
    """A notice of the modules that have the mark of those that were verified in part, and of how it goes."""
    left = {state.path for state in states if state.state == "partial" and state.path not in changes}
    partial = [u for u in units if u.path in left or changes.get(u.path) == marked(u.module.text).encode()]
    if not partial:
        return []
    specs = " ".join(dict.fromkeys(quoted(unit.source.file) for unit in partial))
    names = ", ".join(unit.kernel for unit in partial)
    return [f"verified in part, and marked so: {names}; `cutegen build {specs}` verifies all of it"]


def _without_files(units: Sequence[Unit]) -> list[str]:
    """A notice of the kernels of each spec that were neither compiled nor written, since `modules` leaves them out."""
    left: dict[Path, list[str]] = {}
    for unit in units:
        if not unit.has_file:
            left.setdefault(unit.source.file, []).append(unit.kernel)
    return [
        f"not built, since `modules` of {shown(file)} leaves them out: {', '.join(kernels)}; "
        f"`cutegen verify {quoted(file)}` runs them"
        for file, kernels in left.items()
    ]


def _stale_receipts(states: Sequence[FileState], units: Sequence[Unit]) -> list[str]:
    """A notice of the receipts that a build removed since their kernels changed, and how to measure again."""
    made = units_by_file(states, units)
    gone = [s for s in states if s.kind == "receipt" and s.wanted is None and s.path in made]
    if not gone:
        return []
    files = ", ".join(shown(state.path) for state in gone)
    specs = " ".join(dict.fromkeys(quoted(made[state.path].source.file) for state in gone))
    return [f"removed, since they were not of this code: {files}; `cutegen bench {specs} --receipts` measures again"]


def _unwritable(states: Sequence[FileState]) -> list[Problem]:
    """A problem for each folder that is to be changed and cannot be, as far as can be told without trying."""
    problems = []
    for folder in dict.fromkeys(state.path.parent for state in states if state.state != "current"):
        there = folder
        while not os.path.lexists(there):
            there = there.parent
        if not there.is_dir():
            problems.append(Problem(f"{shown(there)} is not a folder", "choose another folder with --out"))
        elif not os.access(there, os.W_OK | os.X_OK):
            problems.append(Problem(f"{shown(there)} cannot be written to", "choose another folder with --out"))
    return problems


def _disk_problem(error: OSError) -> Problem:
    """A problem for what the disk refused."""
    where = f"{shown(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, (str, bytes)) else ""
    return Problem(
        f"{where}{error.strerror or error}; the generated files are as they were", "choose another folder with --out"
    )
