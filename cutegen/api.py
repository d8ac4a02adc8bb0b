"""The interface for programs: four functions that turn a spec's text into data. The command line does that with files.

None of them reads or writes a file of the project, prints, or looks at the current folder; so a spec may come from
anywhere. `path` is the spec's name: in diagnostics, and in the header of a module, where `cutegen build --check` looks
for it. `beside` are the texts of other specs of its folder, one of which may compute the gradient of another.

Importing this imports nothing else: what a function needs is imported as it is called.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from cutegen.codegen import Module
    from cutegen.language.diagnostics import Diagnostic
    from cutegen.language.model import KernelSpec
    from cutegen.project.sources import Unit

PATH = "specs/spec.yaml"  # what a spec is called that nobody named


@dataclass(frozen=True)
class GeneratedModule:
    """A module that a spec stands for: the kernel's name, the name of the file, and its text."""

    kernel: str
    file: str
    text: str


@dataclass(frozen=True)
class Explanation:
    """The explanation of a kernel, made before it is compiled.

    `spec` is its spec with everything filled in, which builds to the same kernel; `inferred` gives for each field that
    was left out, by dotted path, the reason for its value. `proof` is what was proved by counting, as text for people,
    and `holds` whether all of it could be proved.
    """

    kernel: str
    spec: str
    inferred: Mapping[str, str]
    proof: str
    holds: bool


@dataclass(frozen=True)
class Verdict:
    """The result of running a kernel.

    `on` names the executor; `cases` and `host_checks` count what passed, `not_run` what was planned and left out, such
    as shapes that are too large for the emulator, or what would have come after a failure. `failures` say what was
    wrong, a line each. `in_part` is whether only a part of what is planned was to run.
    """

    kernel: str
    passed: bool
    on: str
    cases: int
    host_checks: int
    not_run: int
    failures: tuple[str, ...]
    in_part: bool = False


def check(text: str, path: str = PATH, *, beside: Sequence[str] = ()) -> tuple[Diagnostic, ...]:
    """Everything that there is to say about a spec, in its order: errors, advice on speed and notes, as `cutegen lint`
    prints them.

    Nothing is raised for a spec, however broken it is. A spec without errors can be generated.
    """
    from cutegen.codegen import generate
    from cutegen.language.diagnostics import SpecError, ordered
    from cutegen.project.sources import notes_on

    try:
        generated = generate(text, path, performance=True, beside=_read(beside))
    except SpecError as error:
        return error.diagnostics
    return tuple(ordered([*generated.warnings, *notes_on(_units(generated.modules, path))]))


def generate(text: str, path: str = PATH, *, beside: Sequence[str] = ()) -> tuple[GeneratedModule, ...]:
    """The modules of a spec, one for each of its kernels. The same text, path and version of cutegen give the same
    bytes; nothing is compiled or run.

    Raises `SpecError`, which has the diagnostics, for a spec with an error, and `CutegenError` for a path that does not
    fit on the line of the header.
    """
    from cutegen.codegen import generate
    from cutegen.errors import CutegenError

    if not str(path).isprintable():
        raise CutegenError(f"the path {str(path)!r} has a character that cannot be printed")
    modules = generate(text, path, beside=_read(beside)).modules
    return tuple(GeneratedModule(module.spec.kernel, module.name, module.text) for module in modules)


def explain(
    text: str, path: str = PATH, *, sizes: Sequence[Mapping[str, int]] = (), beside: Sequence[str] = ()
) -> tuple[Explanation, ...]:
    """Explains each kernel of a spec: what was inferred, and why; and what is proved of it. Each of `sizes` names the
    sizes of all modes, and the proof has a roofline for it.

    Raises `SpecError` for a spec with an error, and `CutegenError` for sizes that do not fit a kernel.
    """
    from cutegen.analysis.proof import prove
    from cutegen.analysis.report_text import as_lines
    from cutegen.codegen import generate
    from cutegen.language.writer import write_spec
    from cutegen.measuring.shapes import complete

    found = []
    for module in generate(text, path, beside=_read(beside)).modules:
        proof = prove(module.plan, [complete(given, module.spec) for given in sizes])
        inferred = {".".join(map(str, where)): why for where, why in module.inferred.items()}
        lines = "\n".join(as_lines(proof))
        found.append(Explanation(module.spec.kernel, write_spec(module.spec), inferred, lines, proof.holds))
    return tuple(found)


def verify(
    text: str,
    path: str = PATH,
    *,
    on: Literal["cpu", "gpu"] = "cpu",
    all: bool = False,
    quick: bool = False,
    beside: Sequence[str] = (),
) -> tuple[Verdict, ...]:
    """Runs each kernel of a spec on shapes that are chosen to break it, on a GPU, or on the CPU, where an emulator
    executes the compiled PTX. It takes seconds to minutes a kernel, in separate processes. The first failure ends a
    kernel's run, unless `all` are asked for; with `quick`, only a part of what is planned runs.

    A kernel that is wrong is a verdict, not an error. Raises `SpecError` for a spec with an error, and `CutegenError`
    where nothing could be run, as without a GPU, or `on` is neither.
    """
    from cutegen.codegen import generate
    from cutegen.console import NoProgress
    from cutegen.errors import CutegenError
    from cutegen.verbs.building.verification import emulator_missing, run_verification
    from cutegen.verification import Extent, gpu_missing

    if on not in ("cpu", "gpu"):
        raise CutegenError(f"on={on!r}: kernels run on the cpu or the gpu")
    units = _units(generate(text, path, beside=_read(beside)).modules, path)
    missing = emulator_missing() if on == "cpu" else gpu_missing()
    if missing is not None:
        raise CutegenError(f"nothing was executed: {missing}", 'with on="cpu" an emulator runs kernels' * (on == "gpu"))
    found = []
    verifications, _ = run_verification(units, on, None, NoProgress(), extent=Extent(all, quick))
    for unit, verification in zip(units, verifications, strict=True):
        report = verification.report
        if verification.verdict == "not executed" or report is None:
            raise CutegenError(f"{unit.kernel} was not executed: {verification.why}")
        statuses = [result.status for result in report.results]
        cases = sum(case.status == "passed" for case in report.cases)
        checks = sum(one.status == "passed" for one in report.host_checks)
        left_out = statuses.count("not run")
        counts = (cases, checks, left_out)
        found.append(Verdict(unit.kernel, report.ok, report.executor, *counts, report.failures, report.in_part))
    return tuple(found)


def _read(beside: Sequence[str]) -> list[KernelSpec]:
    """The kernels of the specs that stand beside another one. Raises SpecError where one cannot be read."""
    from cutegen.language.reader import read_specs

    return [spec for text in beside for spec in read_specs(text)]


def _units(modules: Sequence[Module], path: str) -> list[Unit]:
    """Modules as what a project has of them."""
    from pathlib import Path

    from cutegen.project.selection import GENERATED, SpecFile
    from cutegen.project.sources import Unit

    source = SpecFile(Path(path), Path(), path, Path(GENERATED))
    return [Unit(source, module) for module in modules]
