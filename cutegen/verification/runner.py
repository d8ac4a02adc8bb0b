"""Runs one kernel's cases on an executor and judges what comes back."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING

from cutegen.language.model import KernelSpec
from cutegen.verification.bounds import evaluate
from cutegen.verification.cases import Case, derive_cases
from cutegen.verification.compare import Comparison, compare
from cutegen.verification.executor import Executor, load_module
from cutegen.verification.host_checks import host_checks
from cutegen.verification.report import CaseReport, HostCheck, KernelReport
from cutegen.verification.tensors import Guarded, make_tensors, poisons, scalar_values

if TYPE_CHECKING:
    import torch

Progress = Callable[[str, CaseReport | HostCheck | None], None]


class _Failure(Exception):
    """A case's verdict; the message is for people."""

    def __init__(self, message: str, comparison: Comparison | None = None) -> None:
        super().__init__(message)
        self.comparison = comparison


def verify_kernel(
    spec: KernelSpec,
    tile: Mapping[str, int],
    stages: int | None,
    module_path: Path,
    executor: Executor,
    progress: Progress | None = None,
) -> KernelReport:
    """Every derived case and every host check of one generated module.

    `spec` is resolved, `tile` and `stages` are its plan's. `progress` is called with the name of what starts, and
    again with its report once it is done. Raises nothing for a bad kernel: that is what the report is for. Once the
    device does not answer any more, the rest is reported as not run.
    """
    start = time.perf_counter()
    tell = progress or (lambda name, report: None)
    report = KernelReport(spec.kernel, str(module_path), executor.name)
    try:
        module = load_module(module_path)
        missing = [n for n in (spec.kernel, "reference", "make_inputs", "compile") if not callable(vars(module).get(n))]
    except Exception as error:
        return replace(report, error=f"the module does not load: {describe(error)}")
    if missing:
        return replace(report, error=f"the module has no function {', '.join(missing)}")
    cases: list[CaseReport] = []
    dead = ""
    for case in derive_cases(spec, tile, stages):
        tell(case.name, None)
        too_large = _too_large(spec, case, executor.element_limit)
        if dead or too_large:
            result = _report(case, "not run", dead or too_large)
        else:
            result = verify_case(spec, case, module, executor)
            if result.status == "failed" and not executor.alive():
                dead = f"the device stopped answering in case {case.name}"
        cases.append(result)
        tell(case.name, result)
    checks: list[HostCheck] = []
    try:
        for check in [] if dead else host_checks(spec, module, executor, lambda name: tell(name, None)):
            checks.append(check)
            tell(f"{check.argument}: {check.what}", check)
    except Exception as error:
        dead = f"the host checks could not go on: {describe(error)}"
    return replace(
        report, cases=tuple(cases), host_checks=tuple(checks), error=dead, seconds=time.perf_counter() - start
    )


def verify_case(spec: KernelSpec, case: Case, module: ModuleType, executor: Executor) -> CaseReport:
    """One case: run, compare with the bound and the spec's tolerance, look at guards, gaps and inputs, and hold the
    module's own `reference` to the same bound."""
    start = time.perf_counter()
    comparison: Comparison | None = None
    try:
        for run in range(poisons(spec)):
            found = _run(spec, case, module, executor, run)
            comparison = found if comparison is None or found.ratio > comparison.ratio else comparison
        report = _report(case, "passed", "", comparison)
    except _Failure as failure:
        report = _report(case, "failed", str(failure), failure.comparison)
    except Exception as error:
        report = _report(case, "failed", f"could not be run: {describe(error)}")
    return replace(report, seconds=time.perf_counter() - start)


def _run(spec: KernelSpec, case: Case, module: ModuleType, executor: Executor, run: int) -> Comparison:
    tensors = make_tensors(spec, case, executor.device, run)
    scalars = scalar_values(spec, case)
    views = {t.tensor.name: t.view for t in tensors}
    expected, bound = evaluate(spec, views, scalars)
    args: list[object] = [*views.values(), *scalars.values()]
    if run == 0:
        _check_reference(spec, module, args, tensors, expected, bound)
    try:
        executor.run(module, spec.kernel, args)
        executor.synchronize()
    except Exception as error:
        raise _Failure(f"the call raised {describe(error)}") from error
    output = next(t for t in tensors if t.tensor.name == spec.output.name)
    comparison = compare(output.view, expected, bound, spec.verify.rtol, spec.verify.atol)
    problems = [p for t in tensors if (p := t.problem())]
    if unwritten := output.unwritten():
        problems.append(unwritten)
    elif not comparison.ok:
        problems.append(f"{spec.output.name}{comparison.reason}")
    elif comparison.count and not comparison.judged and case.data != "special":
        problems.append("the bound says nothing about any element, so nothing was checked")
    if problems:
        raise _Failure("; ".join(problems), comparison)
    return comparison


def _check_reference(
    spec: KernelSpec,
    module: ModuleType,
    args: Sequence[object],
    tensors: Sequence[Guarded],
    expected: torch.Tensor,
    bound: torch.Tensor,
) -> None:
    """The module's `reference` gives a fresh tensor of the output's shape, dtype and device, within the same bound.
    This is the one place where users' reference meets the independent one."""
    import torch

    output = next(t for t in tensors if t.tensor.name == spec.output.name).view
    try:
        result = module.reference(*args)
    except Exception as error:
        raise _Failure(f"reference raised {describe(error)}") from error
    if not isinstance(result, torch.Tensor):
        raise _Failure(f"reference returned {type(result).__name__}, not a tensor")
    for what in ("shape", "dtype", "device"):
        found, wanted = getattr(result, what), getattr(output, what)
        if found != wanted:
            raise _Failure(f"reference returned {what} {found}, the output has {wanted}")
    if result.numel() and any(
        t.view.untyped_storage().data_ptr() == result.untyped_storage().data_ptr() for t in tensors
    ):
        raise _Failure("reference returned a view of an argument, not a fresh tensor")
    if problem := next((p for t in tensors if (p := t.problem())), None):
        raise _Failure(f"reference changed an argument: {problem}")
    untouched = all(torch.equal(t.buffer, t.original) for t in tensors)
    if not untouched:
        raise _Failure(f"reference wrote to {spec.output.name}")
    comparison = compare(result, expected, bound)
    if not comparison.ok:
        raise _Failure(f"reference: {spec.output.name}{comparison.reason}", comparison)


def _report(case: Case, status: str, message: str, comparison: Comparison | None = None) -> CaseReport:
    assert status in ("passed", "failed", "not run")
    report = CaseReport(case.name, case.why, dict(case.sizes), case.layout, case.data, status, message)  # type: ignore[arg-type]
    if comparison is None:
        return report
    return replace(
        report,
        max_error=comparison.max_error,
        max_bound=comparison.max_bound,
        ratio=comparison.ratio,
        elements=comparison.count,
        unbounded=comparison.unbounded,
    )


def _too_large(spec: KernelSpec, case: Case, limit: int | None) -> str:
    if limit is None:
        return ""
    largest = max(math.prod(case.sizes[m] for m in t.shape) for t in spec.tensors)
    if largest > limit:
        return f"{largest} elements in a tensor; at most {limit} are run here"
    work = math.prod(case.sizes.values())
    if spec.compute.matmul is not None and work > 64 * limit:
        return f"{work} multiply-adds; at most {64 * limit} are run here"
    return ""


def describe(error: BaseException) -> str:
    """Type and message, without the advice that CUDA appends to every error."""
    text = str(error).split("\nCUDA kernel errors might be")[0].strip()
    return f"{type(error).__name__}: {text[:600]}" if text else type(error).__name__
