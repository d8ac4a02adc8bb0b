"""The verb `cutegen verify`."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Literal, NoReturn

import click

from cutegen.cli.common import (
    gather_specs,
    print_json,
    progress_of_reading,
    select_specs,
    with_all,
    with_format,
    with_jobs,
    with_quick,
    with_specs,
)
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.project.sources import Gathered, Unit
    from cutegen.receipts.write import Recorded
    from cutegen.verbs.building.verification import Verification


@click.command()
@with_specs
@click.option(
    "--on",
    "where",
    type=click.Choice(["gpu", "cpu"]),
    help="Where the kernels run: a GPU, or an emulator on the CPU; by default a GPU if the machine has one.",
)
@click.option(
    "--with",
    "others",
    multiple=True,
    metavar="REQUIREMENT",
    help="Repeat the run with this package, in an environment beside this one, and print the changes: "
    "nvidia-cutlass-dsl==4.8.0, a URL, a wheel. May be repeated.",
)
@click.option("--pre", is_flag=True, help="--with takes pre-releases, too.")
@click.option("--receipts", is_flag=True, help="Keep the results of a GPU in receipts beside the modules.")
@with_quick
@with_all
@with_jobs
@with_format
def verify(
    specs: tuple[Path, ...],
    where: Literal["gpu", "cpu"] | None,
    others: tuple[str, ...],
    pre: bool,
    receipts: bool,
    quick: bool,
    everything: bool,
    jobs: int | None,
    form: str,
) -> None:
    """Run the kernels on shapes chosen to break them, and compare each element with a float64 reference.

    The most revealing and cheapest cases run first, and the first failure ends a kernel's run. Its other cases and host
    checks are reported as `not run`, in JSON with the reason `stopped`. --with runs all.

    Exit 1 if a kernel fails, 2 if one could not be executed.

    The code is generated from the spec; a note names a file in generated/ that is stale or edited by hand.

    With --with, the exit code describes the run with those packages: 1 if a kernel does not compile, is wrong or fails
    its `expect`, 2 if one was not executed or the packages cannot be installed.

    JSON: {verb, ok, exit_code, on, diagnostics, notices, kernels: [{kernel, spec, file, verification: {verdict, why,
    report}}], receipts?: {written, notices, problems}}; of --with: {..., with: {requirements, installer, versions:
    {NAME: [here, there]}}, kernels: [{kernel, spec, result, why, cases, other_bits, targets: {TARGET: {same, here,
    there, diff, failed}}, here, there}]}, where a verification here is null if equal PTX made it unnecessary.
    """
    if receipts and others:
        raise click.UsageError("--receipts cannot go with --with: they are of the packages that are installed here")
    if quick and (receipts or others):
        raise click.UsageError(f"--quick cannot go with {'--receipts' if receipts else '--with'}, which runs all")
    if pre and not others:
        raise click.UsageError("--pre goes with --with")
    selection = select_specs(specs, None)
    progress = progress_of_reading(selection)
    try:
        if where == "cpu" and not others:
            from cutegen.verifying.setup import begin_imports

            begin_imports()  # before those of this process, which take a while, too
        from cutegen.console import print_diagnostics
        from cutegen.project.state import other_files
        from cutegen.verbs.building.output import print_recorded, print_verify, recorded_json, verify_json
        from cutegen.verbs.building.verification import Verification, emulator_missing, run_verification
        from cutegen.verification import Extent, gpu_missing

        no_gpu = gpu_missing() if where != "cpu" else None
        on = where or ("gpu" if no_gpu is None else "cpu")
        if receipts and on == "cpu":
            raise click.UsageError("--receipts goes with --on gpu: they say what a GPU did")
        gathered = gather_specs(selection, form, progress=progress, on=on, notices=[], kernels=[])
    finally:
        progress.stop()
    units = gathered.units
    reason = emulator_missing() if on == "cpu" else no_gpu
    if where is None and on == "cpu":
        click.echo(f"note: there is no GPU here ({no_gpu}): kernels run on the CPU emulator", err=True)
    if reason is not None:
        if form == "json":
            not_run = [Verification("not executed", reason)] * len(units)
            print_json(verify_json(on, units, not_run, gathered.diagnostics), BROKEN)
        help = "install what is missing" if on == "cpu" else "run it where there is a CUDA GPU, or with --on cpu"
        raise Refusal(f"nothing was executed: {reason}", help, told=True)
    if others:
        _verify_with(specs, gathered, others, on, pre, jobs, form)
    verifications, found = run_verification(units, on, jobs, progress, extent=Extent(everything, quick))
    diagnostics = [*gathered.diagnostics, *found]
    idle = [v for v in verifications if v.verdict == "not executed"]
    recorded = _record(units, verifications) if receipts else None
    notices = other_files(units, selection.scopes)
    code = FINDINGS if found or (recorded and recorded.problems) else BROKEN if idle else OK
    if form == "json":
        kept = {} if recorded is None else {"receipts": recorded_json(recorded)}
        print_json({**verify_json(on, units, verifications, diagnostics, notices), **kept}, code)
    else:
        print_verify(units, verifications)
        if recorded is not None:
            print_recorded(recorded)
        sys.stdout.flush()  # before the other stream
        for notice in notices:
            click.echo(f"note: {notice}", err=True)
        print_diagnostics(diagnostics, gathered.texts)
    if code == BROKEN:
        what = "nothing was" if len(idle) == len(units) else f"{len(idle)} of {len(units)} kernels were not"
        raise Refusal(f"{what} executed: {idle[0].why}", told=True)
    click.get_current_context().exit(code)


def _verify_with(
    specs: Sequence[Path],
    gathered: Gathered,
    others: Sequence[str],
    on: Literal["gpu", "cpu"],
    pre: bool,
    jobs: int | None,
    form: str,
) -> NoReturn:
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.verbs.upgrading.output import exit_code, print_upgrade, upgrade_json
    from cutegen.verbs.upgrading.requirements import read_requirements
    from cutegen.verbs.upgrading.upgrade import compare_with, named

    def tell(line: str) -> None:
        click.echo(line, err=True)

    requirements = read_requirements(others)
    found = compare_with(
        requirements, specs, gathered.units, on, pre=pre, jobs=jobs, progress=make_progress(), tell=tell
    )
    code = exit_code(found)
    if form == "json":
        print_json(upgrade_json(found, on), code)
    else:
        if found.diagnostics:
            tell(f"what is wrong with {named(found.versions, 1)}:")
        print_diagnostics(found.diagnostics, gathered.texts)
        print_upgrade(found)
    raise click.exceptions.Exit(code)


def _record(units: Sequence[Unit], verifications: Sequence[Verification]) -> Recorded:
    from cutegen.measuring.machine import this_machine
    from cutegen.receipts.write import record_verified

    pairs = zip(units, verifications, strict=True)
    return record_verified(this_machine(), [(unit, v.report) for unit, v in pairs if v.report is not None])
