"""The verb `cutegen lint`."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import TYPE_CHECKING

import click

from cutegen.cli.common import SpecPath, print_json, select_specs
from cutegen.cli.guard import Refusal
from cutegen.exits import BROKEN, FINDINGS, OK

if TYPE_CHECKING:
    from cutegen.lint.choice import Choice

FORMATS = ["text", "json", "github", "sarif"]


@click.command()
@click.argument("specs", nargs=-1, type=SpecPath(), metavar="SPEC|DIR...")
@click.option("--select", multiple=True, metavar="CODES", help="Only these codes or prefixes, as in CG252,CG27.")
@click.option(
    "--ignore", multiple=True, metavar="CODES", help="All except these; the longer of two matching prefixes decides."
)
@click.option("--strict", is_flag=True, help="Warnings count as findings.")
@click.option("--explain", metavar="CODE", help="Print the page of a code; needs no SPEC.")
@click.option("--rules", is_flag=True, help="List every code; needs no SPEC.")
@click.option(
    "--format", "form", type=click.Choice(FORMATS), default="text", show_default=True,
    help="How results are printed on stdout; github: as annotations of a workflow; sarif: version 2.1.0.",
)  # fmt: skip
def lint(
    specs: tuple[Path, ...],
    select: tuple[str, ...],
    ignore: tuple[str, ...],
    strict: bool,
    explain: str | None,
    rules: bool,
    form: str,
) -> None:
    """Print the diagnostics of the specs, advice on speed, and notes on restrictions that inference imposes on callers.

    Nothing is compiled, run or written.

    Exit 2 if a spec cannot be understood (a code below CG200), 1 if a rule of its schedule has an error (or, with
    --strict, a warning), else 0.

    --select and --ignore filter the printed diagnostics, and with them the exit code. Errors that prevent other rules
    from running are always printed. `cutegen build` has neither flag.

    JSON: {verb, ok, exit_code, diagnostics, left_out: {CODE: number}}; of --explain: {verb, ok, exit_code,
    code, title, severity, kind, text, bad, good}; of --rules: {verb, ok, exit_code, rules: [{code, title, severity,
    kind}]}.
    """
    if explain is not None or rules:
        given = {"SPEC": specs, "--select": select, "--ignore": ignore, "--strict": strict}
        given |= {"--rules": rules and explain is not None, f"--format {form}": form in ("github", "sarif")}
        if useless := " and ".join(name for name, there in given.items() if there):
            raise click.UsageError(f"{useless} cannot go with --{'rules' if explain is None else 'explain'}")
        _print_rules(form) if explain is None else _print_page(explain, form)
        return
    if not specs:
        raise click.UsageError("Missing argument 'SPEC|DIR...'.")
    from cutegen.lint.choice import choose

    _lint(specs, choose(select, ignore), strict, form)


def _lint(specs: tuple[Path, ...], choice: Choice, strict: bool, form: str) -> None:
    from cutegen.console import count, print_diagnostics
    from cutegen.language.diagnostics import as_json, ordered
    from cutegen.lint.github import workflow_command
    from cutegen.lint.sarif import sarif
    from cutegen.project.sources import gather, notes_on

    gathered = gather(select_specs(specs, None), performance=True)
    found = ordered([*gathered.diagnostics, *notes_on(gathered.units)])
    shown = [d for d in found if choice.keeps(d.code)]
    hidden = [d for d in found if not choice.keeps(d.code)]
    left_out = Counter(d.code for d in hidden)
    findings = [d for d in shown if d.severity == "error" or strict and d.severity == "warning"]
    unread = any(d.code.startswith(("CG0", "CG1")) for d in findings)
    code = BROKEN if unread else FINDINGS if findings else OK
    if form == "json":
        diagnostics = [as_json(d) for d in shown]
        result = {"verb": "lint", "ok": not findings, "exit_code": code, "diagnostics": diagnostics}
        print_json({**result, "left_out": left_out})
    elif form == "github":
        for diagnostic in shown:
            click.echo(workflow_command(diagnostic))
    elif form == "sarif":
        click.echo(json.dumps(sarif(shown), indent=2))
    else:
        print_diagnostics(shown, gathered.texts, to_stdout=True)
        if not shown:
            kernels = "" if gathered.failed else f"{count(len(gathered.units), 'kernel')}, "
            click.echo(f"{kernels}no diagnostics")
        if left_out:
            click.echo(f"left out: {', '.join(f'{number} {what}' for what, number in sorted(left_out.items()))}")
        if any(d.severity == "error" for d in hidden):
            click.echo("a spec with an error gets no advice on speed, and no build")
    click.get_current_context().exit(code)


def _print_page(wanted: str, form: str) -> None:
    from cutegen.console import print_markdown
    from cutegen.lint import page
    from cutegen.lint.choice import near

    code = wanted.strip().upper()
    if code not in page.codes():
        raise Refusal(f"there is no code `{wanted}`", near(wanted))
    found = page.read(code)
    if form == "json":
        fields = ("code", "title", "severity", "kind", "text", "bad", "good")
        print_json({"verb": "lint", **{name: getattr(found, name) for name in fields}}, OK)
    else:
        print_markdown(found.text)


def _print_rules(form: str) -> None:
    from cutegen.console import print_table
    from cutegen.lint import page

    pages = [page.read(code) for code in page.codes()]
    if form == "json":
        fields = ("code", "title", "severity", "kind")
        print_json({"verb": "lint", "rules": [{name: getattr(p, name) for name in fields} for p in pages]}, OK)
    else:
        print_table(("code", "severity", "kind", "title"), [[p.code, p.severity, p.kind, p.title] for p in pages])
