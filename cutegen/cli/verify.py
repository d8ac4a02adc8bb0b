"""The verb `cutegen verify`."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from cutegen.cli.common import gather_specs, print_json, select_specs, with_format, with_jobs, with_specs
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.building.verification import Verification
    from cutegen.project.sources import Unit
    from cutegen.project.write_receipts import Recorded


@click.command()
@with_specs
@click.option(
    "--on", type=click.Choice(["gpu", "cpu"]), required=True, help="Where the kernels run: a GPU, or an emulator."
)
@click.option("--receipts", is_flag=True, help="Keep what a GPU found in receipts beside the modules.")
@with_jobs
@with_format
def verify(specs: tuple[Path, ...], on: Literal["gpu", "cpu"], receipts: bool, jobs: int | None, form: str) -> None:
    """Run the kernels on shapes chosen to break them, and hold each element to a float64 reference.

    Exit 1 where a kernel fails, 2 where one could not be executed.

    What runs is generated anew from the spec; a file in generated/ that is stale or edited by hand is named in a note.

    JSON: {verb, ok, exit_code, on, diagnostics, notices, kernels: [{kernel, spec, file, verification: {verdict, why,
    report}}], receipts?: {written, notices, problems}}.
    """
    from cutegen.building.output import print_recorded, print_verify, recorded_json, verify_json
    from cutegen.building.verification import Verification, emulator_missing, run_verification
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.project.state import other_files
    from cutegen.verification import gpu_missing

    if receipts and on == "cpu":
        raise click.UsageError("--receipts goes with --on gpu: they say what a GPU did")
    selection = select_specs(specs, None)
    gathered = gather_specs(selection, form, on=on, notices=[], kernels=[])
    units = gathered.units
    reason = emulator_missing() if on == "cpu" else gpu_missing()
    if reason is not None:
        if form == "json":
            not_run = [Verification("not executed", reason)] * len(units)
            print_json(verify_json(on, units, not_run, gathered.diagnostics), BROKEN)
        help = "install what is missing" if on == "cpu" else "run it where there is a CUDA GPU, or with --on cpu"
        raise Refusal(f"nothing was executed: {reason}", help, told=True)
    verifications, found = run_verification(units, on, jobs, make_progress())
    diagnostics = [*gathered.diagnostics, *found]
    idle = [v for v in verifications if v.verdict == "not executed"]
    recorded = _record(units, verifications) if receipts else None
    notices = other_files(units, selection.scopes)
    code = FINDINGS if found or (recorded and recorded.problems) else BROKEN if idle else OK
    if form == "json":
        kept = {} if recorded is None else {"receipts": recorded_json(recorded)}
        print_json({**verify_json(on, units, verifications, diagnostics, notices), **kept}, code)
    else:
        print_diagnostics(diagnostics, gathered.texts)
        for notice in notices:
            click.echo(f"note: {notice}", err=True)
        print_verify(units, verifications)
        if recorded is not None:
            print_recorded(recorded)
    if code == BROKEN:
        what = "nothing was" if len(idle) == len(units) else f"{len(idle)} of {len(units)} kernels were not"
        raise Refusal(f"{what} executed: {idle[0].why}", told=True)
    click.get_current_context().exit(code)


def _record(units: Sequence[Unit], verifications: Sequence[Verification]) -> Recorded:
    from cutegen.measuring.machine import this_machine
    from cutegen.project.write_receipts import record_verified

    pairs = zip(units, verifications, strict=True)
    return record_verified(this_machine(), [(unit, v.report) for unit, v in pairs if v.report is not None])
