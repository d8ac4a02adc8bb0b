"""The command line: verbs and flags. Whatever a verb needs is imported when it runs, so that `--help` is quick.

Results go to stdout, everything else to stderr. Exit codes: 0 all well; 1 findings: a file that is out of date, a wrong
result, a failed compile, a lint error; 2 wrong use or broken input; 130 interrupted; 70 a defect of cutegen.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, TypeVar

import click

from cutegen import __version__

if TYPE_CHECKING:
    from cutegen.building.project import Selection
    from cutegen.building.sources import Gathered

DEBUG_VARIABLE = "CUTEGEN_TRACEBACK"
OK, FINDINGS, BROKEN, DEFECT, INTERRUPTED, PIPE = 0, 1, 2, 70, 130, 141

F = TypeVar("F", bound=Callable[..., Any])


class Refusal(click.ClickException):
    """Ends a verb with a message, a line of help and an exit code."""

    def __init__(self, message: str, help: str | None = None, code: int = BROKEN) -> None:
        super().__init__(message)
        self.help = help
        self.exit_code = code  # type: ignore[misc]  # click means it to be set so

    def show(self, file: Any = None) -> None:
        click.echo(f"error: {self.message}", err=True)
        if self.help:
            click.echo(f"  help: {self.help}", err=True)


class Verbs(click.Group):
    """Turns what may go wrong anywhere into an exit code and a line; never a traceback."""

    def invoke(self, ctx: click.Context) -> Any:
        try:
            result = super().invoke(ctx)
            sys.stdout.flush()  # so that a closed pipe shows here and not while Python exits
            return result
        except KeyboardInterrupt:
            click.echo("interrupted", err=True)
            ctx.exit(INTERRUPTED)
        except BrokenPipeError:
            _abandon_stdout()
            ctx.exit(PIPE)
        except (click.ClickException, click.exceptions.Exit, click.Abort):
            raise
        except OSError as error:  # a full disk, a closed descriptor: not a defect
            _abandon_stdout()
            where = f"{os.fsdecode(error.filename)}: " if isinstance(error.filename, (str, bytes)) else ""
            raise Refusal(f"{where}{error.strerror or error}") from error
        except Exception as error:
            if os.environ.get(DEBUG_VARIABLE):
                raise
            message = f"cutegen failed: {_where(error)}{type(error).__name__}: {str(error)[:500]}"
            help = f"this is a defect of cutegen; {DEBUG_VARIABLE}=1 shows the traceback for a report"
            raise Refusal(message, help, DEFECT) from error


def _where(error: BaseException) -> str:
    frame = error.__traceback__
    while frame is not None and frame.tb_next is not None:
        frame = frame.tb_next
    return f"{Path(frame.tb_frame.f_code.co_filename).name}:{frame.tb_lineno}: " if frame is not None else ""


def _abandon_stdout() -> None:
    """Nobody reads any more, or nothing can be written: what is still buffered must not fail a second time."""
    try:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except (OSError, ValueError):  # stdout is no file
        sys.stdout = open(os.devnull, "w")  # noqa: SIM115 open until the process ends


def main() -> None:
    """The entry point."""
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            # A locale that lacks a character of a spec must not stop a build; YAML reads these escapes back.
            stream.reconfigure(errors="backslashreplace")

    def end(number: int, frame: FrameType | None) -> None:
        raise SystemExit(128 + number)

    signal.signal(signal.SIGTERM, end)  # so that workers are ended and files put back
    cli(prog_name="cutegen")


def with_format(verb: F) -> F:
    return click.option(
        "--format", "form", type=click.Choice(["text", "json"]), default="text", show_default=True,
        help="How results are printed on stdout.",
    )(verb)  # fmt: skip


def with_specs(verb: F) -> F:
    argument = click.argument("specs", nargs=-1, required=True, type=click.Path(path_type=Path), metavar="SPEC|DIR...")
    return argument(verb)


def with_jobs(verb: F) -> F:
    return click.option(
        "-j", "--jobs", type=click.IntRange(1, 256), metavar="N", help="Worker processes; by default one a processor."
    )(verb)


@click.group(cls=Verbs, context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="cutegen")
def cli() -> None:
    """Compiles declarative kernel specs to standalone CuTeDSL modules, and verifies them.

    Start with `cutegen init my_add --op elementwise`, then `cutegen build specs/my_add.yaml`.
    """


@cli.command()
@click.argument("name")
@click.option("--op", type=click.Choice(["elementwise", "gemm", "probe"]), required=True, help="Family of the kernel.")
@click.option("--out", type=click.Path(path_type=Path), metavar="FILE", help="The spec; by default specs/NAME.yaml.")
@with_format
def init(name: str, op: str, out: Path | None, form: str) -> None:
    """Write a starter spec that builds as it is, with the line that lets editors check it.

    JSON: {verb, spec, schema}.
    """
    from cutegen.building.starter import StarterError, write_starter

    try:
        starter = write_starter(name, op, out)
    except StarterError as error:
        raise Refusal(str(error), error.help) from None
    if form == "json":
        _print_json({"verb": "init", "spec": starter.spec.as_posix(), "schema": starter.schema.as_posix()})
    else:
        click.echo(f"wrote {starter.spec}, and {starter.schema} for editors")
        click.echo(f"next: cutegen build {starter.spec}")


@cli.command()
@with_specs
@click.option("--check", is_flag=True, help="Only compare: name each file that is not current; exit 1 if there is one.")
@click.option("--diff", is_flag=True, help="Only compare: print what a build would change; exit 1 if it would.")
@click.option(
    "--out", type=click.Path(path_type=Path), metavar="DIR", help="Folder of the modules, not ROOT/generated."
)
@click.option("--no-compile", is_flag=True, help="Do not compile, and so do not check what `expect` says.")
@click.option("--no-verify", is_flag=True, help="Do not run the kernels.")
@with_jobs
@click.option("--no-cache", is_flag=True, help="Compile everything anew, and keep nothing.")
@click.option("--force", is_flag=True, help="Overwrite generated files that were edited by hand.")
@with_format
def build(
    specs: tuple[Path, ...],
    check: bool,
    diff: bool,
    out: Path | None,
    no_compile: bool,
    no_verify: bool,
    jobs: int | None,
    no_cache: bool,
    force: bool,
    form: str,
) -> None:
    """Generate, compile and verify the modules of the specs, then write all of them or nothing.

    The modules go to `generated` in the project's folder: the nearest one above the spec with a pyproject.toml or .git,
    else the one that holds `specs`.

    JSON of a build: {verb, ok, exit_code, diagnostics, problems, notices, kernels, removed}; of --check and --diff:
    {verb, ok, diagnostics, files}.
    """
    if check and diff:
        raise click.UsageError("--check and --diff exclude each other")
    selection = _select(specs, out)
    if check or diff:
        _compare(selection, diff=diff, form=form)
        return
    from cutegen.building.build import Options
    from cutegen.building.build import build as run
    from cutegen.building.console import make_progress
    from cutegen.building.output import build_json, print_build

    options = Options(not no_compile, not no_verify, jobs, not no_cache, force)
    report = run(selection, options, make_progress())
    if form == "json":
        _print_json(build_json(report))
    else:
        print_build(report)
    click.get_current_context().exit(report.exit_code)


@cli.command()
@with_specs
@with_format
def lint(specs: tuple[Path, ...], form: str) -> None:
    """Print the diagnostics of the specs; nothing is compiled, run or written.

    Exit 2 where a spec cannot be understood, 1 where it can and its kernel would be wrong, 0 else.

    JSON: {verb, ok, diagnostics}.
    """
    from cutegen.building.output import print_diagnostics
    from cutegen.building.sources import gather
    from cutegen.language.codes import CODES
    from cutegen.language.diagnostics import as_json

    gathered = gather(_select(specs, None))
    errors = [d for d in gathered.diagnostics if d.severity == "error"]
    if form == "json":
        diagnostics = [as_json(d) for d in gathered.diagnostics]
        _print_json({"verb": "lint", "ok": not errors, "diagnostics": diagnostics})
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts, to_stdout=True)
        if not gathered.diagnostics:
            click.echo(f"{len(gathered.units)} kernels, no diagnostics")
    code = BROKEN if any(d.code in CODES for d in errors) else FINDINGS if errors else OK
    click.get_current_context().exit(code)


@cli.command()
@click.argument("spec", type=click.Path(path_type=Path))
@click.option("--kernel", metavar="NAME", help="Only this one of the spec's kernels.")
@with_format
def explain(spec: Path, kernel: str | None, form: str) -> None:
    """Print the spec with everything filled in that was inferred, and why. It builds to the same modules.

    JSON: {verb, spec, kernels: [{kernel, text, inferred: [{path, why}]}]}.
    """
    from cutegen.building.output import print_diagnostics
    from cutegen.language.writer import write_spec

    gathered = _gather(_select((spec,), None), form)
    units = [unit for unit in gathered.units if kernel in (None, unit.kernel)]
    if not units:
        known = [unit.kernel for unit in gathered.units]
        raise Refusal(f"there is no kernel `{kernel}` in {spec}", f"its kernels are {', '.join(known)}")
    if form == "json":
        entries = [
            {
                "kernel": unit.kernel,
                "text": write_spec(unit.module.spec),
                "inferred": [{"path": list(path), "why": why} for path, why in unit.module.inferred.items()],
            }
            for unit in units
        ]
        _print_json({"verb": "explain", "spec": units[0].source.shown, "kernels": entries})
        return
    print_diagnostics(gathered.diagnostics, gathered.texts)
    texts = []
    for unit in units:
        comments = {path: f"inferred: {why}" for path, why in unit.module.inferred.items()}
        texts.append(write_spec(unit.module.spec, comments))
    click.echo("---\n".join(texts), nl=False)


@cli.command()
@with_specs
@click.option("--on", type=click.Choice(["gpu", "cpu"]), required=True, help="Where the kernels run.")
@with_jobs
@with_format
def verify(specs: tuple[Path, ...], on: str, jobs: int | None, form: str) -> None:
    """Run the kernels on shapes chosen to break them, and hold each element to a float64 reference.

    JSON: {verb, on, ok, diagnostics, kernels: [{kernel, spec, file, verification: {verdict, why, report}}]}.
    """
    from cutegen.building.build import Verification, run_verification
    from cutegen.building.console import make_progress
    from cutegen.building.output import print_diagnostics, print_verify, verify_json
    from cutegen.verification import gpu_missing

    gathered = _gather(_select(specs, None), form)
    units = gathered.units
    reason = "cutegen has no CPU emulator yet" if on == "cpu" else gpu_missing()
    if reason is not None:
        if form == "json":
            not_run = [Verification("not executed", reason)] * len(units)
            _print_json(verify_json(on, units, not_run, gathered.diagnostics))
        help = (
            "run it with --on gpu on a machine with a CUDA GPU" if on == "cpu" else "run it where there is a CUDA GPU"
        )
        raise Refusal(f"nothing was executed: {reason}", help)
    verifications, found = run_verification(units, on, jobs, make_progress())
    diagnostics = [*gathered.diagnostics, *found]
    if form == "json":
        _print_json(verify_json(on, units, verifications, diagnostics))
    else:
        print_diagnostics(diagnostics, gathered.texts)
        print_verify(units, verifications)
    click.get_current_context().exit(FINDINGS if found else OK)


@cli.command()
@with_format
def schema(form: str) -> None:
    """Print the JSON Schema (draft 7) of the language, for editors. Both formats are the same JSON."""
    from cutegen.language.schema import schema_text

    click.echo(schema_text(), nl=False)


def _select(specs: tuple[Path, ...], out: Path | None) -> Selection:
    from cutegen.building.project import SelectionError, select

    try:
        return select(specs, out)
    except SelectionError as error:
        raise Refusal(str(error), error.help) from None
    except (OSError, ValueError) as error:  # a path that no file can have
        raise Refusal(f"the specs cannot be found: {error}") from None


def _gather(selection: Selection, form: str) -> Gathered:
    """The selection's modules. Ends the verb where a spec has an error."""
    from cutegen.building.output import print_diagnostics
    from cutegen.building.sources import gather
    from cutegen.language.diagnostics import as_json

    gathered = gather(selection)
    if gathered.failed:
        if form == "json":
            verb = click.get_current_context().info_name
            diagnostics = [as_json(d) for d in gathered.diagnostics]
            _print_json({"verb": verb, "ok": False, "exit_code": BROKEN, "diagnostics": diagnostics})
        else:
            print_diagnostics(gathered.diagnostics, gathered.texts)
        click.get_current_context().exit(BROKEN)
    return gathered


def _compare(selection: Selection, *, diff: bool, form: str) -> None:
    from cutegen.building.output import print_check, print_diagnostics, states_json, unified_diff
    from cutegen.building.state import compare

    gathered = _gather(selection, form)
    try:
        states = compare(gathered.units, selection.scopes)
    except OSError as error:
        raise Refusal(f"{error.filename}: {error.strerror}") from None
    if form == "json":
        verb = "build --diff" if diff else "build --check"
        _print_json(states_json(verb, states, gathered.units, gathered.diagnostics, diff=diff))
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts)
        if diff:
            for state in states:
                click.echo(unified_diff(state), nl=False)
        else:
            print_check(states, gathered.units)
    click.get_current_context().exit(OK if all(state.state == "current" for state in states) else FINDINGS)


def _print_json(data: dict[str, Any]) -> None:
    from cutegen.building.output import print_json

    print_json(data)
