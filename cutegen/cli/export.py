"""The verb `cutegen export`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import print_json, select_specs, with_format, with_jobs, with_specs


@click.command()
@with_specs
@click.option(
    "-o", "--out", type=click.Path(path_type=Path), metavar="DIR", required=True, help="Folder for all files."
)
@click.option("--target", "targets", multiple=True, metavar="T", help="Only for this target; may be repeated.")
@click.option("--library", metavar="NAME", help="One library, libNAME.so, for all kernels, not one for each.")
@click.option("--no-verify", is_flag=True, help="Do not run kernels that are not built yet.")
@with_jobs
@click.option("--force", is_flag=True, help="Overwrite files that no export wrote.")
@with_format
def export(
    specs: tuple[Path, ...],
    out: Path,
    targets: tuple[str, ...],
    library: str | None,
    no_verify: bool,
    jobs: int | None,
    force: bool,
    form: str,
) -> None:
    """Write the kernels as shared libraries that need no compiler at run time.

    Each library gets a Python module with the same function, which needs torch and apache-tvm-ffi; a C++ header; and an
    example that CMake builds. Exporting needs no GPU. A kernel whose module in `generated` is not current is verified
    first, as in a build.

    Exit 2 if a spec has an error or cannot be found, or DIR cannot be written; 1 if a kernel fails.

    JSON: {verb, ok, exit_code, diagnostics, problems, notices, folder, kernels: [{kernel, spec, targets, library,
    files, verification}]}.
    """
    from cutegen.console import make_progress
    from cutegen.language.names import name_problem
    from cutegen.verbs.exporting.export import Options
    from cutegen.verbs.exporting.export import export as run
    from cutegen.verbs.exporting.output import export_json, print_export

    if library is not None and (problem := name_problem(library)):
        raise click.UsageError(f"--library: `{library}` {problem}")
    folder = Path(out).absolute()
    report = run(
        select_specs(specs, None), Options(folder, targets, library, not no_verify, jobs, force), make_progress()
    )
    if form == "json":
        print_json(export_json(report, folder))
    else:
        print_export(report, folder)
    click.get_current_context().exit(report.exit_code)
