"""Makes every check of a module's host code, one after the other."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from itertools import chain
from math import lcm
from types import ModuleType

from cutegen.contract import copies
from cutegen.hostchecks import (
    far_blocks,
    far_places,
    grids,
    long_sums,
    memory,
    ops,
    promises,
    sizes,
    stand_ins,
    wrong_tensors,
)
from cutegen.hostchecks.judging import Check, Host, NotRun
from cutegen.planning.plan import Plan
from cutegen.verification.cases import Case
from cutegen.verification.executor import CannotRun, Executor
from cutegen.verification.forms import runners_of_forms
from cutegen.verification.lacking import NoMemory
from cutegen.verification.report import HostCheck, Reason
from cutegen.verification.scalars import scalar_values
from cutegen.verification.sharing import Share, Whole
from cutegen.verification.tensors import make_tensors


def host_checks(
    plan: Plan, module: ModuleType, executor: Executor, started: Callable[[str], None] = lambda name: None
) -> Iterator[HostCheck]:
    """Makes every check, and yields its result, as `numbered_checks` does."""
    for _, check in numbered_checks(plan, module, executor, started, Whole(), []):
        yield check


def numbered_checks(
    plan: Plan,
    module: ModuleType,
    executor: Executor,
    started: Callable[[str], None],
    share: Share,
    named: list[tuple[str, str, bool]],
    cheap: bool = False,
) -> Iterator[tuple[int, HostCheck]]:
    """Makes those checks that are in a share, and yields their numbers and results; `started` gets each one's name
    before. With `cheap`, only those are made for which nothing is compiled or run. `named` gets the argument and the
    words of every check, and whether it is to be made.

    Arguments must be as they were after a call that is refused. Once the device does not answer, the rest is not run.
    Raises CannotRun.
    """
    case = Case("host checks", "wrong calls", sizes.small(plan.spec), "padded", "integers")
    tensors = make_tensors(plan.spec, case, executor.device)
    host = Host(plan, module, executor, case, tensors, scalar_values(plan.spec, case))

    def noted() -> Iterator[tuple[int, Check]]:
        for number, (check, is_cheap) in enumerate(_checks(host)):
            named.append((check.argument, check.what, is_cheap or not cheap))
            if is_cheap or not cheap:
                yield number, check

    lost = False
    for _, (number, check) in share.of(noted()):
        if lost:
            why = "the device stopped answering in a check before"
            yield number, HostCheck(check.argument, check.what, "not run", why, "device lost")
            continue
        started(f"{check.argument}: {check.what}")
        try:
            problem = _problem(check, host)
            if problem and executor.explains():
                with suppress(NotRun, NoMemory):
                    problem = _problem(check, host) or problem  # what fails only once has failed
        except (NotRun, NoMemory) as error:
            reason: Reason = "no memory" if isinstance(error, NoMemory) else "cannot run"
            yield number, HostCheck(check.argument, check.what, "not run", str(error), reason)
            continue
        yield number, HostCheck(check.argument, check.what, "failed" if problem else "passed", problem)
        lost = bool(problem) and not executor.alive()


def _problem(check: Check, host: Host) -> str:
    """Runs a check; returns what is wrong. Raises NotRun, CannotRun, and NoMemory if the machine lacks the memory."""
    try:
        return check.run()
    except (NotRun, CannotRun):
        raise
    except Exception as error:
        host.look_at_memory(error, host.views.values())
        raise


def _as_far_as_memory(checks: Iterable[Check], host: Host, what: str) -> Iterator[Check]:
    """The checks; some make their arguments first, and do not run without memory for these."""
    try:
        yield from checks
    except Exception as error:
        lacking = error

        def run() -> str:
            host.look_at_memory(lacking, host.views.values())
            raise lacking

        yield Check(host.spec.output.argument, f"the rest of the checks of {what}", run)


def _checks(host: Host) -> Iterator[tuple[Check, bool]]:
    """All checks, and whether each is cheap."""
    for number in range(len(host.tensors)):
        wrong = wrong_tensors.checks(host, number)
        yield from _marked(wrong, host, host.spec.tensors[number].argument, cheap=True)
    yield from _marked(sizes.checks(host), host, "sizes")
    yield from _marked(grids.checks(host), host, "grids")
    runners = runners_of_forms(host.plan)
    for kernel in (kernel for place, kernel in enumerate(host.plan.kernels) if place in runners):
        usual = replace(host, plan=_uncopied(host, kernel), whole=host.plan, chosen=host.plan.chosen_as(kernel))
        if kernel is not host.plan:
            if not host.executor.has_code_for(kernel.spec.targets):
                continue  # calls take others here
            usual = replace(usual, executor=host.executor.for_targets(kernel.spec.targets))
        many = chain(far_blocks.checks(usual), far_places.checks(usual), long_sums.checks(usual))
        for check, cheap in _marked(many, host, "many tiles"):
            yield replace(check, what=f"{check.what}, {kernel.case}") if kernel.case else check, cheap
    yield from _marked(memory.checks(host), host, "memory")
    yield from _marked(promises.checks(host), host, "what the module promises")
    yield from _marked(stand_ins.checks(host), host, "launches", cheap=True)
    yield from _marked(ops.checks(host), host, "the op")


def _uncopied(host: Host, kernel: Plan) -> Plan:
    """The first way in which a kernel runs, with the promises under which no call of the module copies its tensors:
    there is no memory for more of what is large.
    """
    copied = [other.ways[0].spec for other in host.plan.kernels if len(other.ways) > 1]
    plan, spec = kernel.ways[0], kernel.ways[0].spec
    if not copies(host.module) or len(kernel.ways) > 1:
        return plan
    tensors = tuple(replace(t, align=max(x.tensor(t.name).align or 1 for x in (spec, *copied))) for t in spec.tensors)
    divisible = {mode: lcm(*(x.divisible.get(mode, 1) for x in (spec, *copied))) for mode in spec.modes}
    return replace(plan, spec=replace(spec, tensors=tensors, divisible=divisible))


def _marked(checks: Iterable[Check], host: Host, what: str, *, cheap: bool = False) -> Iterator[tuple[Check, bool]]:
    return ((check, cheap) for check in _as_far_as_memory(checks, host, what))
