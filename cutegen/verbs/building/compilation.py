"""Compiling the modules of a project, and holding them to what their specs expect."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass

from cutegen.compiling import Artefact, Cache, Compiled, Job, Outcome, compile_all
from cutegen.console import Progress
from cutegen.language.diagnostics import Diagnostic
from cutegen.project.sources import Unit
from cutegen.sass.expectations import check, reads_sass
from cutegen.verbs.building.failures import compile_failures
from cutegen.workers import processors


@dataclass(frozen=True)
class Compilation:
    """How one unit compiled, by target, and an error for everything that its spec does not accept of that."""

    outcomes: Mapping[str, Outcome]
    diagnostics: tuple[Diagnostic, ...]


def compile_units(
    units: Sequence[Unit],
    *,
    workers: int | None,
    cache: Cache | None,
    on_start: Callable[[int], None],
    on_done: Callable[[str, Outcome], None],
    target: str | None = None,
    targets: Sequence[Sequence[str]] | None = None,
    sass: bool = False,
) -> list[Compilation]:
    """Compiles every unit for every target of its spec, or for one of them if `target` is given, or for those that
    `targets` names of each. They are disassembled where `sass` or what the spec expects asks for that.

    `on_start` gets the number of those that the cache does not answer, if there are any; `on_done` gets `kernel for
    target` as each of them ends.

    Raises OSError where no worker process can be started.
    """
    wanted = [[t for t in unit.module.spec.targets if target in (None, t)] for unit in units]
    if targets is not None:
        wanted = [list(own) for own in targets]
    jobs = [
        Job(unit.module.text, unit.kernel, t, sass or reads_sass(unit.module.spec.expect))
        for unit, targets in zip(units, wanted, strict=True)
        for t in targets
    ]
    with ThreadPoolExecutor(workers or processors()) as threads:  # as some may have to be disassembled
        hits = threads.map(lambda job: _cached(job, cache), jobs)
        known = {number: hit for number, hit in enumerate(hits) if hit is not None}
    rest = [job for number, job in enumerate(jobs) if number not in known]
    if rest:
        on_start(len(rest))
    compiled = iter(
        compile_all(
            rest,
            workers=workers,
            cache=cache,
            on_done=lambda job, outcome: on_done(f"{job.kernel} for {job.target}", outcome),
        )
        if rest
        else []
    )
    outcomes = iter([known[number] if number in known else next(compiled) for number in range(len(jobs))])
    found = []
    for unit, targets in zip(units, wanted, strict=True):
        mine = {t: next(outcomes) for t in targets}
        unexpected = [d for o in mine.values() if isinstance(o, Compiled) for d in _unexpected(unit, o.artefact)]
        found.append(Compilation(mine, (*compile_failures(unit, mine), *unexpected)))
    return found


def compile_and_tell(
    units: Sequence[Unit],
    progress: Progress,
    *,
    workers: int | None,
    cache: Cache | None,
    target: str | None = None,
    targets: Sequence[Sequence[str]] | None = None,
    sass: bool = False,
    on_start: Callable[[int], None] | None = None,
) -> list[Compilation]:
    """Compiles units as `compile_units` does, and tells the progress of it."""

    def start(count: int) -> None:
        progress.start("compiling", count)
        if on_start is not None:
            on_start(count)

    def done(what: str, outcome: Outcome) -> None:
        ended = f" in {outcome.seconds:.1f} s" if isinstance(outcome, Compiled) else ""
        progress.step(f"compiled {what}{ended}" if ended else f"failed to compile {what}")

    try:
        return compile_units(
            units,
            workers=workers,
            cache=cache,
            on_start=start,
            on_done=done,
            target=target,
            targets=targets,
            sass=sass,
        )
    finally:
        progress.stop()


def notices_on(compilations: Sequence[Compilation], cache: Cache | None) -> list[str]:
    """Notices that are not errors: why artefacts are not cached, and why some facts about them are unknown."""
    warning = [cache.warning] if cache is not None and cache.warning else []
    artefacts = [o.artefact for c in compilations for o in c.outcomes.values() if isinstance(o, Compiled)]
    return list(dict.fromkeys([*warning, *(why for artefact in artefacts for why in artefact.missing)]))


def compiled_before(units: Sequence[Unit], cache: Cache) -> list[Mapping[str, Outcome]]:
    """The cached outcomes of each unit, by target."""
    found: list[Mapping[str, Outcome]] = []
    for unit in units:
        own = {t: _cached(Job(unit.module.text, unit.kernel, t), cache) for t in unit.module.spec.targets}
        found.append({target: compiled for target, compiled in own.items() if compiled is not None})
    return found


def _cached(job: Job, cache: Cache | None) -> Compiled | None:
    """The cached artefact of a job, as an outcome; None if there is none."""
    start = time.perf_counter()
    found = None if cache is None else cache.get(job)
    return None if found is None else Compiled(found, time.perf_counter() - start, cached=True)


def _unexpected(unit: Unit, artefact: Artefact) -> list[Diagnostic]:
    """An error for each expectation of the spec that the compiled kernel does not meet."""
    return [
        unit.diagnostic(
            "CG401",
            f"{failure.kernel} on {failure.target}: {failure.key.removeprefix('expect.')}: "
            f"wanted {failure.wanted}, found {failure.found}",
            *failure.path,
            notes=(failure.hint,) if failure.hint else (),
            help=failure.help or None,
        )
        for failure in check(unit.module.spec.expect, artefact)
    ]
