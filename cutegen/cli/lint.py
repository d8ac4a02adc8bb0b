"""`cutegen lint`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import print_json, select_specs, with_format, with_specs
from cutegen.cli.guard import BROKEN, FINDINGS, OK


@click.command()
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

    gathered = gather(select_specs(specs, None))
    errors = [d for d in gathered.diagnostics if d.severity == "error"]
    unread = any(d.code.startswith(("CG0", "CG1")) for d in errors)
    code = BROKEN if unread else FINDINGS if errors else OK
    if form == "json":
        diagnostics = [as_json(d) for d in gathered.diagnostics]
        print_json({"verb": "lint", "ok": not errors, "exit_code": code, "diagnostics": diagnostics})
    else:
        print_diagnostics(gathered.diagnostics, gathered.texts, to_stdout=True)
        if not gathered.diagnostics:
            click.echo(f"{count(len(gathered.units), 'kernel')}, no diagnostics")
    click.get_current_context().exit(code)
