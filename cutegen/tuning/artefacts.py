"""Candidates through the compiler: those that do not compile, spill or cannot be launched are out."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from cutegen.analysis.occupancy import occupancy
from cutegen.codegen import Module
from cutegen.compiling import Artefact, Cache, Compiled, Job, Outcome, compile_until
from cutegen.tuning.model import FAILED, REGISTERS, SPILLS, Candidate, Dropped

Compile = Callable[..., list[Outcome | None]]  # as `compile_until`


def compile_candidates(
    candidates: Sequence[Candidate],
    targets: Sequence[str],
    kernels: Sequence[str],
    *,
    workers: int | None,
    cache: Cache | None,
    on_start: Callable[[int], None],
    on_done: Callable[[str], None],
    until: float | None = None,
    compile: Compile = compile_until,
) -> list[Candidate | Dropped | None]:
    """Compiles the `kernels` of each candidate for each target; gives what became of each, in the candidates' order,
    and None for one that did not get through before the time `until`, by `time.monotonic`.

    Those that are left know their registers. The incumbent, number 0, may spill: it is what the spec says. Raises
    OSError where no worker process can start.
    """
    jobs: dict[Job, None] = {}
    wanted: list[list[tuple[Job, Module]]] = []
    for candidate in candidates:
        modules = [module for module in candidate.modules if module.spec.kernel in kernels]
        pairs = [(Job(module.text, module.spec.kernel, target), module) for module in modules for target in targets]
        wanted.append(pairs)
        jobs |= dict.fromkeys(job for job, _ in pairs)
    if jobs:
        on_start(len(jobs))
    outcomes = compile(
        list(jobs),
        until=until,
        workers=workers,
        cache=cache,
        on_done=lambda job, outcome: on_done(
            "" if isinstance(outcome, Compiled) else f"failed to compile a candidate of {job.kernel} for {job.target}"
        ),
    )
    by_job = dict(zip(jobs, outcomes, strict=True))
    judged: list[Candidate | Dropped | None] = []
    for candidate, pairs in zip(candidates, wanted, strict=True):
        ended = [(outcome, module) for job, module in pairs if (outcome := by_job[job]) is not None]
        found = _judged(candidate, ended)
        judged.append(found if isinstance(found, Dropped) or len(ended) == len(pairs) else None)
    return judged


def _judged(candidate: Candidate, compiled: Sequence[tuple[Outcome, Module]]) -> Candidate | Dropped:
    """Returns the candidate with its registers, or `Dropped` with the reason, by the outcomes of compiling it."""
    registers: dict[str, dict[str, int]] = {}
    for outcome, module in compiled:
        if not isinstance(outcome, Compiled):
            return Dropped(candidate.number, candidate.schedule, FAILED, f"{module.spec.kernel}: {outcome.message}")
        problem = None if candidate.number == 0 else unfit(outcome.artefact, module)
        if problem is not None:
            by, message = problem
            said = f"{module.spec.kernel} for {outcome.artefact.target}: {message}"
            return Dropped(candidate.number, candidate.schedule, by, said)
        if (found := outcome.artefact.resources.registers) is not None:
            registers.setdefault(module.spec.kernel, {})[outcome.artefact.target] = found
    return replace(candidate, registers=registers)


def unfit(artefact: Artefact, module: Module) -> tuple[str, str] | None:
    """Says why compiled code is no candidate: the word for it and the reason. None if it is one, or if nothing is
    known.
    """
    found, plan = artefact.resources, module.plan
    if found.spill_stores or found.spill_loads:
        return SPILLS, f"{found.spill_stores} bytes of spill stores, {found.spill_loads} of loads"
    if found.registers is None:
        return None
    room = occupancy(artefact.target, plan.threads, plan.smem_bytes, found.registers)
    if room.blocks == 0:
        return REGISTERS, f"{plan.threads} threads of {found.registers} registers do not fit a multiprocessor"
    allowed = module.spec.expect.registers
    if allowed is not None and not allowed.holds(found.registers):
        return REGISTERS, f"{found.registers} registers, and the spec expects {allowed}"
    return None
