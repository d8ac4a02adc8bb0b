"""Makes every check of a module's host code, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice
from types import ModuleType

from cutegen.hostchecks import far_blocks, long_sums, memory, ops, promises, sizes, wrong_tensors
from cutegen.hostchecks.judging import Check, Host, NotRun
from cutegen.planning.plan import Plan
from cutegen.verification.cases import Case
from cutegen.verification.executor import Executor
from cutegen.verification.report import HostCheck
from cutegen.verification.scalars import scalar_values
from cutegen.verification.sharing import WHOLE, Share
from cutegen.verification.tensors import make_tensors


def host_checks(
    plan: Plan,
    module: ModuleType,
    executor: Executor,
    started: Callable[[str], None] = lambda name: None,
    share: Share = WHOLE,
) -> Iterator[HostCheck]:
    """Makes every check, or a share of them, and yields its result; `started` is told each one's name before.

    Arguments must be as they were after a call that is refused. Once the device does not answer, the rest is not run.
    Raises CannotRun.
    """
    case = Case("host checks", "wrong calls", sizes.small(plan.spec), "padded", "integers")
    tensors = make_tensors(plan.spec, case, executor.device)
    host = Host(plan, module, executor, case, tensors, scalar_values(plan.spec, case))
    lost = False
    for check in islice(_checks(host), share.number, None, share.of):
        if lost:
            why = "the device stopped answering in a check before"
            yield HostCheck(check.argument, check.what, "not run", why, "device lost")
            continue
        started(f"{check.argument}: {check.what}")
        try:
            problem = check.run()
        except NotRun as error:
            yield HostCheck(check.argument, check.what, "not run", str(error), "cannot run")
            continue
        yield HostCheck(check.argument, check.what, "failed" if problem else "passed", problem)
        lost = bool(problem) and not executor.alive()


def _checks(host: Host) -> Iterator[Check]:
    for number in range(len(host.tensors)):
        yield from wrong_tensors.checks(host, number)
    yield from sizes.checks(host)
    for kernel in host.plan.kernels:
        usual = replace(host, plan=kernel.spec.family.variants(kernel)[0], whole=host.plan)
        if kernel is not host.plan:
            usual = replace(usual, executor=host.executor.for_targets(kernel.spec.targets))
        for check in (*far_blocks.checks(usual), *long_sums.checks(usual)):
            yield replace(check, what=f"{check.what}, {kernel.case}") if kernel.case else check
    yield from memory.checks(host)
    yield from promises.checks(host)
    yield from ops.checks(host)
