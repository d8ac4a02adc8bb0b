"""Modules of rows that wait in shared memory, with and without mistakes in their text, run on the emulator."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from functools import lru_cache
from pathlib import Path

from cutegen.codegen import Module, generate
from cutegen.verification.cases import derive_cases
from cutegen.verification.executor import EmulatorExecutor, load_module
from cutegen.verification.runner import verify_case


@lru_cache
def module_of(text: str) -> Module:
    """The module of a spec."""
    (module,) = generate(text, "x.yaml").modules
    return module


def problems_of(text: str, names: Collection[str], folder: Path, changes: Mapping[str, str] | None = None) -> list[str]:
    """What is wrong with the module of a spec, with changes to its text, in those of its cases that have these names;
    of a schedule of several cases in those of the first. With changes it ends at the first problem.
    """
    module = module_of(text)
    printed, kernel = module.text, module.plan.kernels[0]
    for old, new in (changes or {}).items():
        assert old in printed, f"{old} is not in the module: adapt the change"
        printed = printed.replace(old, new)
    path = folder / f"{module.spec.kernel}.py"
    path.write_text(printed, encoding="utf-8")
    loaded, executor = load_module(path), EmulatorExecutor(lines=False)
    end = f", {kernel.case}" if kernel.case else ""
    cases = [case for case in derive_cases(module.plan) if case.name in {f"{name}{end}" for name in names}]
    assert len(cases) >= 3 and {f"rows{end}", f"special values{end}"} <= {case.name for case in cases}
    problems = []
    for case in cases:
        report = verify_case(module.plan, case, loaded, executor)
        if report.status != "passed":
            problems.append(f"{report.name}: {report.message}")
            if changes:
                break
    return problems
