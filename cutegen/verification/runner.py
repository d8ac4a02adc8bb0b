"""Runs a case of a kernel on an executor and judges what comes back."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from types import ModuleType
from typing import TYPE_CHECKING
from warnings import catch_warnings, simplefilter

from cutegen import contract
from cutegen.errors import plain
from cutegen.language.model import KernelSpec
from cutegen.planning.plan import Plan
from cutegen.reference.bounds import Expected
from cutegen.reference.masks import some
from cutegen.reference.taking import view_of
from cutegen.verification.asked import family_of
from cutegen.verification.case_request import Data
from cutegen.verification.cases import Case
from cutegen.verification.compare import Comparison, bits_of, compare, together
from cutegen.verification.executor import CannotRun, Executor, Ran
from cutegen.verification.given import Given, give
from cutegen.verification.lacking import NoMemory, raise_no_memory
from cutegen.verification.report import CaseReport, Status
from cutegen.verification.returned import WrongReturn
from cutegen.verification.tensors import Guarded, by_view, digest, poisons
from cutegen.views.sizes import sizes_of

if TYPE_CHECKING:
    import torch


class _Failure(Exception):
    """Says that a case failed; the message is for people."""

    def __init__(self, message: str, comparison: Comparison | None = None) -> None:
        super().__init__(message)
        self.comparison = comparison


def verify_case(
    plan: Plan, case: Case, module: ModuleType, executor: Executor, orders: int = 1, made: Given | None = None
) -> CaseReport:
    """Runs one case and judges it. What it is given is made here, if it is not `made`.

    It runs in `orders` orders of blocks and warps where the executor can. Its result is compared with the bound and the
    spec's tolerance; guards, gaps and inputs are looked at; the module's own `reference` is compared with the same
    bound. Data whose bound says nothing about an output are replaced by better ones, if possible. Raises CannotRun, and
    NoMemory where the machine has not the memory for the case.
    """
    report = _judged(plan, case, module, executor, orders, made)
    if report.status == "failed" and executor.explains():
        try:
            again = _judged(plan, case, module, executor, orders)
        except (CannotRun, NoMemory):
            return report
        return again if again.status == "failed" else report  # what fails only once has failed
    return report


def _judged(
    plan: Plan, case: Case, module: ModuleType, executor: Executor, orders: int, made: Given | None = None
) -> CaseReport:
    """Runs one case and judges it, as `verify_case` does."""
    start = time.perf_counter()
    comparison: Comparison | None = None
    bits: set[str] = set()
    try:
        made = made or give(plan, case, executor.device)
        for run in range(poisons(plan.spec.by_argument)):
            if run:
                made = made.again(plan.spec, executor.device, run)
            found, ran = _run(plan, made, module, executor, run, orders, bits)
            comparison = found if comparison is None or found.ratio > comparison.ratio else comparison
            if ran.whole:
                break
        told = " ".join(sorted(bits))
        report = _report(case, "passed", "", comparison)
        report = replace(report, orders=ran.orders, unjudged=made.unjudged, given=made.digest, bits=told)
    except _Failure as failure:
        report = _report(case, "failed", str(failure), failure.comparison)
    except CannotRun:
        raise
    except Exception as error:
        raise_no_memory(error)
        report = _report(case, "failed", f"could not be run: {describe(error)}")
    return replace(report, seconds=time.perf_counter() - start)


def _run(
    plan: Plan, made: Given, module: ModuleType, executor: Executor, run: int, orders: int, bits: set[str]
) -> tuple[Comparison, Ran]:
    """Runs a case once: how its outputs compare, and how it ran. Adds a digest of what was computed to `bits`: of each
    target's code.
    """
    spec, case, tensors, expected = plan.spec.by_argument, made.case, made.tensors, made.expected
    args: list[object] = [*(t.view for t in tensors), *made.scalars.values()]
    if run == 0:
        _check_reference(spec, module, args, tensors, made.of_torch)
    comparisons: list[Comparison] = []
    outputs = [t for t in by_view(tensors) if t.tensor.name in expected]

    def judge(by: str) -> None:
        executor.synchronize()
        found, problems = [], [p for t in tensors if (p := t.problem())]
        for output in outputs:
            comparison, problem = _judge_output(spec, output, expected[output.tensor.name], case.data)
            found.append(comparison)
            problems += [problem] if problem else []
        if problems:
            raise _Failure(f"{by}: " * bool(by) + "; ".join(problems), together(found))
        comparisons.append(together(found))
        bits.add(digest(t.elements for t in outputs))

    if case.blocks is not None:  # of that kernel: another target may have one that is not persistent
        executor = executor.for_targets(_targets_of(plan, case))
    try:
        with contract.choosing(module, case.chosen):
            ran = executor.run(module, spec, args, orders, judge, None, case.blocks)
    except (CannotRun, _Failure):
        raise
    except WrongReturn as error:
        raise _Failure(str(error)) from error
    except Exception as error:
        raise_no_memory(error, module, _bytes(plan, case, tensors))
        raise _Failure(f"the call raised {describe(error)}") from error
    return max(comparisons, key=lambda comparison: comparison.ratio), ran


def _targets_of(plan: Plan, case: Case) -> tuple[str, ...]:
    """The targets on which a case runs the kernel that it is of."""
    kernel = next((kernel for kernel in plan.kernels if kernel.case == case.of[0]), plan)
    return plan.targets_of(kernel, case.sizes)


def _bytes(plan: Plan, case: Case, tensors: Sequence[Guarded]) -> int:
    """The memory of a call: of its tensors and of its workspaces."""
    return sum(t.buffer.nbytes for t in tensors) + sum(s.bytes(case.sizes) for s in family_of(plan.spec).scratch(plan))


def _judge_output(spec: KernelSpec, output: Guarded, expected: Expected, data: Data) -> tuple[Comparison, str]:
    """An output against its bound and the spec's tolerance, and what is wrong with it, empty if nothing is.

    The tolerance is one of numbers as they usually are: sums of special values cancel to any relative error.
    """
    name, tolerance = output.tensor.name, spec.verify.tolerance if data != "special" else None
    rtol, atol = (tolerance.rtol, tolerance.atol) if tolerance else (None, None)
    comparison = compare(output.elements, *expected, rtol=rtol, atol=atol)
    if unwritten := output.unwritten():
        return comparison, unwritten
    if not comparison.ok:
        return comparison, f"{name}{comparison.reason}"
    return comparison, ""


def _check_reference(
    spec: KernelSpec,
    module: ModuleType,
    args: Sequence[object],
    tensors: Sequence[Guarded],
    expected: Mapping[str, Expected],
) -> None:
    """Holds the module's `reference` to the same bounds as the kernel, or to those of torch on a GPU. Raises _Failure.

    It must give a fresh tensor like the output, or a tuple of one like each. This is the one place where users'
    reference meets the independent one.
    """
    try:
        places, named = contract.as_called(spec, args)
        with catch_warnings():
            simplefilter("ignore")  # of no elements, and of the variance of one
            result = module.reference(*places, **named)
    except Exception as error:
        raise_no_memory(error)
        raise _Failure(f"reference raised {describe(error)}") from error
    names = [tensor.name for tensor in spec.outputs]
    several = len(names) > 1
    if several and not (isinstance(result, tuple) and len(result) == len(names)):
        what = f"{len(result)} results" if isinstance(result, tuple) else type(result).__name__
        raise _Failure(f"reference returned {what}, not a tuple of {len(names)} tensors")
    results = dict(zip(names, result if several else (result,), strict=True))
    for name, given in results.items():
        output = next(t for t in tensors if t.tensor.name == name).view
        if problem := _unlike(given, output, tensors, f" as {name}" * several):
            raise _Failure(f"reference returned {problem}")
    if problem := next((p for t in tensors if (p := t.problem())), None):
        raise _Failure(f"reference changed an argument: {problem}")
    touched = next((t for t in tensors if not t.untouched), None)
    if touched is not None:
        raise _Failure(f"reference wrote to {touched.tensor.name}")
    for name, given in results.items():
        made = next(t for t in tensors if t.tensor.name == name)
        sizes = sizes_of(spec.tensors, spec.static, {t.tensor.name: t.view.shape for t in tensors})
        values = {name: given if made.index is None else given[made.index]}
        if made.parts:
            values = {t.name: view_of(spec, made.tensor, t, given, sizes) for t in made.tensor.views if t.writes}
        for own, found in values.items():
            comparison = compare(found, *expected[own])
            if not comparison.ok:
                raise _Failure(f"reference: {own}{comparison.reason}", comparison)
        if made.parts and made.tensor.reads:
            kept = made.view.clone()
            for view in (t for t in made.tensor.views if t.writes):
                view_of(spec, made.tensor, view, kept, sizes).copy_(values[view.name])
            if some(bits_of(kept) != bits_of(given)):
                raise _Failure(f"reference changed elements of {name} that no view writes")


def _unlike(result: object, output: torch.Tensor, tensors: Sequence[Guarded], place: str) -> str | None:
    """How a result of `reference` differs from a fresh tensor like the output; `place` says which of several it is."""
    import torch

    if not isinstance(result, torch.Tensor):
        return f"{type(result).__name__}{place}, not a tensor"
    for what in ("shape", "dtype", "device"):
        found, wanted = getattr(result, what), getattr(output, what)
        if found != wanted:
            return f"{what} {found}{place}, the output has {wanted}"
    storage = result.untyped_storage().data_ptr()
    if result.numel() and any(t.view.untyped_storage().data_ptr() == storage for t in tensors):
        return f"a view of an argument{place}, not a fresh tensor"
    return None


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


def describe(error: BaseException) -> str:
    """An exception's type and message in one line, without the advice that CUDA appends to every error."""
    text = " ".join(plain(str(error)).split("\nCUDA kernel errors might be")[0].split())
    return f"{type(error).__name__}: {text[:1000]}" if text else type(error).__name__
