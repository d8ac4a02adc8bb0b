"""The one function that verbs consume: a spec's text to the modules it stands for.

Pure: no GPU, clock, environment, network or file decides anything. The same text and the same cutegen give the same
bytes. Templates that were compiled before may be read from the cache folder, which only takes less time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from cutegen.autograd import Gradient, gradients_of
from cutegen.codegen.clashes import clashes
from cutegen.codegen.regions import Region, region_at
from cutegen.codegen.render import render
from cutegen.language.diagnostics import Diagnostic, SpecError, has_errors, ordered
from cutegen.language.kinds import Path
from cutegen.language.model import KernelSpec
from cutegen.language.reader import read_specs
from cutegen.language.torch_key import TorchOp
from cutegen.lint import check
from cutegen.planning import make_plan, resolve
from cutegen.planning.plan import Plan
from cutegen.planning.report import Report


@dataclass(frozen=True)
class Module:
    """One generated module. `spec` is resolved; `inferred` says for each field that was left out why it is as it is."""

    name: str  # sgemm_mmajor.py
    text: str
    spec: KernelSpec
    plan: Plan
    inferred: dict[Path, str]
    regions: tuple[Region, ...]  # of `text`: in its order, outer ones first

    @property
    def gradients(self) -> tuple[Gradient, ...]:
        """The kernels that compute the gradient of its op."""
        return self.plan.gradients

    def region_at(self, line: int) -> Region | None:
        """The innermost region that holds a line of `text`, from 1; None where the line is the same for every spec."""
        return region_at(self.regions, line)


@dataclass(frozen=True)
class Generated:
    """The modules of one spec file, and warnings about it."""

    modules: tuple[Module, ...]
    warnings: tuple[Diagnostic, ...]


def generate(text: str, path: str, *, performance: bool = False, beside: Sequence[KernelSpec] | None = ()) -> Generated:
    """Every module that a spec file stands for. `path` is how the file is named in headers and diagnostics, and
    `beside` are the other kernels of its folder, which may compute gradients of each other; None: gradients are not
    looked for, as they may be what is to be written.

    With `performance`, advice on speed is among the warnings.

    Raises `SpecError` with all errors and warnings if any of its kernels has an error.
    """
    planned: list[tuple[KernelSpec, Report]] = []
    read: list[tuple[KernelSpec, KernelSpec, Report]] = []  # without its name, resolved, and what was said
    specs = read_specs(text, path)
    for spec in specs:
        nameless = replace(spec, kernel="", summary="", torch=TorchOp())
        alike = next((one for one in read if one[0] == nameless and one[0].source == spec.source), None)
        if alike is None:  # a matrix may have many kernels that differ in name only
            report = Report(spec.source)
            resolved = resolve(spec, report)
            if not report.failed:
                check(resolved, report, performance=performance)
            alike = (nameless, resolved, report)
            read.append(alike)
        named = replace(alike[1], kernel=spec.kernel, summary=spec.summary, torch=spec.torch)
        planned.append((replace(named, has_module=spec.has_module), alike[2]))
    found = _said_of_some(planned)
    gradients = []
    for spec in specs:
        kernels, problems = ([], []) if beside is None else gradients_of(spec, (*specs, *beside))
        gradients.append(kernels)
        found += problems
    if has_errors(found):
        raise SpecError(found)
    modules = []
    for (resolved, report), kernels in zip(planned, gradients, strict=True):
        plan = replace(make_plan(resolved), gradients=tuple(kernels))
        module, regions = render(plan, path)
        found += clashes(module, resolved)
        spec = resolved.by_argument
        modules.append(Module(f"{spec.kernel}.py", module, spec, plan, report.inferred, regions))
    if has_errors(found):
        raise SpecError(found)
    return Generated(tuple(modules), tuple(ordered(found)))


def module_of(spec: KernelSpec) -> Module:
    """The module of a kernel alone, whose op has no gradient. Raises `SpecError` if the spec has an error."""
    report = Report(spec.source)
    resolved = resolve(spec, report)
    if not report.failed:
        check(resolved, report)
    if report.failed:
        raise SpecError(report.diagnostics)
    plan = make_plan(resolved)
    text, regions = render(plan, spec.source.path)
    if problems := clashes(text, resolved):
        raise SpecError(problems)
    return Module(f"{resolved.kernel}.py", text, resolved.by_argument, plan, report.inferred, regions)


def _said_of_some(planned: list[tuple[KernelSpec, Report]]) -> list[Diagnostic]:
    """The diagnostics of a matrix's kernels, with the kernels' names where they were not said of all of them."""
    names: dict[Diagnostic, list[str]] = {}
    for spec, report in planned:
        for diagnostic in dict.fromkeys(report.diagnostics):
            names.setdefault(diagnostic, []).append(spec.kernel)
    return [
        d if len(kernels) == len(planned) else replace(d, notes=(*d.notes, f"in {', '.join(kernels)}"))
        for d, kernels in names.items()
    ]
