"""The verb `cutegen schema`."""

from __future__ import annotations

from pathlib import Path

import click

from cutegen.cli.common import SpecPath, print_json, select_specs, with_format
from cutegen.exits import OK


@click.command()
@click.argument("specs", nargs=-1, type=SpecPath(), metavar="[SPEC|DIR...]")
@with_format
def schema(specs: tuple[Path, ...], form: str) -> None:
    """Print the JSON Schema (draft 7) of the language; both formats are the same JSON.

    With specs, connect them to editors: write the schema beside them, as .cutegen.schema.json, and the line that names
    it into each spec without one. Repeat this after an upgrade of cutegen, which may extend the language.

    JSON, with specs: {verb, ok, exit_code, schemas, specs}, the files that were written.
    """
    if not specs:
        from cutegen.language.schema import schema_text

        click.echo(schema_text(), nl=False)
        return
    from cutegen.project.editors import connect
    from cutegen.project.paths import shown

    done = connect([spec.file for spec in select_specs(specs, None).files])
    if form == "json":
        schemas, changed = (list(map(shown, paths)) for paths in (done.schemas, done.specs))
        print_json({"verb": "schema", "schemas": schemas, "specs": changed}, OK)
        return
    for path in (*done.schemas, *done.specs):
        click.echo(f"{shown(path)} written")
    if not (done.schemas or done.specs):
        click.echo("all schemas are current")
