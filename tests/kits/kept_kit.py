"""Modules of row kernels, with and without mistakes in their text, run on the emulator."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.families.rowwise.plan import RowwisePlan
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


@lru_cache
def module_of(text: str) -> Module:
    """The module of a spec."""
    (module,) = generate(text, "x.yaml").modules
    return module


def problems_of(text: str, names: Collection[str], folder: Path, changes: Mapping[str, str] | None = None) -> list[str]:
    """The problems of the module of a spec, with changes to its text, in the named cases; for a schedule of several
    cases, in those of the first. With changes, it stops at the first problem.
    """
    module = module_of(text)
    kernel = module.plan.kernels[0]
    end = f", {kernel.case}" if kernel.case else ""
    cases = [case for case in derive_cases(module.plan) if case.name in {f"{name}{end}" for name in names}]
    assert len(cases) >= 3 and {f"rows{end}", f"special values{end}"} <= {case.name for case in cases}
    problems = problems_in(text, cases, folder, changes)
    return list(islice(problems, 1 if changes else None))


def problems_in(
    text: str, cases: Iterable[Case], folder: Path, changes: Mapping[str, str] | None = None
) -> Iterator[str]:
    """The problems of the module of a spec, with changes to its text, in some cases, one at a time."""
    module = module_of(text)
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(changed(module, changes or {}), encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        if report.status != "passed":
            yield f"{report.name}: {report.message}"


def changed(module: Module, changes: Mapping[str, str]) -> str:
    """The text of a module with others in place of parts of it."""
    printed = module.text
    for old, new in changes.items():
        assert old in printed, f"{old} is not in the module: adapt the change"
        printed = printed.replace(old, new)
    return printed


def plan_of(text: str) -> RowwisePlan:
    """The plan of a spec of one row kernel."""
    plan = module_of(text).plan
    assert isinstance(plan, RowwisePlan)
    return plan
