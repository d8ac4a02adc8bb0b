"""The verb `cutegen tune`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutegen.cli.common import Finite, SpecPath, gather_specs, print_json, select_specs, with_format, with_jobs
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.project.sources import Unit
    from cutegen.tuning.by_size import BySize
    from cutegen.tuning.result import Result


@click.command()
@click.argument("spec", type=SpecPath())
@click.option("--only", metavar="KERNEL", help="Time only this kernel of the spec; the others still must build.")
@click.option("--sizes", multiple=True, metavar="M=..,N=..", help="A shape to time at; may be repeated.")
@click.option(
    "--cases",
    "mode",
    metavar="MODE",
    help="Search at each size of this mode among the shapes; write a case for each winner.",
)
@click.option("--log", "log_file", type=click.Path(path_type=Path), metavar="FILE", help="The file that keeps results.")
@click.option("--fresh", is_flag=True, help="Discard the log, and time everything again.")
@click.option("--budget", type=Finite(min=0), metavar="SECONDS",
              help="Then nothing new is examined or timed, except the first few. 10 for a dry run.")  # fmt: skip
@click.option("--max", "most", type=click.IntRange(min=1), default=256, show_default=True, metavar="N",
              help="Candidates that are compiled and timed, the most promising first.")  # fmt: skip
@click.option("--seed", type=int, default=0, show_default=True, help="Seed of the order in which schedules are tried.")
@click.option(
    "--dry-run",
    is_flag=True,
    help="Only the steps without a GPU, for a limited time: the space, rejections by lint, compiling.",
)
@click.option("--target", metavar="T", help="With --dry-run: compile only for this target of the spec.")
@click.option("--no-write", is_flag=True, help="Print the change of the spec, and do not write it.")
@click.option("--no-cache", is_flag=True, help="Compile everything again, and keep nothing.")
@with_jobs
@with_format
def tune(
    spec: Path,
    only: str | None,
    sizes: tuple[str, ...],
    mode: str | None,
    log_file: Path | None,
    fresh: bool,
    budget: float | None,
    most: int,
    seed: int,
    dry_run: bool,
    target: str | None,
    no_write: bool,
    no_cache: bool,
    jobs: int | None,
    form: str,
) -> None:
    """Search for the fastest schedule on the GPUs of this machine, and write it into the spec.

    The spec's `tune:` names fields and the values to try; all combinations are candidates. Without it, the search
    combines tiles, threads and their shares, and then tries further fields around the best schedule. Fields that depend
    on a change are inferred again, unless `tune:` names them: for a gemm with another tiler or thread layout,
    permutations, widths and layouts of copies, and padding; for an elementwise kernel, the width of its copy. Other
    written fields stay.

    Schedules that lint rejects are not compiled, nor are repetitions; those that spill are not timed. Every candidate
    runs beside the current spec, is compared with the reference each time, and must be faster by more than the spread.
    The variants of a matrix share a schedule, chosen by the geometric mean over kernels and shapes.

    With --budget, candidates are compiled and timed a few at a time, the most promising first, so that even a short
    search times some. The best ones are timed to the end, and the winner is compiled for all targets, even after the
    budget.

    With --cases M, each size of M gets its own search, smallest first, and the schedule becomes a list of cases: the
    winner at the smallest sizes, up to the largest of them, and so on; the last case takes all other calls. The winner
    of the previous size stays unless another one is clearly faster. The budget applies to each search.

    A dry run times nothing. It spends at most half of its budget on examining schedules, and the rest on compiling
    those that lint accepts, the most promising first. It counts schedules that it did not examine, and lists those that
    it did not compile.

    An interrupted search continues: .cutegen-tune/ of the project keeps the results. Only the schedule in the spec's
    file changes.

    Exit 1 if a candidate, or the spec itself, is wrong or crashes; 2 without a GPU.

    JSON: {verb, ok, exit_code, spec, log, kernels, space, pruned, left_out, untried, dropped, candidates,
    uncompiled, ranking, incumbent_us, winner, stopped, budget_spent, gpu, versions, gpus, notices, diff, written}; with
    --cases {verb, ok, exit_code, spec, log, mode, cases: [{sizes, candidate, schedule}], searches: [{size, ...}],
    notices, diff, written}; of a spec with errors {verb, ok, exit_code, diagnostics}.
    """
    from cutegen.console import make_progress, print_diagnostics
    from cutegen.measuring.shapes import ShapeError
    from cutegen.tuning import by_size_output, output
    from cutegen.tuning.preparing import log_path, prepare, write_winner
    from cutegen.tuning.result import Options

    if mode is not None and dry_run:
        raise click.UsageError("--cases compares times, and --dry-run takes none")
    if target is not None and not dry_run:
        raise click.UsageError("--target is for --dry-run; a GPU is its own target")
    if spec.is_dir():
        raise Refusal(f"{spec} is a folder", "tune one spec at a time")
    gathered = gather_specs(select_specs((spec,), None), form)
    reason = None if dry_run else _no_gpu()
    if reason is not None:
        raise Refusal(f"nothing can be timed: {reason}", "run it where there is a CUDA GPU, or with --dry-run")
    options = Options(most, budget, seed, jobs, not no_cache, _targets(gathered.units[0], target))
    try:
        prepared = prepare(gathered.units, only, sizes, options)
    except ShapeError as error:
        raise Refusal(f"--sizes: {error}", error.help) from None
    path = log_file or log_path(prepared)
    by_size: BySize | None = None
    try:
        if mode is None:
            results = [prepared.run(path, fresh, make_progress(), dry_run)]
            changed = results[0].text
        else:
            by_size = prepared.run_by(mode, path, fresh, make_progress())
            results, changed = [one.result for one in by_size.found], by_size.text
    except KeyboardInterrupt:
        if not dry_run:
            click.echo(f"{path} has what was found; the same command goes on from there", err=True)
        raise
    shown = gathered.units[0].source.shown
    diff = "" if changed is None else output.diff(prepared.text, changed, shown)
    written = bool(diff) and not no_write
    if written:
        assert changed is not None
        write_winner(prepared, changed)
    stopped = by_size is not None and by_size.failed
    wrong, broken = (any(result.wrong for result in results), stopped or any(result.stopped for result in results))
    code = FINDINGS if wrong else BROKEN if broken else OK
    if form == "json":
        told = output.as_json(results[0]) if by_size is None else by_size_output.as_json(by_size)
        told = {"verb": "tune", "spec": shown, "log": str(path), **told}
        print_json({**told, "diff": diff or None, "written": written}, code)
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        if by_size is None:
            _print(results[0], dry_run)
        else:
            _print_by_size(by_size)
        click.echo(diff, nl=False)
        if written:
            click.echo(f"wrote {shown}\nnext: cutegen build {shown}")
    click.get_current_context().exit(code)


def _no_gpu() -> str | None:
    from cutegen.verification import gpu_missing

    return gpu_missing()


def _targets(unit: Unit, target: str | None) -> tuple[str, ...]:
    known = unit.module.spec.targets
    if target is not None and target not in known:
        raise Refusal(f"`{target}` is not a target of {unit.kernel}", f"its targets are {', '.join(known)}")
    return known if target is None else (target,)


def _print(result: Result, dry: bool) -> None:
    from cutegen.console import print_table
    from cutegen.tuning import output

    for notice in result.notices:
        click.echo(f"note: {notice}", err=True)
    for line in output.dropped_lines(result):
        click.echo(line, err=True)
    for line in output.counts_lines(result, dry):
        click.echo(line)
    if dry:
        print_table(output.DRY_COLUMNS, output.dry_rows(result))
        if rest := output.dry_rest(result):
            click.echo(rest)
        return
    if result.late:
        click.echo("the budget was spent before everything was tried")
    if result.ranking:
        print_table(output.COLUMNS, output.rows(result))
    click.echo(output.verdict(result))


def _print_by_size(told: BySize) -> None:
    from cutegen.console import print_table
    from cutegen.tuning import by_size_output

    for one in told.found:
        click.echo(f"{told.mode} = {one.size}")
        _print(one.result, dry=False)
        click.echo()
    for notice in told.notices:
        click.echo(f"note: {notice}", err=True)
    print_table(by_size_output.COLUMNS, by_size_output.rows(told))
