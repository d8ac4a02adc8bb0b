"""The flow of `cutegen bench`: modules into files, shapes for each, one worker for all of them."""

from __future__ import annotations

import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from cutegen.codegen.render import code_hash
from cutegen.console import Progress
from cutegen.exits import BROKEN, FINDINGS, OK
from cutegen.measuring import Failure, KernelResult, Machine, Request, Session
from cutegen.measuring.model import L2, ROUNDS, time_text
from cutegen.measuring.shapes import shape_text
from cutegen.project.paths import shown
from cutegen.project.sources import Unit
from cutegen.receipts.write import record_measured


@dataclass(frozen=True)
class BenchOptions:
    """How kernels are measured.

    `vs` are functions of the user's, as `Request` has them; `device` is a number among the GPUs that are visible.
    """

    device: int = 0
    l2: L2 = "cold"
    rounds: int = ROUNDS
    vs: tuple[str, ...] = ()


@dataclass(frozen=True)
class Benched:
    """One kernel that was to be measured, and what came of it."""

    unit: Unit
    result: KernelResult


@dataclass(frozen=True)
class BenchReport:
    """What a run of `bench` found.

    `machine` is None where no worker came so far as to look at it; the kernels that were still to come were not tried
    then.
    """

    machine: Machine | None
    kernels: tuple[Benched, ...]
    notes: tuple[str, ...] = ()
    receipts: tuple[str, ...] = ()  # those that were written
    problems: tuple[str, ...] = ()  # why others were not

    @property
    def failures(self) -> list[tuple[Benched, Failure]]:
        """All failures, each with its kernel."""
        return [(benched, failure) for benched in self.kernels for failure in benched.result.failures]

    @property
    def exit_code(self) -> int:
        """The exit code of a run.

        It is 1 where something that was measured is wrong, unsteady or broke down, or a receipt could not be kept; 2
        where something could not run.
        """
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
                result = opened.measure(
                    Request(
                        plan=unit.module.plan,
                        module=path,
                        code_hash=code_hash(unit.module.text),
                        shapes=tuple(wanted),
                        vs=options.vs,
                        l2=options.l2,
                        rounds=options.rounds,
                    )
                )
                found.append(Benched(unit, result))
                progress.step(_line(result))
                if opened.machine is None:
                    break
            machine = opened.machine
    finally:
        progress.stop()
    return BenchReport(machine, tuple(found), tuple(notes))


def keep_receipts(report: BenchReport) -> BenchReport:
    """Writes what was measured into receipts; gives the report with what became of them."""
    if report.machine is None:
        return report
    recorded = record_measured(report.machine, [(benched.unit, benched.result) for benched in report.kernels])
    return replace(
        report,
        receipts=tuple(map(shown, recorded.written)),
        notes=(*report.notes, *recorded.notices),
        problems=recorded.problems,
    )


def _line(result: KernelResult) -> str:
    """A line about a kernel that was measured."""
    done = [f"{shape_text(m.shape)} in {time_text(m.timing.us)}" for m in result.measured]
    return f"{result.kernel}: {', '.join(done) or 'no figure'}" + (" (with failures)" if result.failures else "")
