"""The command line: verbs and flags. Whatever a verb needs is imported when it runs, so that `--help` is quick.

Results go to stdout, everything else to stderr. Exit codes: 0 all well; 1 findings: a file that is out of date, a wrong
result, a failed compile, a lint error; 2 wrong use or broken input; 130 interrupted; 70 a defect of cutegen. With
`--format json`, wrong use prints `{verb, ok, exit_code, error, help}`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Literal, TypeVar

import click

from cutegen import __version__
from cutegen.building.verbs import BROKEN, FINDINGS, OK, Refusal, Verbs

if TYPE_CHECKING:
    from cutegen.building.project import Selection
    from cutegen.building.sources import Gathered

F = TypeVar("F", bound=Callable[..., Any])


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
        "-j", "--jobs", type=click.IntRange(1, 256), metavar="N",
        help="Worker processes; by default one a processor, and a few for a GPU.",
    )(verb)  # fmt: skip


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
    from cutegen.building.project import quoted, readable
    from cutegen.building.starter import StarterError, write_starter

    try:
        starter = write_starter(name, op, out)
    except StarterError as error:
        raise Refusal(str(error), error.help) from None
    spec, schema = (readable(path.as_posix()) for path in (starter.spec, starter.schema))
    if form == "json":
        _print_json({"verb": "init", "spec": spec, "schema": schema})
    else:
        click.echo(f"wrote {spec}, and {schema} for editors")
        click.echo(f"next: cutegen build {quoted(spec)}")


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

    Kernels run on the GPU of this machine, or on a CPU emulator where there is none. Exit 2 where a spec has an error
    or cannot be found, 1 where a kernel is not as it must be, or a file.

    The modules go to `generated` in the project's folder: the nearest one above the spec with a pyproject.toml or .git,
    else the one that holds `specs`.

    JSON of a build: {verb, ok, exit_code, diagnostics, problems, notices, kernels, removed}; of --check and --diff:
    {verb, ok, diagnostics, files}.
    """
    if check and diff:
        raise click.UsageError("--check and --diff exclude each other")
    if check or diff:
        useless = {"--force": force, "--no-cache": no_cache, "-j": jobs is not None}
        given = " and ".join(name for name, there in useless.items() if there)
        if given:
            what = "--check" if check else "--diff"
            raise click.UsageError(f"{given} cannot go with {what}, which compiles and writes nothing")
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

    Exit 2 where a spec cannot be understood (a code below CG200), 1 where it can and a rule of its schedule has an
    error, 0 else.

    JSON: {verb, ok, exit_code, diagnostics}.
    """
    from cutegen.building.output import count, print_diagnostics
    from cutegen.building.sources import gather
    from cutegen.language.diagnostics import as_json

    gathered = gather(_select(specs, None))
    errors = [d for d in gathered.diagnostics if d.severity == "error"]
    unread = any(d.code.startswith(("CG0", "CG1")) for d in errors)
    code = BROKEN if unread else FINDINGS if errors else OK
    if form == "json":
        diagnostics = [as_json(d) for d in gathered.diagnostics]
        _print_json({"verb": "lint", "ok": not errors, "exit_code": code, "diagnostics": diagnostics})
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts, to_stdout=True)
        if not gathered.diagnostics:
            click.echo(f"{count(len(gathered.units), 'kernel')}, no diagnostics")
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
        raise Refusal(
            f"there is no kernel `{kernel}` in {gathered.units[0].source.shown}", f"its kernels are {', '.join(known)}"
        )
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
@click.option(
    "--on", type=click.Choice(["gpu", "cpu"]), required=True, help="Where the kernels run: a GPU, or an emulator."
)
@with_jobs
@with_format
def verify(specs: tuple[Path, ...], on: Literal["gpu", "cpu"], jobs: int | None, form: str) -> None:
    """Run the kernels on shapes chosen to break them, and hold each element to a float64 reference.

    Exit 1 where a kernel fails, 2 where one could not be executed.

    JSON: {verb, on, ok, diagnostics, kernels: [{kernel, spec, file, verification: {verdict, why, report}}]}.
    """
    from cutegen.building.build import Verification, run_verification
    from cutegen.building.checks import emulator_missing
    from cutegen.building.console import make_progress
    from cutegen.building.output import print_diagnostics, print_verify, verify_json
    from cutegen.verification import gpu_missing

    gathered = _gather(_select(specs, None), form)
    units = gathered.units
    reason = emulator_missing() if on == "cpu" else gpu_missing()
    if reason is not None:
        if form == "json":
            not_run = [Verification("not executed", reason)] * len(units)
            _print_json(verify_json(on, units, not_run, gathered.diagnostics))
        help = "install what is missing" if on == "cpu" else "run it where there is a CUDA GPU, or with --on cpu"
        raise Refusal(f"nothing was executed: {reason}", help, told=True)
    verifications, found = run_verification(units, on, jobs, make_progress())
    diagnostics = [*gathered.diagnostics, *found]
    if form == "json":
        _print_json(verify_json(on, units, verifications, diagnostics))
    else:
        print_diagnostics(diagnostics, gathered.texts)
        print_verify(units, verifications)
    idle = [v for v in verifications if v.verdict == "not executed"]
    if idle and not found:
        what = "nothing was" if len(idle) == len(units) else f"{len(idle)} of {len(units)} kernels were not"
        raise Refusal(f"{what} executed: {idle[0].why}", told=True)
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
