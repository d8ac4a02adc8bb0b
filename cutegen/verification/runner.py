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
from cutegen.verification.executor import CannotRun, Executor, load_module
from cutegen.verification.host_checks import host_checks
from cutegen.verification.orders import ORDERS, case_for_orders
from cutegen.verification.report import CaseReport, HostCheck, KernelReport, Reason, Status
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
    """Every derived case and every host check of one generated module; one case in several orders of blocks and warps.

    `spec` is resolved, `tile` and `stages` are its plan's. `progress` is called with the name of what starts, and
    again with its report once it is done. Raises nothing for a bad kernel: that is what the report is for. Once the
    executor cannot go on, the rest is reported as not run.
    """
    start = time.perf_counter()
    tell = progress or (lambda name, report: None)
    report = KernelReport(spec.kernel, str(module_path), executor.name)
    try:
        module = load_module(module_path)
        missing = [n for n in (spec.kernel, "reference", "make_inputs", "compile") if not callable(vars(module).get(n))]
    except Exception as error:
        return replace(report, error=f"the module does not load: {describe(error)}", reason="not loaded")
    if missing:
        return replace(report, error=f"the module has no function {', '.join(missing)}", reason="not loaded")
    planned = derive_cases(spec, tile, stages)
    too_large = {case.name: why for case in planned if (why := _too_large(spec, case, executor.element_limit))}
    in_orders = case_for_orders(spec, tile, stages, [case for case in planned if case.name not in too_large])
    cases: list[CaseReport] = []
    reason: Reason | None = None
    why = ""
    for case in planned:
        tell(case.name, None)
        if reason is not None:
            result = CaseReport.of(case, "not run", why, reason)
        elif case.name in too_large:
            result = CaseReport.of(case, "not run", too_large[case.name], "too large")
        else:
            try:
                result = verify_case(spec, case, module, executor, ORDERS if case is in_orders else 1)
            except CannotRun as error:
                reason, why = "cannot run", str(error)
                result = CaseReport.of(case, "not run", why, reason)
            if result.status == "failed" and not executor.alive():
                reason, why = "device lost", f"the device stopped answering in case {case.name}"
        cases.append(result)
        tell(case.name, result)
    checks: list[HostCheck] = []
    if reason is None:
        try:
            for check in host_checks(spec, module, executor, lambda name: tell(name, None)):
                checks.append(check)
                tell(f"{check.argument}: {check.what}", check)
        except CannotRun as error:
            reason, why = "cannot run", str(error)
        except Exception as error:
            why = f"the host checks could not go on: {describe(error)}"
    seconds = time.perf_counter() - start
    return replace(report, cases=tuple(cases), host_checks=tuple(checks), error=why, reason=reason, seconds=seconds)


def verify_case(spec: KernelSpec, case: Case, module: ModuleType, executor: Executor, orders: int = 1) -> CaseReport:
    """One case: run, in `orders` orders of blocks and warps where the executor can, compare with the bound and the
    spec's tolerance, look at guards, gaps and inputs, and hold the module's own `reference` to the same bound. Raises
    CannotRun."""
    start = time.perf_counter()
    comparison: Comparison | None = None
    try:
        for run in range(poisons(spec)):
            found, ran = _run(spec, case, module, executor, run, orders)
            comparison = found if comparison is None or found.ratio > comparison.ratio else comparison
        report = replace(_report(case, "passed", "", comparison), orders=ran)
    except _Failure as failure:
        report = _report(case, "failed", str(failure), failure.comparison)
    except CannotRun:
        raise
    except Exception as error:
        report = _report(case, "failed", f"could not be run: {describe(error)}")
    return replace(report, seconds=time.perf_counter() - start)


def _run(
    spec: KernelSpec, case: Case, module: ModuleType, executor: Executor, run: int, orders: int
) -> tuple[Comparison, int]:
    """What came out, and in how many orders it ran."""
    tensors = make_tensors(spec, case, executor.device, run)
    scalars = scalar_values(spec, case)
    views = {t.tensor.name: t.view for t in tensors}
    expected, bound = evaluate(spec, views, scalars)
    args: list[object] = [*views.values(), *scalars.values()]
    if run == 0:
        _check_reference(spec, module, args, tensors, expected, bound)
    output = next(t for t in tensors if t.tensor.name == spec.output.name)
    comparisons: list[Comparison] = []

    def judge(by: str) -> None:
        executor.synchronize()
        comparison = compare(output.view, expected, bound, spec.verify.rtol, spec.verify.atol)
        problems = [p for t in tensors if (p := t.problem())]
        if unwritten := output.unwritten():
            problems.append(unwritten)
        elif not comparison.ok:
            problems.append(f"{spec.output.name}{comparison.reason}")
        elif comparison.count and not comparison.judged and case.data != "special":
            problems.append("the bound says nothing about any element, so nothing was checked")
        if problems:
            raise _Failure(f"{by}: " * bool(by) + "; ".join(problems), comparison)
        comparisons.append(comparison)

    try:
        ran = executor.run(module, spec, args, orders, judge)
    except (CannotRun, _Failure):
        raise
    except Exception as error:
        raise _Failure(f"the call raised {describe(error)}") from error
    return max(comparisons, key=lambda comparison: comparison.ratio), ran


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


def _report(case: Case, status: Status, message: str, comparison: Comparison | None = None) -> CaseReport:
    report = CaseReport.of(case, status, message)
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
    """Type and message, in one line, without the advice that CUDA appends to every error."""
    text = " ".join(str(error).split("\nCUDA kernel errors might be")[0].split())
    return f"{type(error).__name__}: {text[:600]}" if text else type(error).__name__
