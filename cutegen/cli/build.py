"""The verb `cutegen build`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

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
from cutegen.exits import FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.project.selection import Selection


@click.command()
@with_specs
@click.option("--check", is_flag=True, help="Only compare: name each file that is out of date; exit 1 if there is one.")
@click.option("--diff", is_flag=True, help="Only compare: print what a build would change; exit 1 if it would.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the modules, not ROOT/generated."
)
@click.option("--no-compile", is_flag=True, help="Do not compile, so neither check `expect` nor run.")
@click.option("--no-verify", is_flag=True, help="Write the kernels without running them.")
@with_quick
@click.option("--allow-partial", is_flag=True, help="With --check, accept modules that --quick has written.")
@with_all
@with_jobs
@click.option("--no-cache", is_flag=True, help="Compile everything again, and keep nothing.")
@click.option(
    "--force", is_flag=True, help="Overwrite generated files that were edited by hand, and remove edited receipts."
)
@with_format
def build(
    specs: tuple[Path, ...],
    check: bool,
    diff: bool,
    out: Path | None,
    no_compile: bool,
    no_verify: bool,
    quick: bool,
    allow_partial: bool,
    everything: bool,
    jobs: int | None,
    no_cache: bool,
    force: bool,
    form: str,
) -> None:
    """Generate, compile and verify the modules of the specs, then write all of them or nothing. Kernels that a spec's
    `modules` leaves out are neither compiled nor written.

    Kernels run on the GPU of this machine, or without one on a CPU emulator, until one of their cases or host checks
    fails. Exit 2 if a spec has an error or cannot be found, 1 if a kernel fails or cannot run, or a file is out of
    date.

    With --quick, each module is marked as verified in part. --check rejects such modules, and the next build without
    --quick verifies them in full.

    The modules go to `generated` in the project's folder: the nearest one above the spec with a pyproject.toml or .git,
    else the parent of `specs`.

    JSON of a build: {verb, ok, exit_code, diagnostics, problems, notices, kernels, removed}; of --check and --diff:
    {verb, ok, exit_code, diagnostics, files}.
    """
    if check and diff:
        raise click.UsageError("--check and --diff exclude each other")
    if check or diff:
        useless = {"--quick": quick, "--all": everything, "--force": force, "--no-cache": no_cache}
        useless["-j"] = jobs is not None
        given = " and ".join(name for name, there in useless.items() if there)
        if given:
            what = "--check" if check else "--diff"
            raise click.UsageError(f"{given} cannot go with {what}, which compiles and writes nothing")
    if allow_partial and not check:
        raise click.UsageError("--allow-partial goes with --check")
    selection = select_specs(specs, out)
    if check or diff:
        _compare(selection, diff=diff, allow_partial=allow_partial, form=form)
        return
    for flag, asked in (("--quick", quick), ("--all", everything)):
        if asked and (no_compile or no_verify):
            raise click.UsageError(f"{flag} cannot go with {'--no-compile' if no_compile else '--no-verify'}")
    progress = progress_of_reading(selection)
    if not (no_compile or no_verify):
        from cutegen.verifying.setup import begin_imports

        begin_imports()  # before those of this process, which take a while, too
    from cutegen.verbs.building.build import Options
    from cutegen.verbs.building.build import build as run
    from cutegen.verbs.building.output import build_json, print_build
    from cutegen.verification import Extent

    options = Options(not no_compile, not no_verify, jobs, not no_cache, force, Extent(everything, quick))
    report = run(selection, options, progress)
    if form == "json":
        print_json(build_json(report))
    else:
        print_build(report)
    click.get_current_context().exit(report.exit_code)


def _compare(selection: Selection, *, diff: bool, allow_partial: bool, form: str) -> None:
    from cutegen.console import print_diagnostics
    from cutegen.receipts.beside_modules import compare_all
    from cutegen.verbs.building.output import as_asked, print_check, states_json, unified_diff

    gathered = gather_specs(selection, form, files=[])
    try:
        states = compare_all(gathered.units, selection.scopes)
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from None
    code = OK if all(as_asked(state, allow_partial=allow_partial) for state in states) else FINDINGS
    if form == "json":
        verb = "build --diff" if diff else "build --check"
        found = gathered.diagnostics
        data = states_json(verb, states, gathered.units, found, diff=diff, allow_partial=allow_partial)
        print_json(data, code)
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        if diff:
            for state in states:
                click.echo(unified_diff(state), nl=False)
        else:
            print_check(states, gathered.units, allow_partial=allow_partial)
    click.get_current_context().exit(code)
