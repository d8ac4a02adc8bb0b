"""Verifies one kernel in this process: its cases, then the checks of its host code."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import ModuleType

from cutegen import contract
from cutegen.hostchecks import numbered_checks
from cutegen.planning.plan import Plan
from cutegen.verification.agenda import EVERYTHING, Agenda, Extent, agenda_of
from cutegen.verification.executor import CannotRun, Executor, load_module
from cutegen.verification.given import MadeAhead
from cutegen.verification.lacking import NoMemory
from cutegen.verification.orders import ORDERS
from cutegen.verification.parts import Part, report_of
from cutegen.verification.report import CaseReport, HostCheck, KernelReport
from cutegen.verification.runner import describe, verify_case
from cutegen.verification.sharing import Share, Whole

Progress = Callable[[str, CaseReport | HostCheck | None], None]


def verify_kernel(
    plan: Plan,
    module_path: Path,
    executor: Executor,
    progress: Progress | None = None,
    extent: Extent = EVERYTHING,
) -> KernelReport:
    """Runs every derived case and every host check of one generated module, some cases in several orders of blocks and
    warps; as far as `extent` says.

    `progress` is called with the name of what starts, and again with its report once it is done. Raises nothing for a
    bad kernel: that is what the report is for. Once the executor cannot go on, the rest is reported as not run.
    """
    start, module = time.perf_counter(), loaded(plan, module_path, executor)
    if isinstance(module, KernelReport):
        return replace(module, in_part=extent.quick)
    agenda = agenda_of(plan, extent, executor.element_limit)
    part = verify_share(agenda, module, executor, progress)
    return report_of(agenda, str(module.__file__), executor.name, part, time.perf_counter() - start)


def loaded(plan: Plan, module_path: Path, executor: Executor) -> ModuleType | KernelReport:
    """A generated module, or the report that it does not load or lacks a function."""
    report = KernelReport(plan.spec.kernel, str(module_path), executor.name, reason="not loaded")
    try:
        module = load_module(module_path)
        lacks = contract.missing(module, plan.spec.kernel)
    except Exception as error:
        return replace(report, error=f"the module does not load: {describe(error)}")
    return replace(report, error=f"the module has no function {', '.join(lacks)}") if lacks else module


def verify_share(
    agenda: Agenda,
    module: ModuleType,
    executor: Executor,
    progress: Progress | None = None,
    share: Share | None = None,
    ahead: MadeAhead | None = None,
) -> Part:
    """Runs a share of a kernel's cases and host checks, by default all, and says what came of it. `ahead` has what was
    made for some of the cases before.

    The cases come in the agenda's order, then the checks. After a failure no process begins another one, unless the
    agenda's extent says so.
    """
    plan, part, share, ahead = agenda.plan, Part(), share or Whole(), ahead or MadeAhead()
    tell = progress or (lambda name, report: None)
    for place, number in share.of(agenda.turns):
        case = agenda.planned[number]
        tell(case.name, None)
        try:
            orders = ORDERS if number in agenda.in_orders else 1
            result = verify_case(plan, case, module, executor, orders, ahead.take(place))
        except NoMemory as error:
            result = CaseReport.of(case, "not run", str(error), "no memory")
        except CannotRun as error:
            part.error, part.reason = str(error), "cannot run"
            result = CaseReport.of(case, "not run", part.error, part.reason)
        if result.status == "failed" and not executor.alive():
            part.error, part.reason = f"the device stopped answering in case {case.name}", "device lost"
        part.cases[place] = result
        tell(case.name, result)
        if part.error or (result.status == "failed" and not agenda.extent.all):
            share.stop()
    ahead.forget()
    if part.error:
        return part
    try:
        checks = numbered_checks(
            plan, module, executor, lambda name: tell(name, None), share, part.named, agenda.extent.quick
        )
        for place, check in checks:
            part.checks[place] = check
            tell(f"{check.argument}: {check.what}", check)
            if check.status == "failed" and not agenda.extent.all:
                share.stop()
    except CannotRun as error:
        part.error, part.reason = str(error), "cannot run"
    except Exception as error:
        part.error = f"the host checks could not go on: {describe(error)}"
    return part
