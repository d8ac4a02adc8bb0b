"""The flow of `cutegen export`: generate, verify what is not built yet, compile to objects, link, write all of it."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from cutegen.codegen.cplusplus import shared_texts
from cutegen.compiling import Cache, Compiled, Job, ToolError
from cutegen.compiling.objects import Object, c_compiler, make_objects
from cutegen.compiling.outcome import Failed
from cutegen.console import Progress
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.language.diagnostics import Diagnostic, has_errors
from cutegen.project.paths import shown
from cutegen.project.selection import Selection
from cutegen.project.sources import Gathered, Unit, gather
from cutegen.project.write import locked, write_all
from cutegen.verbs.building.build import Problem
from cutegen.verbs.building.compilation import Compilation, compile_and_tell, notices_on
from cutegen.verbs.building.failures import compile_failures
from cutegen.verbs.building.verification import Verification, verify_here
from cutegen.verbs.exporting.files import Shipped, library_of, linked, object_job, texts
from cutegen.verbs.exporting.selecting import chosen, in_the_way, with_gradients


@dataclass(frozen=True)
class Options:
    """Options of an export.

    `folder` is where all files go; `targets` are those whose code is exported, all of a spec's if empty.
    `library` is the name of one library for all kernels; None: each has its own. Kernels that are not built yet are
    verified first, unless `verify` is false. `jobs` is how many worker processes there are at most, None one a
    processor; `force` lets the export overwrite files that it did not write.
    """

    folder: Path
    targets: tuple[str, ...] = ()
    library: str | None = None
    verify: bool = True
    jobs: int | None = None
    force: bool = False


@dataclass(frozen=True)
class ExportReport:
    """The findings and results of an export.

    `exit_code` is 0 where all is exported; it is 1 for a finding and 2 for broken input, and nothing was written then.
    """

    exit_code: int
    diagnostics: tuple[Diagnostic, ...]
    texts: Mapping[str, str]
    kernels: tuple[Shipped, ...] = ()
    problems: tuple[Problem, ...] = ()
    notices: tuple[str, ...] = ()


@dataclass
class _Findings:
    """The findings of an export so far."""

    gathered: Gathered
    diagnostics: list[Diagnostic] = field(default_factory=list)
    problems: list[Problem] = field(default_factory=list)
    notices: list[str] = field(default_factory=list)

    def report(self, code: int, kernels: Sequence[Shipped] = ()) -> ExportReport:
        """The report of an export that ends here, with that exit code."""
        diagnostics = (*self.gathered.diagnostics, *self.diagnostics)
        return ExportReport(
            code, diagnostics, self.gathered.texts, tuple(kernels), tuple(self.problems), tuple(self.notices)
        )


def export(selection: Selection, options: Options, progress: Progress) -> ExportReport:
    """Exports the selection. On failure, nothing is written.

    What is wrong is in the report; raises only what no check foresees (KeyboardInterrupt, MemoryError).
    """
    gathered = gather(selection)
    found = _Findings(gathered)
    if gathered.failed:
        return found.report(BROKEN)
    units, notices = with_gradients(gathered.units)
    found.notices += notices
    wanted, found.problems = chosen(units, options.targets)
    if not found.problems:
        try:
            c_compiler()  # asked before the long part, as is the folder
            found.problems += in_the_way(options.folder, units, options.library, force=options.force)
        except ToolError as problem:
            found.problems.append(Problem(str(problem), "install gcc or clang"))
    if found.problems:
        return found.report(BROKEN)

    try:
        compilations = _compile(units, wanted, options, progress, found)
        if has_errors(found.diagnostics):
            return found.report(FINDINGS)
        verifications = _verify(units, options, progress, found)
        if has_errors(found.diagnostics) or found.problems:
            return found.report(FINDINGS)
        objects = _objects(units, wanted, options, progress, found)
    except OSError as error:
        found.problems.append(Problem(f"no compiler process can run: {error}"))
        return found.report(FINDINGS)
    found.problems += _other_code(units, compilations, objects)
    if has_errors(found.diagnostics) or found.problems:
        return found.report(FINDINGS)

    kernels = [
        Shipped(unit, targets, library_of(unit, options.library), verification)
        for unit, targets, verification in zip(units, wanted, verifications, strict=True)
    ]
    try:
        libraries = linked(kernels, objects)
    except (ToolError, OSError) as problem:  # the C compiler fails, or the disk for temporary files does
        found.problems.append(Problem(f"the libraries cannot be linked: {problem}"))
        return found.report(FINDINGS)
    files = {name: text.encode() for name, text in shared_texts().items()} | libraries
    for kernel in kernels:
        files |= {name: text.encode() for name, text in texts(kernel).items()}
    try:
        changes = {options.folder / name: content for name, content in files.items()}
        with locked({path.parent for path in changes}):
            write_all({**changes})
    except OSError as error:
        where = f"{shown(Path(os.fsdecode(error.filename)))}: " if isinstance(error.filename, (str, bytes)) else ""
        found.problems.append(
            Problem(f"{where}{error.strerror or error}; nothing was written", "choose another folder")
        )
        return found.report(BROKEN)
    return found.report(OK, kernels)


def _compile(
    units: Sequence[Unit], wanted: Sequence[Sequence[str]], options: Options, progress: Progress, found: _Findings
) -> list[Compilation]:
    """Compiles all units as a build does, and holds them to what their specs expect; what is wrong goes to `found`."""
    cache = Cache()
    compilations = compile_and_tell(units, progress, workers=options.jobs, cache=cache, targets=wanted)
    found.notices += notices_on(compilations, cache)
    found.diagnostics += [d for compilation in compilations for d in compilation.diagnostics]
    return compilations


def _verify(units: Sequence[Unit], options: Options, progress: Progress, found: _Findings) -> list[Verification | None]:
    """Verifies the units whose modules are not in the project as they are to be; what is wrong goes to `found`.

    None is the verification of one whose module is: its build verified that.
    """
    new = [unit for unit in units if not _is_built(unit)]
    if not new or not options.verify:
        return [Verification("not executed", "--no-verify") if unit in new else None for unit in units]
    verifications, diagnostics, notices = verify_here(new, options.jobs, progress)
    found.diagnostics += diagnostics
    found.notices += notices
    by_unit = dict(zip(map(id, new), verifications, strict=True))
    idle = [unit for unit in new if by_unit[id(unit)].verdict == "not executed"]
    if idle:
        names, why = ", ".join(unit.kernel for unit in idle), by_unit[id(idle[0])].why
        help = "`--no-verify` exports what nothing has executed"
        found.problems.append(Problem(f"{names}: not verified: {why}", help))
    return [by_unit.get(id(unit)) for unit in units]


def _is_built(unit: Unit) -> bool:
    """Whether the unit's module is in the project, as it is generated now."""
    try:
        return unit.path.read_bytes() == unit.module.text.encode()
    except OSError:
        return False


def _objects(
    units: Sequence[Unit], wanted: Sequence[Sequence[str]], options: Options, progress: Progress, found: _Findings
) -> dict[Job, Object]:
    """The object files of all units and targets; what is wrong goes to `found`. Raises OSError."""
    jobs = [object_job(unit, target) for unit, targets in zip(units, wanted, strict=True) for target in targets]

    def done(job: Job, made: Object | Failed) -> None:
        what = f"{job.kernel} for {job.target}"
        progress.step(f"failed to export {what}" if isinstance(made, Failed) else f"exported {what}")

    progress.start("exporting", len(jobs))
    try:
        made = make_objects(jobs, workers=options.jobs, on_done=done)
    finally:
        progress.stop()
    for unit in units:
        failed = {j.target: m for j, m in zip(jobs, made, strict=True) if j.kernel == unit.kernel}
        found.diagnostics += compile_failures(unit, {t: m for t, m in failed.items() if isinstance(m, Failed)})
    return {job: one for job, one in zip(jobs, made, strict=True) if isinstance(one, Object)}


def _other_code(
    units: Sequence[Unit], compilations: Sequence[Compilation], objects: Mapping[Job, Object]
) -> list[Problem]:
    """A problem for each object whose cubin differs from the one that was checked against its spec's expectations."""
    found = []
    for unit, compilation in zip(units, compilations, strict=True):
        for target, outcome in compilation.outcomes.items():
            made = objects.get(object_job(unit, target))
            if made is not None and isinstance(outcome, Compiled) and outcome.artefact.cubin not in made.code:
                message = f"{unit.kernel} for {target}: the compiler gave other code for the library than for the build"
                found.append(Problem(message, "is another release of the compiler installed than when it was built?"))
    return found
