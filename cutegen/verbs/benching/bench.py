"""The flow of `cutegen bench`: modules into files, shapes for each, one worker for all of them."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.codegen.render import code_hash
from cutegen.console import Progress, count
from cutegen.exits import BROKEN, FINDINGS, INTERRUPTED, OK
from cutegen.measuring import Failure, KernelResult, Machine, Request, Session
from cutegen.measuring.model import L2, ROUNDS, time_text
from cutegen.measuring.shapes import shape_text
from cutegen.project.paths import shown
from cutegen.project.sources import Unit
from cutegen.receipts.write import Recorded, record_measured

GIVEN_UP = 3  # shapes in a row
_TOLD = 8  # shapes, each with its time, in a line of progress


@dataclass(frozen=True)
class BenchOptions:
    """How kernels are measured.

    `vs` are functions of the user's, as `Request` has them; `device` is a number among the GPUs that are visible.
    `apart` lets a kernel that crashed or hung at one shape go on with the next one. With `receipts` what is measured of
    a kernel is kept beside its module, before the next kernel begins.
    """

    device: int = 0
    l2: L2 = "cold"
    rounds: int = ROUNDS
    vs: tuple[str, ...] = ()
    apart: bool = False
    receipts: bool = False


@dataclass(frozen=True)
class Benched:
    """One kernel that was to be measured, and what came of it."""

    unit: Unit
    result: KernelResult


@dataclass(frozen=True)
class BenchReport:
    """The results of a run of `bench`.

    `machine` is None where no worker got far enough to look at it; the remaining kernels were not tried then.
    """

    machine: Machine | None
    kernels: tuple[Benched, ...]
    notes: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()  # those that were written
    problems: tuple[str, ...] = ()  # why others were not
    interrupted: bool = False  # by Ctrl-C, among shapes that are measured apart
    seconds: float = 0.0  # that all of it took

    @property
    def failures(self) -> list[tuple[Benched, Failure]]:
        """All failures, each with its kernel."""
        return [(benched, failure) for benched in self.kernels for failure in benched.result.failures]

    @property
    def exit_code(self) -> int:
        """The exit code of a run.

        It is 1 where something that was measured is wrong, unsteady or broke down, or a receipt could not be kept; 2
        where something could not run; 130 after Ctrl-C.
        """
        if self.interrupted:
            return INTERRUPTED
        kinds = {failure.kind for _, failure in self.failures}
        if kinds - {"cannot run"} or self.problems:
            return FINDINGS
        return BROKEN if kinds or not self.kernels else OK


def run_bench(
    units: Sequence[Unit],
    shapes: Sequence[Sequence[Mapping[str, int]]],
    options: BenchOptions,
    progress: Progress,
    session: Session | None = None,
) -> BenchReport:
    """Measures each unit at its shapes, one after the other. `session` is for tests: by default a new one.

    Raises OSError where no worker process can be started.
    """
    notes: list[str] = []
    found: list[Benched] = []
    kept: list[Recorded] = []
    interrupted = False
    start = time.monotonic()
    progress.start(f"measuring on GPU {options.device}", len(units))
    try:
        with (
            tempfile.TemporaryDirectory(prefix="cutegen-modules-") as folder,
            session or Session(options.device, note=notes.append) as opened,
        ):
            for number, (unit, wanted) in enumerate(zip(units, shapes, strict=True)):
                # A folder each: units of several output folders may have one name. Modules run from files only.
                path = Path(folder, str(number), unit.module.name)
                path.parent.mkdir()
                path.write_bytes(unit.module.text.encode())
                request = Request(
                    plan=unit.module.plan,
                    module=path,
                    code_hash=code_hash(unit.module.text),
                    shapes=tuple(wanted),
                    vs=options.vs,
                    l2=options.l2,
                    rounds=options.rounds,
                )
                if options.apart:
                    result, interrupted = _each(opened, request, progress)
                else:
                    result = opened.measure(request)
                found.append(Benched(unit, result))
                if options.receipts and opened.machine is not None:
                    kept.append(record_measured(opened.machine, [(unit, result)]))
                progress.step(_line(result), unit.kernel)
                if interrupted or opened.machine is None:
                    break
            machine = opened.machine
    finally:
        progress.stop()
    if interrupted:
        notes.append("interrupted: shapes are missing")
    return BenchReport(
        machine,
        tuple(found),
        (*notes, *(notice for one in kept for notice in one.notices)),
        tuple(shown(path) for one in kept for path in one.written),
        tuple(problem for one in kept for problem in one.problems),
        interrupted,
        time.monotonic() - start,
    )


def _each(session: Session, request: Request, progress: Progress) -> tuple[KernelResult, bool]:
    """Measures a kernel at each of its shapes by a request of its own, until `GIVEN_UP` in a row crashed or hung, or
    until Ctrl-C; says whether it was that.
    """
    kernel, shapes = request.plan.spec.kernel, request.shapes
    found: list[KernelResult] = []
    ended = 0  # in a row
    interrupted = False
    for number, shape in enumerate(shapes):
        progress.part(kernel, "shapes", number, len(shapes))
        try:
            one = replace(request, shapes=(shape,), coming=shapes[number + 1 :], host=request.host and number == 0)
            found.append(session.measure(one))
        except KeyboardInterrupt:  # what was measured took minutes
            interrupted = True
            break
        failures = found[-1].failures
        ended = ended + 1 if any(failure.kind in ("crashed", "hung") for failure in failures) else 0
        if session.machine is None or any(failure.what == kernel and failure.shape is None for failure in failures):
            break  # what is wrong is not this shape's
        if ended == GIVEN_UP and number + 1 < len(shapes):
            why = f"{count(len(shapes) - number - 1, 'more shape')} not tried, since {ended} in a row crashed or hung"
            found.append(KernelResult(kernel, request.code_hash, (), (Failure("cannot run", kernel, None, why),)))
            break
    result = KernelResult(
        kernel,
        request.code_hash,
        tuple(measured for one in found for measured in one.measured),
        tuple(failure for one in found for failure in one.failures),
        found[0].host if found else {},
    )
    return result, interrupted


def _line(result: KernelResult) -> str:
    """A line about a kernel that was measured."""
    done = [f"{shape_text(m.shape)} in {time_text(m.timing.us)}" for m in result.measured]
    if len(done) > _TOLD:
        done = [count(len(done), "shape")]
    return f"{result.kernel}: {', '.join(done) or 'no figure'}" + (" (with failures)" if result.failures else "")
